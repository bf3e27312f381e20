import type { Item, ToolResultItem } from '../../protocol/item.ts';

/** The results of a transcript by the calls they answer, in order: providers may have used an id twice. */
export function resultsByCall(transcript: readonly Item[]): ReadonlyMap<string, ToolResultItem[]> {
  const results = new Map<string, ToolResultItem[]>();
  for (const item of transcript) {
    if (item.type !== 'tool_result') continue;
    const known = results.get(item.callId);
    if (known) known.push(item);
    else results.set(item.callId, [item]);
  }
  return results;
}
