import type { ChatDialect } from '../dialect.ts';
import { isOpenaiModel, OPENAI_CALL_IDS } from '../openai-models.ts';

/** Azure's Chat Completions, for OpenAI's models and those of other makers in Foundry. */
export const AZURE_CHAT: ChatDialect = {
  provider: 'azure',
  keyVariables: ['AZURE_API_KEY', 'AZURE_OPENAI_API_KEY'],
  baseURLVariable: 'AZURE_BASE_URL',
  maxTokensMember: model => (isOpenaiModel(model) ? 'max_completion_tokens' : 'max_tokens'),
  callIds: OPENAI_CALL_IDS,
  reasoning: 'member',
};
