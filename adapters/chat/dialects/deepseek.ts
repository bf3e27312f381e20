import type { ChatDialect } from '../dialect.ts';

/**
 * DeepSeek's Chat Completions. While it thinks, every message with calls must have its
 * `reasoning_content` (https://api-docs.deepseek.com/guides/thinking_mode).
 */
export const DEEPSEEK_CHAT: ChatDialect = {
  provider: 'deepseek',
  keyVariables: ['DEEPSEEK_API_KEY'],
  baseURLVariable: 'DEEPSEEK_BASE_URL',
  defaultBaseURL: 'https://api.deepseek.com',
  output: 'json_object',
  reasoning: 'required',
  effort: effort => (effort === 'none' ? { thinking: { type: 'disabled' } } : { reasoning_effort: effort }),
};
