import * as z from 'zod';
import { type Item, itemSchema, type ReasoningItem } from '../../../protocol/item.ts';
import { isTooDeep } from '../../../protocol/json.ts';

/** Marks the `encrypted_content` that this server produced. */
const SEAL = 'agentchart.';
const reasoningItems = z.array(itemSchema);

/** Reasoning as `encrypted_content`, for clients that keep the history themselves: encoded, not encrypted. */
export function sealOpaque(items: readonly Item[]): string {
  const kept = items.map(({ id: _, ...item }) => item);
  return SEAL + Buffer.from(JSON.stringify(kept)).toString('base64url');
}

/** `undefined` for anything that `sealOpaque` did not make, or nested too deep: clients can forge it. */
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
