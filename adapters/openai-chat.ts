import type { ModelAdapter } from '../protocol/adapter.ts';
import { type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { isOpenaiModel, OPENAI_CALL_IDS, OPENAI_ENDPOINT } from './http/openai.ts';

/**
 * OpenAI's Chat Completions, and whatever speaks them at another base URL. Key, URL, organization and
 * project come from `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` where
 * the options do not say.
 */
export function openaiChat(options: ChatOptions): ModelAdapter {
  return chatAdapter(OPENAI_CHAT, options);
}

/** OpenAI itself tells no reasoning; servers that do want it back beside the calls it led to. */
const OPENAI_CHAT: ChatDialect = {
  ...OPENAI_ENDPOINT,
  provider: 'openai-chat',
  role: roleAtOpenai,
  maxTokensMember: model => (isOpenaiModel(model) ? 'max_completion_tokens' : 'max_tokens'),
  callIds: OPENAI_CALL_IDS,
  reasoning: 'member',
};

/** Only OpenAI's own models know developers, and the first reasoning ones not even systems. */
function roleAtOpenai(role: 'system' | 'developer', model: string): 'system' | 'developer' | 'user' {
  if (/^o1-(?:mini|preview)/.test(model)) return 'user';
  return isOpenaiModel(model) ? role : 'system';
}
