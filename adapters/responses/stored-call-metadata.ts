import type { Item } from '../../protocol/item.ts';
import { type Kept, keptBy } from './wire-item.ts';

/**
 * What the calls of a transcript kept, by their ids; they may stand before the part that is sent, which
 * begins at `from`. A call whose reasoning does not go along goes without its id and its caller, which
 * stay behind too.
 */
export function storedCallMetadata(
  transcript: readonly Item[],
  reasoning: ReadonlySet<string>,
  { provider, from = 0 }: { provider: string; from?: number },
): Map<string, Kept> {
  const calls = new Map<string, Kept>();
  for (const [at, item] of transcript.entries()) {
    const kept = item.type === 'tool_call' ? keptBy(provider, item.opaque) : undefined;
    if (item.type !== 'tool_call' || !kept) continue;
    const whole = at < from || kept.after === undefined || reasoning.has(kept.after);
    const { id: _, caller: __, ...rest } = kept;
    calls.set(item.callId, whole ? kept : rest);
  }
  return calls;
}
