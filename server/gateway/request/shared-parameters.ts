/** Parameters that several of the three APIs have. */
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { type JsonObject, type JsonValue, omitNull } from '../../../protocol/json.ts';
import { fields, maybe, object, openFields } from '../../fields.ts';
import type { ResponsesError } from '../../openai-error.ts';

const openaiParameters = {
  presence_penalty: maybe(z.number()),
  frequency_penalty: maybe(z.number()),
  metadata: maybe(z.record(z.string().max(64), z.string().max(512))),
  service_tier: maybe(z.string()),
  safety_identifier: maybe(z.string()),
  prompt_cache_key: maybe(z.string()),
  prompt_cache_options: maybe(
    fields({
      mode: maybe(z.enum(['implicit', 'explicit'], 'expected "implicit" or "explicit"')),
      ttl: maybe(z.string()),
    }),
  ),
  prompt_cache_retention: maybe(z.string()),
  user: maybe(z.string()),
};
const OPENAI_PARAMETERS = Object.keys(openaiParameters) as (keyof typeof openaiParameters)[];

/** Those that mean the same in OpenAI's two APIs. */
export const sharedParameters = {
  model: maybe(z.string().min(1)),
  parallel_tool_calls: maybe(z.boolean()),
  temperature: maybe(z.number().min(0).max(2)),
  top_p: maybe(z.number().min(0).max(1)),
  ...openaiParameters,
  store: maybe(z.boolean()),
  stream: maybe(z.boolean()),
};
const shared = z.object(sharedParameters);
type Shared = z.infer<typeof shared>;

const DETAILS = ['low', 'high', 'auto', 'original'] as const;
export const detail = maybe(z.enum(DETAILS, `expected ${DETAILS.join(', ')}`));

/** `body` is what a schema with these parameters returned. */
export function readShared(body: Shared) {
  const { model, parallel_tool_calls, temperature, top_p, store, stream } = body;
  return {
    ...omitNull({ model, store, stream }),
    settings: omitNull({ temperature, topP: top_p, parallelToolCalls: parallel_tool_calls }),
    openai: omitNull(pickOpenAI(body)),
  };
}

function pickOpenAI(body: Shared) {
  return Object.fromEntries(OPENAI_PARAMETERS.map(name => [name, body[name]])) as Pick<
    Shared,
    (typeof OPENAI_PARAMETERS)[number]
  >;
}

const format = z.union(
  [
    openFields({ type: z.literal('text') }),
    openFields({ type: z.literal('json_object') }),
    openFields({
      type: z.literal('json_schema'),
      name: z.string().min(1),
      schema: object,
      description: maybe(z.string()),
      strict: maybe(z.boolean()),
    }),
  ],
  'expected { "type": "text" }, { "type": "json_object" } or { "type": "json_schema", "name", "schema" }',
);

export const textOptions = openFields({ format: maybe(format), verbosity: maybe(z.string()) });

export const tokens = z.number().int().positive();

/** Parameters that the Responses API does not have and only some providers take. */
type SamplingOption = 'stop' | 'seed' | 'logit_bias' | 'top_k';

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
  'gemini-interactions': { stop: 'generation_config.stop_sequences', seed: 'generation_config.seed' },
};

export function providersWith(name: SamplingOption): string[] {
  return Object.keys(PROVIDERS).filter(provider => PROVIDERS[provider]?.[name] !== undefined);
}

/** As members of the provider's request body. Throws what `refuse` returns for an option that it does not have. */
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

/** Providers whose adapters translate the effort `none` for every model. OpenAI's older models refuse it. */
const TAKE_NONE: readonly string[] =
  'anthropic gemini gemini-interactions groq mistral deepseek openrouter ollama'.split(' ');

export function takesNoEffort(provider: string): boolean {
  return TAKE_NONE.includes(provider);
}

/** OpenAI's ids of users and caches have at most 64 characters: a longer one becomes its digest. */
export function fitId(id: string): string {
  return id.length <= 64 ? id : createHash('sha256').update(id).digest('hex');
}
