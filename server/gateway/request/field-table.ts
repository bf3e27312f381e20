/**
 * What the gateway does with each field of a request, for the three APIs. A field that is in none of these tables is refused
 * by name. `npm run docs` writes docs/request-fields.md from them.
 */
import { ANTHROPIC } from '../../../adapters/anthropic/messages.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { OPENAI, OPENAI_CHAT } from './gateway-request.ts';
import { providersWith } from './shared-parameters.ts';

export type FieldRule = {
  /**
   * `used`: it means the same as in the API that it comes from. `hint`: it has no effect on what the answer means, and
   * is ignored; a response header and the log name it. `refused`: without it the answer would mean something else.
   */
  readonly fate: Fate;
  /** What becomes of it, or why nothing does. */
  readonly note?: string;
  /** It is used only with models of these providers. `else`: its fate with others. */
  readonly only?: { readonly providers: readonly string[]; readonly else: Exclude<Fate, 'used'> };
  /** Values that ask for nothing, so that they are accepted where others are refused or ignored. */
  readonly unless?: readonly JsonValue[];
  /** Of the object, or of each object of the list. */
  readonly members?: FieldRules;
  /**
   * As `members`, by the `type` of the object, also with a suffix such as `_20250305`. An object without a type is of the
   * first. One of another type is left to the schema, which refuses it.
   */
  readonly kinds?: Readonly<Record<string, FieldRules>>;
  /** The code of the refusal, where clients look for it. */
  readonly code?: string;
};

type Fate = 'used' | 'hint' | 'refused';

export type FieldRules = Readonly<Record<string, FieldRule>>;

const used = (note?: string): FieldRule => ({ fate: 'used', ...(note !== undefined && { note }) });
const usedWith = <const Members extends FieldRules>(members: Members, note?: string) => ({
  ...used(note),
  members,
});
const usedPerType = <const Kinds extends NonNullable<FieldRule['kinds']>>(kinds: Kinds) => ({
  ...used(),
  kinds,
});
const hint = (note: string, unless?: readonly JsonValue[]): FieldRule => ({
  fate: 'hint',
  note,
  ...(unless && { unless }),
});
const refused = (note: string, unless?: readonly JsonValue[]): FieldRule => ({
  fate: 'refused',
  note,
  ...(unless && { unless }),
});
const usedFor = (
  providers: readonly string[],
  elsewhere: Exclude<Fate, 'used'>,
  note?: string,
  unless?: readonly JsonValue[],
): FieldRule => ({
  ...used(note),
  only: { providers, else: elsewhere },
  ...(unless && { unless }),
});

/** Fields that are used and need no note. */
function plain<const Names extends string>(names: Names) {
  const rules = names.split(' ').map(name => [name, used()] as const);
  return Object.fromEntries(rules) as { [Name in Split<Names>]: FieldRule };
}
type Split<Names extends string> = Names extends `${infer First} ${infer Rest}` ? First | Split<Rest> : Names;

/** Anthropic's tool runner asks for a thread first, and sends the whole history when it is refused with this code. */
export const NO_THREADS = 'thread_unsupported_request';

const sampling = 'the distribution that tokens are drawn from';

const OF_ANTHROPIC = [ANTHROPIC];
const RESPONSES = [OPENAI];
const OF_OPENAI = [OPENAI, OPENAI_CHAT];

/** Providers whose Chat Completions take penalties. */
const PENALTIES = 'openai-chat groq mistral deepseek openrouter cerebras harmony vllm'.split(' ');

/** Parameters of OpenAI's two APIs, which providers that have them get as they are. */
const openai = {
  presence_penalty: usedFor(PENALTIES, 'refused', undefined, [0]),
  frequency_penalty: usedFor(PENALTIES, 'refused', undefined, [0]),
  service_tier: usedFor(OF_OPENAI, 'hint', 'price and speed', ['auto', 'default']),
  safety_identifier: usedFor(OF_OPENAI, 'hint', "for OpenAI's detection of abuse"),
  prompt_cache_key: usedFor(
    [...OF_OPENAI, 'azure', 'mistral', 'xai'],
    'hint',
    "the price of the input; without it, the client's session is the key",
  ),
  prompt_cache_options: {
    ...usedFor(OF_OPENAI, 'hint', 'the price of the input'),
    members: {
      ...plain('mode ttl'),
      prewarm: refused('a request that only fills a cache would have no answer', [false]),
      comparison_response_id: hint("a diagnosis of OpenAI's cache"),
    },
  },
  prompt_cache_retention: usedFor(OF_OPENAI, 'hint', 'the price of the input'),
  user: hint('deprecated by OpenAI; it is kept and shown with the response, and not sent on'),
};

