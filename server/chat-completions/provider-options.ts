import type { JsonObject } from '../../protocol/json.ts';
import { invalid } from '../responses/api-error.ts';
import type { ChatBody } from './chat-body.ts';

/** The options of a chat request that the Responses API does not have. */
const OPTIONS = ['stop', 'seed', 'logit_bias'] as const;

/** The options that each provider has, with the path of the member in its request body. */
const PROVIDERS: Readonly<Record<string, { readonly [Name in (typeof OPTIONS)[number]]?: string }>> = {
  'openai-chat': { stop: 'stop', seed: 'seed', logit_bias: 'logit_bias' },
  openrouter: { stop: 'stop', seed: 'seed', logit_bias: 'logit_bias' },
  groq: { stop: 'stop', seed: 'seed' },
  cerebras: { stop: 'stop', seed: 'seed' },
  deepseek: { stop: 'stop' },
  mistral: { stop: 'stop', seed: 'random_seed' },
  ollama: { stop: 'options.stop', seed: 'options.seed' },
  anthropic: { stop: 'stop_sequences' },
  gemini: { stop: 'generationConfig.stopSequences', seed: 'generationConfig.seed' },
};

/**
 * The request's `stop`, `seed` and `logit_bias` as members of the provider's request body. Throws a `ResponsesError` for
 * one that the provider does not have, because ignoring it would change the result.
 */
export function providerOptions(body: ChatBody, provider: string): JsonObject | undefined {
  const options: JsonObject = {};
  for (const name of OPTIONS) {
    const value = body[name];
    if (value == null) continue;
    const path = PROVIDERS[provider]?.[name];
    if (path === undefined)
      throw invalid(name, 'unsupported_parameter', `'${name}' is not supported for this model.`);
    const [member = '', inner] = path.split('.');
    const before = options[member];
    options[member] = inner === undefined ? value : { ...(before as JsonObject), [inner]: value };
  }
  return Object.keys(options).length === 0 ? undefined : options;
}
