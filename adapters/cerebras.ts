import type { ModelAdapter } from '../protocol/adapter.ts';
import { type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';

/** Cerebras. Key and URL come from `CEREBRAS_API_KEY` and `CEREBRAS_BASE_URL` where the options do not say. */
export function cerebras(options: ChatOptions): ModelAdapter {
  return chatAdapter(CEREBRAS, options);
}

/**
 * Reasoning comes as `reasoning` and is taken back under that name only. Held to a schema, models
 * answer and repeat a call in one turn, so beside tools the schema is only told.
 */
const CEREBRAS: ChatDialect = {
  provider: 'cerebras',
  keyVariables: ['CEREBRAS_API_KEY'],
  baseURLVariable: 'CEREBRAS_BASE_URL',
  defaultBaseURL: 'https://api.cerebras.ai/v1',
  maxTokensMember: () => 'max_completion_tokens',
  reasoning: 'member',
  outputWithTools: 'instructions',
};