const callers = refused('programs of OpenAI run only functions here', [['direct']]);
const cacheMark = hint('this API has no marks; the server sets its own');

export const RESPONSES_FIELDS = {
  ...plain('background conversation include input instructions max_output_tokens max_tool_calls model'),
  ...plain('parallel_tool_calls previous_response_id store stream temperature top_p'),
  ...openai,
  metadata: used('kept with the response, and shown'),
  context_management: usedWith(plain('type compact_threshold')),
  reasoning: usedWith({
    effort: used(),
    summary: usedFor(RESPONSES, 'hint', 'others show what reasoning they give'),
    generate_summary: hint('the deprecated name of `summary`'),
    context: usedFor(RESPONSES, 'hint', "elsewhere it is the provider's default", ['auto']),
    mode: refused('reasoning has one mode here', ['standard']),
  }),
  text: usedWith({
    format: usedPerType({
      text: plain('type'),
      json_object: plain('type'),
      json_schema: plain('type name schema description strict'),
    }),
    verbosity: usedFor(OF_OPENAI, 'hint', 'the length of the text'),
  }),
  stream_options: usedWith({
    include_obfuscation: hint('streams are not padded', [false]),
    reasoning_summary_delivery: hint('summaries are streamed as the provider sends them'),
  }),
  tools: usedPerType({
    function: plain(
      'type name description parameters strict defer_loading async allowed_callers output_schema',
    ),
    custom: { ...plain('type name description format defer_loading async'), allowed_callers: callers },
    mcp: {
      ...plain('type server_label server_url authorization headers server_description allowed_tools'),
      ...plain('require_approval defer_loading connector_id'),
      allowed_callers: callers,
      tunnel_id: refused("tunnels are OpenAI's"),
    },
    namespace: plain('type name description tools'),
    web_search: plain(
      'type filters user_location search_context_size external_web_access search_content_types',
    ),
    file_search: plain('type vector_store_ids max_num_results ranking_options filters'),
    code_interpreter: { ...plain('type container'), allowed_callers: callers },
    shell: plain('type environment allowed_callers'),
    local_shell: plain('type'),
    apply_patch: plain('type allowed_callers'),
    computer: plain('type display_height display_width environment'),
    tool_search: plain('type description execution parameters'),
    programmatic_tool_calling: plain('type'),
  }),
  tool_choice: usedPerType({
    function: plain('type name namespace'),
    custom: plain('type name namespace'),
    mcp: plain('type name server_label'),
    allowed_tools: plain('type mode tools'),
  }),
  truncation: usedFor(RESPONSES, 'hint', 'elsewhere a request that is too long fails', ['disabled']),
  top_logprobs: refused('log probabilities are not supported', [0]),
  prompt: refused("stored prompts are in OpenAI's dashboard; send the text as `instructions` and `input`"),
  moderation: refused("the answer would have OpenAI's judgement of it"),
  background_options: hint('when OpenAI runs background work, and its price; here it begins at once'),
  access_programs: hint('what an organization may use at OpenAI'),
  image: hint('how OpenAI compresses images'),
  client_metadata: hint('what the client says about itself'),
  request_country: hint('where the client is'),
} satisfies FieldRules;

const thinkingSwitch = 'whether and how much the model thinks; `reasoning_effort` counts first';
const shown = hint('reasoning is in `reasoning_content` where the provider shows it');
const routing = 'which of its hosts a router of other providers asks';

