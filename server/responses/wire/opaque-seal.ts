import * as z from 'zod';
import { type Item, itemSchema, type ReasoningItem } from '../../../protocol/item.ts';
import { isTooDeep } from '../../../protocol/json.ts';

/** Marks what is ours among the `encrypted_content` that clients send. */
const SEAL = 'agentchart.';
const reasoningItems = z.array(itemSchema);

/**
 * Reasoning as `encrypted_content`: its items with what their provider must get back, so that a client that
 * keeps the history itself loses nothing. It is encoded, not encrypted by this server.
 */
export function sealOpaque(items: readonly Item[]): string {
  const kept = items.map(({ id: _, ...item }) => item);
  return SEAL + Buffer.from(JSON.stringify(kept)).toString('base64url');
}

/** The items of `sealOpaque`; `undefined` for anything else, and for what is nested too deep: clients can write a seal. */
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
