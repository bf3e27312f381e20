import type { ModelAdapter } from '../protocol/adapter.ts';
import { refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { CHAT_NAMES, type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { endpointOf } from './http/connection.ts';

/**
 * Creates an adapter for Cerebras. Defaults for key and URL: `CEREBRAS_API_KEY` and `CEREBRAS_BASE_URL`.
 *
 * @example
 * const model = cerebras({ model: 'gpt-oss-120b' });
 */
export function cerebras(options: ChatOptions): ModelAdapter {
  refuseUnknownOptions('cerebras', options, CHAT_NAMES);
  return chatAdapter(CEREBRAS, options);
}

/**
 * Reasoning is received as `reasoning`, and accepted under that name alone. With an enforced schema, models answer
 * and repeat a call in one turn: with tools, it is part of the instructions.
 */
const CEREBRAS: ChatDialect = {
  ...endpointOf('cerebras', 'https://api.cerebras.ai/v1'),
  maxTokensMember: () => 'max_completion_tokens',
  reasoning: 'member',
  outputWithTools: 'instructions',
};
