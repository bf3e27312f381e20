import type { ModelAdapter } from '../protocol/adapter.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { CHAT_NAMES, type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { isOpenaiModel, OPENAI_CALL_IDS, OPENAI_ENDPOINT } from './http/openai.ts';
import { type PromptCache, promptCacheMembers } from './http/prompt-cache.ts';
import { mergeOptions } from './turn/json-access.ts';

/**
 * Creates an adapter for OpenAI's Chat Completions API, or a compatible server at another base URL. Defaults
 * for key, URL, organization and project: `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_ORG_ID` and
 * `OPENAI_PROJECT_ID`.
 *
 * @example
 * const model = openaiChat({ model: 'my-model', baseURL: 'http://localhost:8000/v1', apiKey: 'none' });
 */
export function openaiChat(options: OpenaiChatOptions): ModelAdapter {
  refuseUnknownOptions('openaiChat', options, NAMES);
  const { promptCache, ...others } = options;
  const members = promptCacheMembers('openaiChat', promptCache, ['30m']);
  return chatAdapter(
    { ...OPENAI_CHAT, breakpoints: promptCache?.mode === 'explicit' },
    { ...others, providerOptions: mergeOptions(members, others.providerOptions) },
  );
}

/** Options of `openaiChat`. */
export type OpenaiChatOptions = ChatOptions & { promptCache?: PromptCache };

const NAMES: NamesOf<OpenaiChatOptions> = { ...CHAT_NAMES, promptCache: true };

/** OpenAI itself sends no reasoning; compatible servers that do expect it back with the calls it led to. */
const OPENAI_CHAT: ChatDialect = {
  ...OPENAI_ENDPOINT,
  provider: 'openai-chat',
  role: roleAtOpenai,
  maxTokensMember: model => (isOpenaiModel(model) ? 'max_completion_tokens' : 'max_tokens'),
  callIds: OPENAI_CALL_IDS,
  reasoning: 'member',
};

/** Only OpenAI's own models know the role `developer`; its first reasoning models do not know `system` either. */
function roleAtOpenai(role: 'system' | 'developer', model: string): 'system' | 'developer' | 'user' {
  if (/^o1-(?:mini|preview)/.test(model)) return 'user';
  return isOpenaiModel(model) ? role : 'system';
}
