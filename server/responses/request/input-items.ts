import type { Item } from '../../../protocol/item.ts';
import { invalid } from '../api-error.ts';
import { ItemReader, isReference } from './item-reader.ts';
import type { WireItem } from './request-body.ts';

/** The stored items of an `item_reference` or a returned output item; `undefined` for an unknown id. */
type ResolveItem = (id: string) => Promise<readonly Item[] | undefined>;

/**
 * Converts input items to transcript items, in order. An output item that the client returns unchanged is replaced by
 * the stored one, which has the opaque data that the provider needs. Throws a `ResponsesError` with the path of an
 * invalid item.
 */
export async function readInputItems(input: readonly WireItem[], resolve: ResolveItem): Promise<Item[]> {
  const read: Item[] = [];
  for (const [at, wire] of input.entries()) {
    const reader = new ItemReader(wire, `input[${at}]`);
    const own = reader.read();
    read.push(...(own === 'reference' ? await lookUp(reader, resolve) : await restore(reader, own, resolve)));
  }
  return read;
}

/** The ids of `item_reference` items, and the ids of other items, in input order. */
export type IdsInRequest = { references: string[]; values: string[] };

/** Collects the ids in an input. */
export function idsIn(input: readonly WireItem[]): IdsInRequest {
  const ids: IdsInRequest = { references: [], values: [] };
  for (const wire of input)
    if (typeof wire.id === 'string') (isReference(wire) ? ids.references : ids.values).push(wire.id);
  return ids;
}

async function lookUp(reader: ItemReader, resolve: ResolveItem): Promise<readonly Item[]> {
  const id = reader.text('id');
  const items = await resolve(id);
  if (items !== undefined) return items;
  throw invalid(reader.place, 'item_not_found', `Item with id '${id}' not found.`);
}

/** Restores a returned item. For an `mcp_call`, the stored result counts; other items must be unchanged. */
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

/** Whether both have the same content, apart from ids and opaque data. */
function isSame(one: readonly Item[], other: readonly Item[]): boolean {
  return JSON.stringify(contentOf(one)) === JSON.stringify(contentOf(other));
}

/** Joins adjacent items of one type, which are one item in the Responses API. */
function contentOf(items: readonly Item[]): { type: string; text: string }[] {
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
