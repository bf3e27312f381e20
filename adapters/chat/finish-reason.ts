import type { FinishReason } from '../../protocol/turn.ts';

/** What providers call an end, OpenAI's own names first. */
const REASONS: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['tool_use', 'tool_calls'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
]);

/**
 * The finish reason of a turn. Calls win over `stop` and over what is not known; an end by calls that
 * the provider ran itself is a `stop`.
 */
export function finishReasonOf(
  said: string,
  turn: { calls: boolean; providerCalls: boolean; refused: boolean },
): FinishReason {
  const reason = REASONS.get(said) ?? 'unknown';
  if (turn.calls) return reason === 'length' || reason === 'content_filter' ? reason : 'tool_calls';
  if (turn.refused) return 'content_filter';
  return reason === 'tool_calls' && turn.providerCalls ? 'stop' : reason;
}

/** Whether the provider ended the answer because it failed. */
export function isFailure(said: string): boolean {
  return said === 'error' || said === 'insufficient_system_resource';
}
