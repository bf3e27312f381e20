import type { Item, ToolResultItem } from '../../protocol/item.ts';

/**
 * The transcript behind `from` with exactly one result for each call, as the provider demands: a second
 * result and one without its call are left out, a call whose result is gone is answered behind its turn.
 */
export function withPairedResults(transcript: readonly Item[], from = 0): Item[] {
  const calls = idsOf(transcript, 'tool_call');
  const results = idsOf(transcript, 'tool_result');
  const paired: Item[] = [];
  const answered = new Set<string>();
  let open: string[] = [];
  const add = (item: Item, at: number): void => {
    if (at >= from) paired.push(item);
  };
  for (const [at, item] of transcript.entries()) {
    if (item.type === 'tool_call' && !results.has(item.callId)) open.push(item.callId);
    if (item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant')) {
      for (const callId of open) add(gone(callId), at);
      open = [];
    }
    if (item.type !== 'tool_result') add(item, at);
    else if (calls.has(item.callId) && !answered.has(item.callId)) {
      answered.add(item.callId);
      add(item, at);
    }
  }
  return [...paired, ...open.map(gone)];
}

function idsOf(transcript: readonly Item[], type: 'tool_call' | 'tool_result'): Set<string> {
  return new Set(transcript.flatMap(item => (item.type === type ? item.callId : [])));
}

function gone(callId: string): ToolResultItem {
  return { type: 'tool_result', callId, output: 'The result of this call is not known.', isError: true };
}