export const CHAT_FIELDS = {
  ...plain(
    'max_completion_tokens max_tokens messages model parallel_tool_calls reasoning_effort store stream',
  ),
  ...plain('temperature top_p'),
  ...openai,
  metadata: hint('kept with the run; a completion cannot be retrieved'),
  response_format: usedWith({
    type: used(),
    json_schema: usedWith(plain('name schema description strict')),
  }),
  stream_options: usedWith({
    include_usage: used(),
    include_obfuscation: hint('streams are not padded', [false]),
  }),
  tools: usedPerType({
    function: {
      type: used(),
      function: usedWith(plain('name description parameters strict defer_loading')),
      cache_control: cacheMark,
    },
    custom: {
      type: used(),
      custom: usedWith(plain('name description format defer_loading')),
      cache_control: cacheMark,
    },
  }),
  tool_choice: usedPerType({
    function: plain('type function'),
    custom: plain('type custom'),
    allowed_tools: plain('type allowed_tools'),
  }),
  verbosity: usedFor(OF_OPENAI, 'hint', 'the length of the text'),
  web_search_options: usedWith(plain('search_context_size user_location')),
  stop: usedFor(providersWith('stop'), 'refused', undefined, [[]]),
  seed: usedFor(providersWith('seed'), 'refused'),
  logit_bias: usedFor(providersWith('logit_bias'), 'refused', undefined, [{}]),
  top_k: usedFor(providersWith('top_k'), 'refused', sampling),
  n: refused('there is one answer', [1]),
  logprobs: refused('log probabilities are not supported', [false]),
  top_logprobs: refused('log probabilities are not supported', [0]),
  modalities: refused('answers are texts', [['text'], []]),
  audio: refused('answers are texts'),
  moderation: refused("the answer would have OpenAI's judgement of it"),
  functions: refused('it is deprecated; send `tools`'),
  function_call: refused('it is deprecated; send `tool_choice`'),
  prediction: hint('only the speed'),
  // Of other providers of Chat Completions, as their clients send them.
  reasoning: usedWith(
    {
      ...plain('effort enabled'),
      max_tokens: hint('a limit of the thinking alone'),
      summary: hint('others show what reasoning they give'),
      exclude: shown,
    },
    thinkingSwitch,
  ),
  thinking: usedWith(
    {
      type: used(),
      budget_tokens: hint('a limit of the thinking alone'),
      clear_thinking: hint("which reasoning the model sees again is the provider's default"),
    },
    thinkingSwitch,
  ),
  enable_thinking: used(thinkingSwitch),
  chat_template_kwargs: usedWith(
    {
      ...plain('enable_thinking thinking reasoning_effort'),
      preserve_thinking: hint("which reasoning the model sees again is the provider's default"),
      clear_thinking: hint("which reasoning the model sees again is the provider's default"),
    },
    'of Qwen and others; another member would change the prompt',
  ),
  thinking_budget: hint('a limit of the thinking alone'),
  preserve_thinking: hint("which reasoning the model sees again is the provider's default"),
  include_reasoning: shown,
  reasoning_format: shown,
  reasoning_split: shown,
  tool_stream: hint('calls are streamed complete'),
  min_p: refused(sampling, [0]),
  top_a: refused(sampling, [0]),
  repetition_penalty: refused(sampling, [1]),
  models: hint("the server's configuration names the models that stand in for others"),
  route: hint(routing),
  provider: hint(routing),
  providerOptions: hint(routing),
  transforms: hint('elsewhere a request that is too long fails', [[]]),
  usage: hint('usage is part of the completion'),
  session_id: hint('what the client says about itself'),
  priority: hint('price and speed'),
  cache_control: cacheMark,
} satisfies FieldRules;

const thinkingMembers = {
  ...plain('type budget_tokens display'),
  block_binding: usedFor(OF_ANTHROPIC, 'hint', 'other providers bind no thinking'),
};

