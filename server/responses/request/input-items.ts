import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { refusalIn } from '../answer/turn-items.ts';
import { invalid } from '../api-error.ts';
import { runOfCompaction, summaryMessage, upstreamCompaction } from '../compaction/compaction-items.ts';
import { BUILTIN_CALLS } from '../wire/builtin-calls.ts';
import { readItemId } from '../wire/wire-ids.ts';
import { ItemReader, isReference } from './item-reader.ts';
import type { CallOrigin } from './plan.ts';
import type { WireItem } from './request-body.ts';

/** Finds the stored items of an id in the input. */
type KnownItems = {
  /** The items of an `item_reference`; `undefined` for an unknown id. */
  resolve(id: string): Promise<readonly Item[] | undefined>;
  /** The stored items of a returned output item; `undefined` for an unknown id. */
  recognize(id: string): Promise<readonly Item[] | undefined>;
  /** The summary that this run wrote for a compaction; `undefined` for an unknown run. */
  summaryOf(runId: string): Promise<string | undefined>;
  /** The tools of the calls among the items, by call id. Reading the input adds to them. */
  origins: Map<string, CallOrigin>;
  /** Distinguishes the request from others in its chain. */
  scope: string;
  /** The id of the call's item in the responses of a run; `undefined` if they do not show the call. */
  idOfCall(runId: string, callId: string): Promise<string | undefined>;
};

/**
 * Converts input items to transcript items, in order. An output item that the client returns unchanged is replaced by
 * the stored one, which has the opaque data that the provider needs. Throws a `ResponsesError` with the path of an
 * invalid item, in the list `field`.
 */
export async function readInputItems(
  input: readonly WireItem[],
  known: KnownItems,
  field = 'input',
): Promise<Item[]> {
  const turns = new TurnsInInput();
  let runId: string | undefined;
  for (const [at, sent] of input.entries()) {
    const wire = await withKnownId(sent, runId, known);
    runId = placeOf(wire)?.runId ?? runId;
    const reader = new ItemReader(wire, `${field}[${at}]`, known.scope);
    const own = reader.read();
    const items =
      typeof own === 'string' ? await LOOK_UP[own](reader, known) : await restore(reader, own, known);
    turns.add(wire, items);
  }
  return turns.list();
}

/** Some clients drop the ids of function calls, and keep those of the items before them: the run that shows both. */
async function withKnownId(wire: WireItem, runId: string | undefined, known: KnownItems): Promise<WireItem> {
  const { type, call_id: callId } = wire;
  const isCall = type === 'function_call' || type === 'custom_tool_call';
  if (!isCall || runId === undefined || typeof callId !== 'string' || placeOf(wire)) return wire;
  const id = await known.idOfCall(runId, callId);
  return id === undefined ? wire : { ...wire, id };
}

function placeOf({ id }: WireItem) {
  return typeof id === 'string' ? readItemId(id) : undefined;
}

/** `last` is the highest place of its calls. */
type Turn = { name: string | undefined; items: Item[]; results: Item[]; last: number };

/**
 * The items of an input in the order of a transcript: the results of MCP calls of a turn come after its last call. A
 * call that ran after its approval belongs to the turn that made it, although the items of a later response show it.
 */
class TurnsInInput {
  readonly #turns: Turn[] = [];
  readonly #byName = new Map<string, Turn>();
  /** The places of calls in their turns. */
  readonly #places = new Map<Item, number>();

  add(wire: WireItem, items: readonly Item[]): void {
    const turn = this.#turnFor(turnOf(wire), items);
    const place = placeOf(wire)?.place;
    for (const item of items) {
      if (item.type === 'tool_result' && turn.name !== undefined) turn.results.push(item);
      else if (item.type === 'tool_call' && place !== undefined) this.#insert(turn, item, place);
      else turn.items.push(item);
    }
  }

  list(): Item[] {
    return this.#turns.flatMap(({ items, results }) => [...items, ...results]);
  }

  #turnFor(name: string | undefined, items: readonly Item[]): Turn {
    const last = this.#turns.at(-1);
    if (last !== undefined && isNextIn(last, name, items)) return this.#rename(last, name);
    const ranHere = items.some(({ type }) => type === 'tool_result');
    const earlier = name !== undefined && ranHere ? this.#byName.get(name) : undefined;
    if (earlier !== undefined) return earlier;
    const turn: Turn = { name: undefined, items: [], results: [], last: -1 };
    this.#turns.push(turn);
    return this.#rename(turn, name);
  }

  #rename(turn: Turn, name: string | undefined): Turn {
    if (name === undefined || (name === UNNAMED && turn.name !== undefined)) return turn;
    turn.name = name;
    if (name !== UNNAMED && !this.#byName.has(name)) this.#byName.set(name, turn);
    return turn;
  }

  /** Inserts a call before the model's later calls. */
  #insert(turn: Turn, call: Item, place: number): void {
    const { items, last } = turn;
    this.#places.set(call, place);
    turn.last = Math.max(last, place);
    const after =
      place < last ? items.findIndex(item => (this.#places.get(item) ?? -1) > place) : items.length;
    items.splice(after, 0, call);
  }
}

