import type { ChatDialect } from '../dialect.ts';

/** xAI's Chat Completions. */
export const XAI_CHAT: ChatDialect = {
  provider: 'xai',
  keyVariables: ['XAI_API_KEY'],
  baseURLVariable: 'XAI_BASE_URL',
  defaultBaseURL: 'https://api.x.ai/v1',
  maxTokensMember: () => 'max_completion_tokens',
};
