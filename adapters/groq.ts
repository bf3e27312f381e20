import type { ModelAdapter } from '../protocol/adapter.ts';
import { type ChatOptions, chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';

/** Groq. Key and URL come from `GROQ_API_KEY` and `GROQ_BASE_URL` where the options do not say. */
export function groq(options: ChatOptions): ModelAdapter {
  return chatAdapter(GROQ, options);
}

/**
 * A schema and tools are refused together. A call that does not fit its tool's schema is an error
 * with what was generated in it, not a call: it is asked for again. Usage comes without asking.
 */
const GROQ: ChatDialect = {
  provider: 'groq',
  keyVariables: ['GROQ_API_KEY'],
  baseURLVariable: 'GROQ_BASE_URL',
  defaultBaseURL: 'https://api.groq.com/openai/v1',
  maxTokensMember: () => 'max_completion_tokens',
  outputWithTools: 'instructions',
  reasoning: 'member',
  effort: (effort, model) => ({ reasoning_effort: /qwen/i.test(model) ? onOrOff(effort) : effort }),
  streamMembers: {},
  retryableCodes: ['tool_use_failed', 'json_validate_failed'],
  serverTools: true,
};

/** Qwen's reasoning is only turned off or left as it is. */
function onOrOff(effort: string): string {
  return effort === 'none' || effort === 'minimal' ? 'none' : 'default';
}