export const MESSAGES_FIELDS = {
  ...plain('max_tokens messages model stream system temperature top_p'),
  tools: usedPerType({
    custom: {
      ...plain('type name description input_schema strict allowed_callers defer_loading'),
      cache_control: usedFor(OF_ANTHROPIC, 'hint', 'the price of the input'),
      eager_input_streaming: hint('calls are streamed complete'),
      input_examples: hint('models read the schema and the description'),
    },
    tool_search_tool: plain('type name allowed_callers cache_control'),
    web_search: {
      ...plain('type name allowed_domains blocked_domains max_uses user_location allowed_callers'),
      ...plain('defer_loading'),
      cache_control: usedFor(OF_ANTHROPIC, 'hint', 'the price of the input'),
      response_inclusion: hint('searches are part of the answer'),
      strict: hint("the search is this server's"),
    },
  }),
  tool_choice: usedPerType({
    auto: plain('type disable_parallel_tool_use'),
    any: plain('type disable_parallel_tool_use'),
    tool: plain('type name disable_parallel_tool_use'),
    none: plain('type disable_parallel_tool_use'),
  }),
  thinking: usedWith(thinkingMembers, 'see docs/messages.md'),
  output_config: usedWith({
    ...plain('effort format'),
    task_budget: usedFor(OF_ANTHROPIC, 'hint', 'the budget that the model sees'),
  }),
  output_format: used('deprecated by Anthropic; `output_config.format` counts first'),
  stop_sequences: usedFor(providersWith('stop'), 'refused', undefined, [[]]),
  top_k: usedFor(providersWith('top_k'), 'refused', sampling),
  metadata: usedWith({
    user_id: usedFor([...OF_ANTHROPIC, ...OF_OPENAI], 'hint', "for the provider's detection of abuse"),
  }),
  service_tier: usedFor([...OF_ANTHROPIC, ...OF_OPENAI], 'hint', 'price and speed', ['auto']),
  cache_control: usedFor(OF_ANTHROPIC, 'hint', 'the price of the input'),
  speed: usedFor(OF_ANTHROPIC, 'hint', 'price and speed', ['standard']),
  fallbacks: usedFor(OF_ANTHROPIC, 'hint', 'models that answer where the first refuses', [[]]),
  fallback_credit_token: hint('the price of the input'),
  diagnostics: hint("a diagnosis of Anthropic's cache"),
  context_hint: hint('that the server may refuse the request until its context is smaller'),
  inference_geo: hint('where Anthropic runs the model'),
  billing_policy: hint('whom Anthropic bills'),
  betas: hint('SDKs send it as a header, which has no effect'),
  user_profile_id: hint('SDKs send it as a header, which has no effect'),
  workspace_id: hint('SDKs send it as a header, which has no effect'),
  context_management: used('see docs/messages.md'),
  compaction: refused('the answer would be a summary'),
  container: refused('code does not run in containers of Anthropic'),
  mcp_servers: refused("the server's configuration names the MCP servers", [[]]),
  thread: { ...refused('conversations are not kept here; send all messages'), code: NO_THREADS },
  safeguards: refused("the answer would have Anthropic's judgement of it", [[]]),
} satisfies FieldRules;

/** What `POST /v1/responses/compact` reads of a request. */
const COMPACTED = [
  ...['model', 'input', 'previous_response_id', 'instructions', 'service_tier'],
  ...['prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention'],
];

const COMPACT_FIELDS: FieldRules = Object.fromEntries(
  Object.entries<FieldRule>(RESPONSES_FIELDS).map(([name, rule]) => [
    name,
    COMPACTED.includes(name) || rule.fate !== 'used' ? rule : hint('a compaction has no answer'),
  ]),
);

/** The members of a body that a compaction reads. One that is `null` counts as absent. */
export function compactedMembers(body: JsonObject): JsonObject {
  const given = Object.entries(body).filter(([name, value]) => value !== null && COMPACTED.includes(name));
  return Object.fromEntries(given);
}

export type RequestApi = 'responses' | 'compact' | 'chat' | 'messages';

export const REQUEST_FIELDS: Readonly<Record<RequestApi, FieldRules>> = {
  responses: RESPONSES_FIELDS,
  compact: COMPACT_FIELDS,
  chat: CHAT_FIELDS,
  messages: MESSAGES_FIELDS,
};

/** Whether models of the provider get a parameter of OpenAI's two APIs. */
export function isTakenBy(provider: string, name: string): boolean {
  const rules: FieldRules = openai;
  return rules[name]?.only?.providers.includes(provider) ?? false;
}
