import type { Item, ToolResultItem } from '../../protocol/item.ts';

/**
 * Returns the transcript after `from` with exactly one result for each call, as the provider requires. Second
 * results and results without a call are dropped; a call without a result gets an error result at the end of
 * its turn.
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
      for (const callId of open) add(missingResult(callId), at);
      open = [];
    }
    if (item.type !== 'tool_result') add(item, at);
    else if (calls.has(item.callId) && !answered.has(item.callId)) {
      answered.add(item.callId);
      add(item, at);
    }
  }
  for (const callId of open) paired.push(missingResult(callId));
  return paired;
}

function idsOf(transcript: readonly Item[], type: 'tool_call' | 'tool_result'): Set<string> {
  const ids = new Set<string>();
  for (const item of transcript) if (item.type === type) ids.add(item.callId);
  return ids;
}

function missingResult(callId: string): ToolResultItem {
  return { type: 'tool_result', callId, output: 'The result of this call is not known.', isError: true };
}
