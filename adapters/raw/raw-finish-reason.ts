import type { FinishReason } from '../../protocol/turn.ts';

/** Converts the finish reason of a server that knows only tokens: it reports `stop` also for calls. */
export function rawFinishReason(finish: string, { hasCalls }: { hasCalls: boolean }): FinishReason {
  if (finish === 'length') return 'length';
  if (finish === 'abort') return 'error';
  if (hasCalls) return 'tool_calls';
  return finish === 'stop' ? 'stop' : 'unknown';
}
