import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import type { ResponsesError } from '../api-error.ts';

/** Parameters of other protocols that the Responses API does not have and only some providers take. */
type SamplingOption = 'stop' | 'seed' | 'logit_bias' | 'top_k';

/** The options that each provider has, with the path of the member in its request body. */
const PROVIDERS: Readonly<Record<string, { readonly [Name in SamplingOption]?: string }>> = {
  'openai-chat': { stop: 'stop', seed: 'seed', logit_bias: 'logit_bias' },
  openrouter: { stop: 'stop', seed: 'seed', logit_bias: 'logit_bias', top_k: 'top_k' },
  groq: { stop: 'stop', seed: 'seed' },
  cerebras: { stop: 'stop', seed: 'seed' },
  deepseek: { stop: 'stop' },
  mistral: { stop: 'stop', seed: 'random_seed' },
  ollama: { stop: 'options.stop', seed: 'options.seed', top_k: 'options.top_k' },
  anthropic: { stop: 'stop_sequences', top_k: 'top_k' },
  gemini: {
    stop: 'generationConfig.stopSequences',
    seed: 'generationConfig.seed',
    top_k: 'generationConfig.topK',
  },
};

/**
 * The options as members of the provider's request body; absent values are left out. Throws what `refuse` returns for an
 * option that the provider does not have, because ignoring it would change the result.
 */
export function samplingOptions(
  values: { readonly [Name in SamplingOption]?: JsonValue | undefined },
  provider: string,
  refuse: (name: SamplingOption) => ResponsesError,
): JsonObject {
  const options: JsonObject = {};
  for (const [name, value] of Object.entries(values) as [SamplingOption, JsonValue | undefined][]) {
    if (value == null) continue;
    const path = PROVIDERS[provider]?.[name];
    if (path === undefined) throw refuse(name);
    const [member = '', inner] = path.split('.');
    const before = options[member];
    options[member] = inner === undefined ? value : { ...(before as JsonObject), [inner]: value };
  }
  return options;
}
