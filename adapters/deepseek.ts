import type { ModelAdapter } from '../protocol/adapter.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { CHAT_NAMES, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { endpointOf } from './http/connection.ts';
import { type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import type { ResponsesDialect } from './responses/dialect.ts';

/** Options of `deepseek`. */
export type DeepseekOptions = Omit<ResponsesOptions, 'store'> & {
  /** `chat` (default): Chat Completions. `responses`: the Responses API, for v4 and later. */
  api?: 'responses' | 'chat';
};

const ENDPOINT = endpointOf('deepseek', 'https://api.deepseek.com');

const NAMES: NamesOf<DeepseekOptions> = { ...CHAT_NAMES, reasoning: true, api: true };

/**
 * Creates an adapter for DeepSeek. Defaults for key and URL: `DEEPSEEK_API_KEY` and `DEEPSEEK_BASE_URL`.
 *
 * @example
 * const model = deepseek({ model: 'deepseek-chat' });
 */
export function deepseek(options: DeepseekOptions): ModelAdapter {
  refuseUnknownOptions('deepseek', options, NAMES);
  const { api = 'chat', ...connection } = options;
  return api === 'chat' ? chatAdapter(DEEPSEEK_CHAT, connection) : responsesAdapter(DEEPSEEK, connection);
}

/** DeepSeek stores no responses, does not encrypt reasoning, and accepts its reasoning back unchanged. */
const DEEPSEEK: ResponsesDialect = {
  ...ENDPOINT,
  remembers: false,
  customTools: 'client',
  reasons: () => false,
  reasoningReplay: 'content',
  callsTogether: true,
  structuredOutput: 'instructions',
};

/**
 * DeepSeek's Chat Completions dialect. When thinking, every message with calls must have `reasoning_content`
 * (https://api-docs.deepseek.com/guides/thinking_mode).
 */
export const DEEPSEEK_CHAT: ChatDialect = {
  ...ENDPOINT,
  output: 'json_object',
  reasoning: 'required',
  effort: effort => (effort === 'none' ? { thinking: { type: 'disabled' } } : { reasoning_effort: effort }),
};
