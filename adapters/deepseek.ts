import type { ModelAdapter } from '../protocol/adapter.ts';
import { chatAdapter } from './chat/adapter.ts';
import { DEEPSEEK_CHAT } from './chat/dialects/deepseek.ts';
import { type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import type { ResponsesDialect } from './responses/dialect.ts';

export type DeepseekOptions = Omit<ResponsesOptions, 'store'> & {
  /** `chat` (default): Chat Completions. `responses`: the Responses API of v4 and later. */
  api?: 'responses' | 'chat';
};

/** DeepSeek. Key and URL come from `DEEPSEEK_API_KEY` and `DEEPSEEK_BASE_URL` where the options do not say. */
export function deepseek({ api = 'chat', ...options }: DeepseekOptions): ModelAdapter {
  return api === 'chat' ? chatAdapter(DEEPSEEK_CHAT, options) : responsesAdapter(DEEPSEEK, options);
}

/** It keeps nothing, encrypts nothing, and takes its reasoning back as it came. */
const DEEPSEEK: ResponsesDialect = {
  provider: 'deepseek',
  keyVariables: ['DEEPSEEK_API_KEY'],
  baseURLVariable: 'DEEPSEEK_BASE_URL',
  defaultBaseURL: 'https://api.deepseek.com',
  remembers: false,
  customTools: 'client',
  reasons: () => false,
  reasoningReplay: 'content',
  callsTogether: true,
  structuredOutput: 'instructions',
};
