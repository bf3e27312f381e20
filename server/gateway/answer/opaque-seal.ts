import * as z from 'zod';
import { type Item, itemSchema, type ReasoningItem } from '../../../protocol/item.ts';
import { isTooDeep } from '../../../protocol/json.ts';

/** Marks the `encrypted_content` that this server produced. */
const SEAL = 'agentchart.';
const reasoningItems = z.array(itemSchema);

/**
 * Encodes reasoning items, with the opaque data that their provider needs, as `encrypted_content`, for clients that keep
 * the history themselves. This server encodes it but does not encrypt it.
 */
export function sealOpaque(items: readonly Item[]): string {
  const kept = items.map(({ id: _, ...item }) => item);
  return SEAL + Buffer.from(JSON.stringify(kept)).toString('base64url');
}

/** Decodes the items of `sealOpaque`; `undefined` for anything else or if nested too deep, since clients can forge it. */
export function openSeal(content: unknown): ReasoningItem[] | undefined {
  if (typeof content !== 'string' || !content.startsWith(SEAL)) return undefined;
  try {
    const text = Buffer.from(content.slice(SEAL.length), 'base64url').toString('utf8');
    if (isTooDeep(text)) return undefined;
    const items = reasoningItems.parse(JSON.parse(text));
    return items.every(item => item.type === 'reasoning') ? items : undefined;
  } catch {
    return undefined;
  }
}
