import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { CALL_IDS, type InputOptions, inputOf } from './input.ts';

/**
 * Returns the input after `from`, where the model's last turn ends. The result equals that of `inputOf`, but
 * is computed from the last turn alone if all results after it answer its calls and the ids of those calls
 * are not used earlier.
 */
export function inputAfter(
  transcript: readonly Item[],
  options: InputOptions & { from: number },
): JsonObject[] {
  const begin = transcript.findLastIndex((item, at) => at < options.from && closesTurn(item)) + 1;
  const turn = transcript.slice(begin);
  return isIndependent(turn, transcript, begin)
    ? inputOf(turn, { ...options, from: options.from - begin })
    : inputOf(transcript, options);
}

/** Whether no call is open after this item. */
function closesTurn(item: Item): boolean {
  return item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant');
}

function isIndependent(turn: readonly Item[], transcript: readonly Item[], begin: number): boolean {
  const calls = new Set(turn.flatMap(item => (item.type === 'tool_call' ? item.callId : [])));
  for (const item of turn) if (item.type === 'tool_result' && !calls.has(item.callId)) return false;
  for (const callId of calls) if (!CALL_IDS.fits(callId)) return false;
  if (calls.size === 0) return true;
  for (let at = 0; at < begin; at += 1) {
    const item = transcript[at];
    const names = item?.type === 'tool_call' || item?.type === 'tool_result';
    if (names && calls.has(item.callId)) return false;
  }
  return true;
}
