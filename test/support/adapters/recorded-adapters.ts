import { Anthropic } from '@anthropic-ai/sdk';
import { AzureOpenAI, OpenAI } from 'openai';
import { anthropic } from '../../../adapters/anthropic.ts';
import { azure } from '../../../adapters/azure.ts';
import type { OpenOptions } from '../../../adapters/conformance.ts';
import { deepseek } from '../../../adapters/deepseek.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { groq } from '../../../adapters/groq.ts';
import type { ClientOptions, ProviderClient } from '../../../adapters/http/transport.ts';
import { mistral } from '../../../adapters/mistral.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { openrouter } from '../../../adapters/openrouter.ts';
import { xai } from '../../../adapters/xai.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { RecordedTurn } from './recordings.ts';

type Options = OpenOptions & { model: string; providerOptions?: JsonObject } & ClientOptions;

/** The adapter for each provider and dialect with recordings. */
const ADAPTERS: Record<string, (options: Options) => ModelAdapter> = {
  'openai-responses responses': openaiResponses,
  'openai-chat chat': openaiChat,
  'anthropic anthropic': anthropic,
  'gemini gemini': gemini,
  'groq chat': groq,
  'mistral chat': mistral,
  'xai responses': options => xai({ ...options, api: 'responses' }),
  'xai chat': options => xai({ ...options, api: 'chat' }),
  'deepseek responses': options => deepseek({ ...options, api: 'responses' }),
  'deepseek chat': options => deepseek({ ...options, api: 'chat' }),
  'ollama ollama': options => ollama({ ...options, api: 'native' }),
  'ollama chat': options => ollama({ ...options, api: 'chat' }),
  'openrouter chat': openrouter,
  'azure responses': options => azure({ ...options, api: 'responses' }),
  'azure chat': options => azure({ ...options, api: 'chat' }),
};

type ClientSettings = Pick<OpenOptions, 'apiKey' | 'baseURL' | 'fetch'>;

/** The official client of a recorded turn's provider; `undefined` if its dialect has none. */
export function clientFor(
  { provider, format }: RecordedTurn,
  settings: ClientSettings,
): ProviderClient | undefined {
  if (format === 'anthropic') return new Anthropic(settings);
  if (provider === 'ollama' || (format !== 'responses' && format !== 'chat')) return undefined;
  return provider === 'azure'
    ? new AzureOpenAI({ ...settings, apiVersion: 'preview' })
    : new OpenAI(settings);
}

/** The adapter for the dialect of a recorded turn. */
export function openRecorded(turn: RecordedTurn, options: Options): ModelAdapter {
  const open = ADAPTERS[`${turn.provider} ${turn.format}`];
  if (!open) throw new RangeError(`No adapter is named for ${turn.provider} in the dialect ${turn.format}.`);
  return open(options);
}
