import type { ModelAdapter } from '../protocol/adapter.ts';
import { refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { CHAT_NAMES, type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { endpointOf } from './http/connection.ts';

/**
 * Creates an adapter for OpenRouter. Defaults for key and URL: `OPENROUTER_API_KEY` and
 * `OPENROUTER_BASE_URL`.
 *
 * @example
 * const model = openrouter({ model: 'anthropic/claude-haiku-4.5' });
 */
export function openrouter(options: ChatOptions): ModelAdapter {
  refuseUnknownOptions('openrouter', options, CHAT_NAMES);
  return chatAdapter(OPENROUTER, options);
}

/** Reasoning is received and sent back as `reasoning_details`, which hold what the model's vendor needs back. */
const OPENROUTER: ChatDialect = {
  ...endpointOf('openrouter', 'https://openrouter.ai/api/v1'),
  reasoning: 'details',
  effort: effort => ({ reasoning: effort === 'none' ? { enabled: false } : { effort } }),
  resendsText: true,
  serverTools: true,
};
