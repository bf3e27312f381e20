import type { ModelAdapter } from '../protocol/adapter.ts';
import { chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import type { ResponsesDialect } from './responses/dialect.ts';

export type XaiOptions = ResponsesOptions & {
  /** `responses` (default): reasoning goes back, xAI's own tools, continuation. `chat`: Chat Completions. */
  api?: 'responses' | 'chat';
};

/** xAI. Key and URL come from `XAI_API_KEY` and `XAI_BASE_URL` where the options do not say. */
export function xai({ api = 'responses', ...options }: XaiOptions): ModelAdapter {
  return api === 'chat' ? chatAdapter(XAI_CHAT, options) : responsesAdapter(XAI, options);
}

/**
 * Instructions are refused beside `previous_response_id` (https://docs.x.ai/docs/api-reference). Its
 * own tools also show as `custom_tool_call`s, all of them over.
 */
const XAI: ResponsesDialect = {
  provider: 'xai',
  keyVariables: ['XAI_API_KEY'],
  baseURLVariable: 'XAI_BASE_URL',
  defaultBaseURL: 'https://api.x.ai/v1',
  remembers: true,
  keepsInstructions: true,
  customTools: 'provider',
  reasons: model => !/non-reasoning|^grok-(?:2|3(?!-mini))/.test(model),
};

/** xAI's Chat Completions. */
export const XAI_CHAT: ChatDialect = {
  provider: 'xai',
  keyVariables: ['XAI_API_KEY'],
  baseURLVariable: 'XAI_BASE_URL',
  defaultBaseURL: 'https://api.x.ai/v1',
  maxTokensMember: () => 'max_completion_tokens',
};
