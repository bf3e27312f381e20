import type { ChatDialect } from '../dialect.ts';

/** Ollama's compatible endpoint. A format binds every word, so beside tools it would keep calls out. */
export const OLLAMA_CHAT: ChatDialect = {
  provider: 'ollama',
  keyVariables: ['OLLAMA_API_KEY'],
  keyOptional: true,
  baseURLVariable: 'OLLAMA_BASE_URL',
  defaultBaseURL: 'http://127.0.0.1:11434/v1',
  outputWithTools: 'instructions',
  reasoning: 'member',
};
