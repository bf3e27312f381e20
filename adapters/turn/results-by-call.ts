import type { Item, ToolResultItem } from '../../protocol/item.ts';

/**
 * Groups the results of a transcript by call id, in order. A call id may have several results if a provider
 * reused it.
 */
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
