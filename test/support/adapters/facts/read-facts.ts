import type { JsonObject } from '../../../../protocol/json.ts';
import type { Format } from '../recordings.ts';
import type { Fact } from './fact.ts';
import { readAnthropic } from './read-anthropic.ts';
import { readChat } from './read-chat.ts';
import { readGemini } from './read-gemini.ts';
import { readHarmonyPrompt } from './read-harmony.ts';
import { readInteractions } from './read-interactions.ts';
import { readOllama } from './read-ollama.ts';
import { readResponses } from './read-responses.ts';

const READERS: Record<Format, (body: JsonObject) => Fact[]> = {
  responses: readResponses,
  chat: readChat,
  anthropic: readAnthropic,
  gemini: readGemini,
  interactions: readInteractions,
  ollama: readOllama,
  harmony: readHarmonyPrompt,
};

/** The facts of a request, in order. */
export function readFacts(format: Format, body: JsonObject): Fact[] {
  return READERS[format](body);
}
