import type { FinishReason } from '../../protocol/turn.ts';

/** Returns the finish reason of a turn. A blocked prompt has a block reason instead of a finish reason. */
export function finishReasonOf(
  reason: string | undefined,
  blocked: string | undefined,
  { hasCalls }: { hasCalls: boolean },
): FinishReason {
  if (reason === undefined) return blocked === undefined ? 'unknown' : 'content_filter';
  const known = REASONS.get(reason) ?? 'unknown';
  return known === 'stop' && hasCalls ? 'tool_calls' : known;
}

const REASONS: ReadonlyMap<string, FinishReason> = new Map([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['BLOCKLIST', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SPII', 'content_filter'],
  ['MODEL_ARMOR', 'content_filter'],
  ['IMAGE_SAFETY', 'content_filter'],
  ['IMAGE_PROHIBITED_CONTENT', 'content_filter'],
  ['IMAGE_RECITATION', 'content_filter'],
  ['MALFORMED_FUNCTION_CALL', 'error'],
  ['MALFORMED_RESPONSE', 'error'],
  ['UNEXPECTED_TOOL_CALL', 'error'],
  ['TOO_MANY_TOOL_CALLS', 'error'],
  ['MISSING_THOUGHT_SIGNATURE', 'error'],
]);
