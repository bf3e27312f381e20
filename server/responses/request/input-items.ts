import type { Item } from '../../../protocol/item.ts';
import { invalid } from '../api-error.ts';
import { readItemId } from '../wire/wire-ids.ts';
import { ItemReader, isReference } from './item-reader.ts';
import type { WireItem } from './request-body.ts';

export type KnownItems = {
  /** What an `item_reference` leads to; `undefined` for nothing. */
  resolve(id: string): Promise<readonly Item[] | undefined>;
  /** What an item that came back itself was; `undefined` for what is not known. */
  recognize(id: string): Promise<readonly Item[] | undefined>;
};

/**
 * The transcript entries of input items, in order. An item of ours that comes back unchanged is the one it
 * was, with the bytes its provider must see again. Throws a `ResponsesError` with the place of what is wrong.
 */
export async function readInputItems(input: readonly WireItem[], known: KnownItems): Promise<Item[]> {
  const read: Item[] = [];
  /** Results of the gateway's tools that belong behind the last call of the turn that is being read. */
  let results: Item[] = [];
  let turn: string | undefined;
  for (const [at, wire] of input.entries()) {
    const reader = new ItemReader(wire, `input[${at}]`);
    const own = reader.read();
    const items = own === 'reference' ? await refer(reader, known) : await restore(reader, own, known);
    const next = turnOf(wire);
    if (next === undefined || next !== turn) read.push(...results.splice(0));
    turn = next;
    read.push(...items.filter(({ type }) => type !== 'tool_result' || next === undefined));
    if (next !== undefined) results = [...results, ...items.filter(({ type }) => type === 'tool_result')];
  }
  return [...read, ...results];
}

const MADE_BY_MODEL: readonly unknown[] = ['message', 'reasoning', 'function_call', 'mcp_call'];

/**
 * The turn that an item comes from: its calls were made together, and providers must see them together.
 * Neighbours without ids are taken for one turn.
 */
function turnOf({ id, type, role }: WireItem): string | undefined {
  if (typeof id !== 'string') return MADE_BY_MODEL.includes(type) && role !== 'user' ? 'unnamed' : undefined;
  const place = readItemId(id);
  return place && `${place.runId} ${place.turn}`;
}

/** The ids of references, and those of items that came themselves, each in their order. */
export type IdsInRequest = { references: string[]; values: string[] };

export function idsIn(input: readonly WireItem[]): IdsInRequest {
  const ids: IdsInRequest = { references: [], values: [] };
  for (const wire of input)
    if (typeof wire.id === 'string') (isReference(wire) ? ids.references : ids.values).push(wire.id);
  return ids;
}

async function refer(reader: ItemReader, known: KnownItems): Promise<readonly Item[]> {
  const id = reader.text('id');
  const items = await known.resolve(id);
  if (items !== undefined) return items;
  throw invalid(reader.place, 'item_not_found', `Item with id '${id}' not found.`);
}

/**
 * What a tool of the gateway gave is what the gateway knows of it; anything else may have been changed.
 * Throws for a call whose result nobody has.
 */
async function restore(reader: ItemReader, own: Item[], known: KnownItems): Promise<readonly Item[]> {
  const { id, type } = reader.wire;
  const stored = typeof id === 'string' && own.some(keepsBytes) ? await known.recognize(id) : undefined;
  if (stored !== undefined && (type === 'mcp_call' || isSame(stored, own))) return stored;
  if (type === 'mcp_call') reader.assertHasResult();
  return own;
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