/** Calls that are returned with their results. */
const RAN_HERE: readonly unknown[] = ['mcp_call', ...BUILTIN_CALLS];
const MADE_BY_MODEL = ['message', 'reasoning', 'function_call', 'custom_tool_call', ...RAN_HERE];

/** The turn of the model's items whose ids do not say it: that of the items beside them. */
const UNNAMED = 'unnamed';

/** The turn of an item; `undefined` for an item of no turn. Providers must see the calls of a turn together. */
function turnOf(wire: WireItem): string | undefined {
  const { type, role } = wire;
  const place = placeOf(wire);
  if (place !== undefined) return place.turn === 0 ? undefined : `${place.runId} ${place.turn}`;
  return MADE_BY_MODEL.includes(type) && role !== 'user' ? UNNAMED : undefined;
}

/** Whether an item belongs to the turn before it. After calls that ran here, text begins the next turn. */
function isNextIn(turn: Turn, name: string | undefined, items: readonly Item[]): boolean {
  if (turn.name === undefined || name === undefined) return false;
  if (turn.name !== UNNAMED && name !== UNNAMED) return turn.name === name;
  return turn.results.length === 0 || items.every(({ type }) => type !== 'message' && type !== 'reasoning');
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

async function lookUp(reader: ItemReader, known: KnownItems): Promise<readonly Item[]> {
  const id = reader.text('id');
  const items = await known.resolve(id);
  if (items !== undefined) return items;
  throw invalid(reader.place, 'item_not_found', `Item with id '${id}' not found.`);
}

/** A compaction item of this server becomes its summary; those of a provider go back to it. */
async function readCompaction(reader: ItemReader, known: KnownItems): Promise<Item[]> {
  const { place, wire } = reader;
  const content = reader.text('encrypted_content');
  const id = omitUndefined({ id: typeof wire.id === 'string' && wire.id !== '' ? wire.id : undefined });
  const runId = runOfCompaction(content);
  if (runId === undefined)
    return [{ ...id, ...upstreamCompaction({ ...id, type: 'compaction', encrypted_content: content }) }];
  const summary = await known.summaryOf(runId);
  if (summary !== undefined) return [{ ...id, ...summaryMessage(runId, summary) }];
  const message = 'This server does not have the summary of this compaction item. It may have been deleted.';
  throw invalid(`${place}.encrypted_content`, 'compaction_not_found', message);
}

/** How the content of an item is found that is not in the input. */
const LOOK_UP = { item_reference: lookUp, compaction: readCompaction };

/** Restores a returned item. For an `mcp_call`, the stored result counts; other items must be unchanged. */
async function restore(reader: ItemReader, own: Item[], known: KnownItems): Promise<readonly Item[]> {
  const { id, type } = reader.wire;
  const stored = typeof id === 'string' && own.some(keepsBytes) ? await known.recognize(id) : undefined;
  if (stored !== undefined && (RAN_HERE.includes(type) || isSame(stored, own, known.origins))) return stored;
  for (const item of own) {
    const tool = item.type === 'tool_call' ? reader.tool() : undefined;
    if (item.type === 'tool_call' && tool !== undefined) known.origins.set(item.callId, { tool });
  }
  return own;
}

function keepsBytes(item: Item): boolean {
  return (
    item.type === 'reasoning' ||
    item.type === 'tool_call' ||
    (item.type === 'message' && item.role === 'assistant')
  );
}

/** Whether both have the same content, apart from ids and opaque data. */
function isSame(
  stored: readonly Item[],
  own: readonly Item[],
  origins: ReadonlyMap<string, CallOrigin>,
): boolean {
  const shown = stored.map(item =>
    item.type === 'tool_call' ? { ...item, name: origins.get(item.callId)?.tool.name ?? item.name } : item,
  );
  return JSON.stringify(contentOf(shown)) === JSON.stringify(contentOf(own));
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
      return (
        item.content.map(part => (part.type === 'text' ? part.text : JSON.stringify(part))).join('') +
        refusalIn([item])
      );
    case 'reasoning':
      return item.text;
    case 'tool_call':
      return JSON.stringify([item.callId, item.name, withoutSpace(item.arguments)]);
    default:
      return '';
  }
}

/** The JSON text without space between its parts; other text unchanged. */
function withoutSpace(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
