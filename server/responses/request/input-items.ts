import type { Item } from '../../../protocol/item.ts';
import { invalid } from '../api-error.ts';
import { ItemReader, isReference } from './item-reader.ts';
import type { WireItem } from './request-body.ts';

/** What an `item_reference` leads to, and what an item that came back was; `undefined` for what is not known. */
export type ResolveItem = (id: string) => Promise<readonly Item[] | undefined>;

/**
 * The transcript entries of input items, in order. An item of ours that comes back unchanged is the one it
 * was, with the bytes its provider must see again. Throws a `ResponsesError` with the place of what is wrong.
 */
export async function readInputItems(input: readonly WireItem[], resolve: ResolveItem): Promise<Item[]> {
  const read: Item[] = [];
  for (const [at, wire] of input.entries()) {
    const reader = new ItemReader(wire, `input[${at}]`);
    const own = reader.read();
    read.push(...(own === 'reference' ? await refer(reader, resolve) : await restore(reader, own, resolve)));
  }
  return read;
}

/** The ids of references, and those of items that came themselves, each in their order. */
export type IdsInRequest = { references: string[]; values: string[] };

export function idsIn(input: readonly WireItem[]): IdsInRequest {
  const ids: IdsInRequest = { references: [], values: [] };
  for (const wire of input)
    if (typeof wire.id === 'string') (isReference(wire) ? ids.references : ids.values).push(wire.id);
  return ids;
}

async function refer(reader: ItemReader, resolve: ResolveItem): Promise<readonly Item[]> {
  const id = reader.text('id');
  const items = await resolve(id);
  if (items !== undefined) return items;
  throw invalid(reader.place, 'item_not_found', `Item with id '${id}' not found.`);
}

/** What a tool of the gateway gave is what the gateway knows of it; anything else may have been changed. */
async function restore(reader: ItemReader, own: Item[], resolve: ResolveItem): Promise<readonly Item[]> {
  const { id, type } = reader.wire;
  if (typeof id !== 'string' || !own.some(keepsBytes)) return own;
  const stored = await resolve(id);
  return stored !== undefined && (type === 'mcp_call' || isSame(stored, own)) ? stored : own;
}

function keepsBytes(item: Item): boolean {
  return (
    item.type === 'reasoning' ||
    item.type === 'tool_call' ||
    (item.type === 'message' && item.role === 'assistant')
  );
}

/** Whether both say the same, ids and bytes aside. */
function isSame(one: readonly Item[], other: readonly Item[]): boolean {
  return JSON.stringify(said(one)) === JSON.stringify(said(other));
}

/** Neighbouring items of one type are one item on the wire. */
function said(items: readonly Item[]): { type: string; text: string }[] {
  const joined: { type: string; text: string }[] = [];
  for (const item of items) {
    const text = textOf(item);
    const last = joined.at(-1);
    if (last?.type === item.type) last.text += text;
    else joined.push({ type: item.type, text });
  }
  return joined;
}

function textOf(item: Item): string {
  switch (item.type) {
    case 'message':
      return item.content.map(part => (part.type === 'text' ? part.text : JSON.stringify(part))).join('');
    case 'reasoning':
      return item.text;
    case 'tool_call':
      return JSON.stringify([item.callId, item.name, item.arguments]);
    default:
      return '';
  }
}
