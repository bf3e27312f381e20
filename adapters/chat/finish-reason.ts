import type { FinishReason } from '../../protocol/turn.ts';

/** The providers' finish reasons, OpenAI's names first. */
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
 * Returns the finish reason of a turn. Calls override `stop` and unknown reasons; a `tool_calls` caused by
 * calls that the provider ran itself is a `stop`.
 */
export function finishReasonOf(
  finish: string,
  turn: { calls: boolean; providerCalls: boolean; refused: boolean },
): FinishReason {
  const reason = REASONS.get(finish) ?? 'unknown';
  if (turn.calls) return reason === 'length' || reason === 'content_filter' ? reason : 'tool_calls';
  if (turn.refused) return 'content_filter';
  return reason === 'tool_calls' && turn.providerCalls ? 'stop' : reason;
}

/** Whether the finish reason means that the provider failed. */
export function isFailure(finish: string): boolean {
  return finish === 'error' || finish === 'insufficient_system_resource';
}
