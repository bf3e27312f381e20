import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, type ModelMessage, streamText, tool } from 'ai';
import type { Contender } from '../contenders/contender.ts';
import {
  API_KEY,
  BASE_URL,
  INSTRUCTIONS,
  inputSchema,
  MODEL,
  measurePoint,
  TOOL_DESCRIPTION,
  TOOL_NAME,
} from '../contenders/measure-tool.ts';

/** Opens Vercel's AI SDK with a loop from its documentation: no storage, no retries. */
export function openAiSdk(fetch: typeof globalThis.fetch): Contender {
  const provider = createOpenAI({ apiKey: API_KEY, baseURL: BASE_URL, fetch });
  let executions = 0;
  const settings = {
    model: provider.responses(MODEL),
    instructions: INSTRUCTIONS,
    tools: {
      [TOOL_NAME]: tool({
        description: TOOL_DESCRIPTION,
        inputSchema,
        execute: async input => {
          executions += 1;
          return await measurePoint(input);
        },
      }),
    },
    stopWhen: isStepCount(1_000),
    maxRetries: 0,
    providerOptions: { openai: { store: false } },
  };
  return {
    run: async prompt => (await generateText({ ...settings, prompt })).text,
    async read(prompt, onDelta) {
      let text = '';
      for await (const piece of streamText({ ...settings, prompt }).textStream) {
        text += piece;
        onDelta();
      }
      return text;
    },
    converse() {
      const messages: ModelMessage[] = [];
      return async content => {
        messages.push({ role: 'user', content });
        const { text, responseMessages } = await generateText({ ...settings, messages });
        messages.push(...responseMessages);
        return text;
      };
    },
    executions: () => executions,
    close: async () => {},
  };
}
