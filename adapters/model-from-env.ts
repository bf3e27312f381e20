import type { ModelAdapter } from '../protocol/adapter.ts';
import { EngineError, ProviderError } from '../protocol/error.ts';
import { anthropic } from './anthropic.ts';
import { azure } from './azure.ts';
import { cerebras } from './cerebras.ts';
import { deepseek } from './deepseek.ts';
import { gemini } from './gemini.ts';
import { groq } from './groq.ts';
import { harmony } from './harmony.ts';
import { type ConnectionOptions, readVariable } from './http/connection.ts';
import { mistral } from './mistral.ts';
import { ollama } from './ollama.ts';
import { openaiChat } from './openai-chat.ts';
import { openaiResponses } from './openai-responses.ts';
import { openrouter } from './openrouter.ts';
import { scripted } from './scripted.ts';
import { vllm } from './vllm.ts';
import { xai } from './xai.ts';

/** What adapters take beside the name of their model. */
export type FromEnvOptions = Pick<ConnectionOptions, 'fetch'>;

/** The providers, by their name in a model string. No connection is opened before the first call. */
const PROVIDERS: ReadonlyMap<string, (options: { model: string } & FromEnvOptions) => ModelAdapter> = new Map(
  [
    ['openai', openaiResponses],
    ['openai-responses', openaiResponses],
    ['openai-chat', openaiChat],
    ['anthropic', anthropic],
    ['gemini', gemini],
    ['gemini-interactions', options => gemini({ ...options, api: 'interactions' })],
    ['groq', groq],
    ['mistral', mistral],
    ['xai', xai],
    ['deepseek', deepseek],
    ['ollama', ollama],
    ['openrouter', openrouter],
    ['azure', azure],
    ['cerebras', cerebras],
    ['harmony', harmony],
    ['vllm', vllm],
    ['scripted', ({ model: file }) => scripted({ file })],
  ],
);

/** Returns the provider names that a model string can have before its colon. */
export function providerNames(): string[] {
  return [...PROVIDERS.keys()];
}

const EXAMPLES = 'openai:gpt-5, or scripted:turns.json for a script';

/**
 * Creates the adapter for a model string like `openai:gpt-5` or `scripted:FILE`; default: `AGENTCHART_MODEL`.
 * Throws an `EngineError` `model-missing` if none is set and `script-invalid` for a script that cannot be
 * loaded, and a `ProviderError` `model-unknown` for an unknown provider or a missing model name. Keys are
 * read at the first call.
 *
 * @example
 * const model = modelFromEnv('openai:gpt-5');
 */
export function modelFromEnv(
  value: string | undefined = readVariable('AGENTCHART_MODEL'),
  options: FromEnvOptions = {},
): ModelAdapter {
  const text = value?.trim() ?? '';
  if (text === '') {
    throw new EngineError(
      'model-missing',
      `No model is configured. Set AGENTCHART_MODEL to provider:model, such as ${EXAMPLES}.`,
    );
  }
  const colon = text.indexOf(':');
  const provider = colon === -1 ? text : text.slice(0, colon);
  const model = colon === -1 ? '' : text.slice(colon + 1);
  const open = PROVIDERS.get(provider);
  if (open && model !== '') return open({ ...options, model });
  const problem = open
    ? 'names a provider but no model. Expected provider:model, such as'
    : `${colon === -1 ? 'names no provider' : `names the unknown provider "${provider}"`}. Expected provider:model with one of ${providerNames().join(', ')}; for example`;
  const details = { code: 'model-unknown', provider, model } as const;
  throw new ProviderError(`The model "${text}" ${problem} ${EXAMPLES}.`, details);
}
