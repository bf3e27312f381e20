import type { ModelAdapter } from '../protocol/adapter.ts';
import { refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { CHAT_NAMES, type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { endpointOf } from './http/connection.ts';

/**
 * Creates an adapter for Groq. Defaults for key and URL: `GROQ_API_KEY` and `GROQ_BASE_URL`.
 *
 * @example
 * const model = groq({ model: 'openai/gpt-oss-120b' });
 */
export function groq(options: ChatOptions): ModelAdapter {
  refuseUnknownOptions('groq', options, CHAT_NAMES);
  return chatAdapter(GROQ, options);
}

/** Groq refuses a schema with tools. A call that violates its schema is an error, retried. */
const GROQ: ChatDialect = {
  ...endpointOf('groq', 'https://api.groq.com/openai/v1'),
  maxTokensMember: () => 'max_completion_tokens',
  outputWithTools: 'instructions',
  reasoning: 'member',
  effort: (effort, model) => ({ reasoning_effort: /qwen/i.test(model) ? onOrOff(effort) : effort }),
  streamMembers: {},
  retryableCodes: ['tool_use_failed', 'json_validate_failed'],
  serverTools: true,
};

/** Qwen's reasoning can only be turned off or left at its default. */
function onOrOff(effort: string): string {
  return effort === 'none' || effort === 'minimal' ? 'none' : 'default';
}
