import type { ModelAdapter } from '../protocol/adapter.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { endpointOf } from './http/connection.ts';
import { RESPONSES_NAMES, type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import type { ResponsesDialect } from './responses/dialect.ts';

/** Options of `xai`. */
export type XaiOptions = ResponsesOptions & {
  /**
   * `responses` (default): supports reasoning replay, xAI's own tools and continuation. `chat`: Chat
   * Completions.
   */
  api?: 'responses' | 'chat';
};

const ENDPOINT = endpointOf('xai', 'https://api.x.ai/v1');

const NAMES: NamesOf<XaiOptions> = { ...RESPONSES_NAMES, api: true };

/**
 * Creates an adapter for xAI. Defaults for key and URL: `XAI_API_KEY` and `XAI_BASE_URL`.
 *
 * @example
 * const model = xai({ model: 'grok-4' });
 */
export function xai(options: XaiOptions): ModelAdapter {
  refuseUnknownOptions('xai', options, NAMES);
  const { api = 'responses', ...connection } = options;
  return api === 'chat' ? chatAdapter(XAI_CHAT, connection) : responsesAdapter(XAI, connection);
}

/**
 * xAI refuses instructions together with `previous_response_id` (https://docs.x.ai/docs/api-reference). Calls
 * of its own tools also appear as `custom_tool_call`s, all of them already executed.
 */
const XAI: ResponsesDialect = {
  ...ENDPOINT,
  remembers: true,
  keepsInstructions: true,
  customTools: 'provider',
  reasons: model => !/non-reasoning|^grok-(?:2|3(?!-mini))/.test(model),
};

/** xAI's Chat Completions dialect. */
export const XAI_CHAT: ChatDialect = {
  ...ENDPOINT,
  maxTokensMember: () => 'max_completion_tokens',
};
