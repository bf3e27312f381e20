import type { ModelAdapter } from '../protocol/adapter.ts';
import { type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';

/** OpenRouter. Key and URL come from `OPENROUTER_API_KEY` and `OPENROUTER_BASE_URL` where the options do not say. */
export function openrouter(options: ChatOptions): ModelAdapter {
  return chatAdapter(OPENROUTER, options);
}

/** Reasoning comes and goes as `reasoning_details`, which hold whatever the maker of the model needs back. */
const OPENROUTER: ChatDialect = {
  provider: 'openrouter',
  keyVariables: ['OPENROUTER_API_KEY'],
  baseURLVariable: 'OPENROUTER_BASE_URL',
  defaultBaseURL: 'https://openrouter.ai/api/v1',
  reasoning: 'details',
  effort: effort => ({ reasoning: effort === 'none' ? { enabled: false } : { effort } }),
  resendsText: true,
  serverTools: true,
};
