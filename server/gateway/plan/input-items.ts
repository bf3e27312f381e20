import { objectOf } from '../../../adapters/turn/json-access.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { invalid } from '../../openai-error.ts';
import { argumentsIn, isSameCall, refusalIn } from '../answer/answer-event.ts';
import { type ItemPlace, readItemId } from '../answer/wire-ids.ts';
import { readCompactionPlace, upstreamCompaction } from '../request/compaction-items.ts';
import type { InputItem, SentItem } from '../request/gateway-request.ts';
import { openSummary } from '../request/sealed-items.ts';
import { isReceiptItem } from './client-work.ts';
import type { CallOrigin, References } from './references.ts';

/** The items of an input; those of the gateway as stored, with opaque data, else a `ResponsesError`. */
export async function resolveInput(input: readonly InputItem[], known: References): Promise<Item[]> {
  let turns = new TurnsInInput();
  let runId: string | undefined;
  for (const given of input) {
    const item = await withKnownId(given, runId, known);
    runId = placeOf(item)?.runId ?? runId;
    const compacted = await readCompaction(item, known);
    if (compacted !== undefined) {
      const { items, isWhole } = compacted;
      if (isWhole) turns = new TurnsInInput();
      turns.add(item, items);
      continue;
    }
    turns.add(item, await resolve(item, known));
  }
  return turns.list();
}

async function resolve(item: InputItem, known: References): Promise<readonly Item[]> {
  switch (item.type) {
    case 'sent':
      return await restore(item, known);
    case 'item_reference': {
      const items = await known.resolve(item.id);
      if (items !== undefined) return items;
      throw invalid(item.at, 'item_not_found', `Item with id '${item.id}' not found.`);
    }
    case 'compaction':
      return [];
  }
}

/** Some clients drop the ids of function calls and keep those of the items before them: the run that shows both. Others have only an id that names the run. */
async function withKnownId(
  item: InputItem,
  runId: string | undefined,
  known: References,
): Promise<InputItem> {
  const call = item.type === 'sent' && item.ranHere !== true ? item.items[0] : undefined;
  if (item.type !== 'sent' || call?.type !== 'tool_call' || placeOf(item)) return item;
  const madeIn = item.madeIn ?? runId;
  const id = madeIn === undefined ? undefined : await known.idOfCall(madeIn, call.callId);
  return id === undefined ? item : { ...item, id, items: [{ ...call, id }, ...item.items.slice(1)] };
}

function placeOf({ id }: InputItem): ItemPlace | undefined {
  return id === undefined ? undefined : readItemId(id);
}

/** `last` is the highest place of its calls. */
type Turn = { name: string | undefined; items: Item[]; results: Item[]; last: number };

/** Items in a transcript's order: MCP results after the last call of their turn, which made the call. */
class TurnsInInput {
  readonly #turns: Turn[] = [];
  readonly #byName = new Map<string, Turn>();
  readonly #places = new Map<Item, number>();

  add(given: InputItem, items: readonly Item[]): void {
    const turn = this.#turnFor(turnOf(given), items);
    const place = placeOf(given)?.place;
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

  #insert(turn: Turn, call: Item, place: number): void {
    const { items, last } = turn;
    this.#places.set(call, place);
    turn.last = Math.max(last, place);
    const after =
      place < last ? items.findIndex(item => (this.#places.get(item) ?? -1) > place) : items.length;
    items.splice(after, 0, call);
  }
}

/** The turn of the model's items whose ids do not say it. */
const UNNAMED = 'unnamed';

/** `undefined` for an item of no turn. Providers must see the calls of a turn together. */
function turnOf(given: InputItem): string | undefined {
  const place = placeOf(given);
  if (place !== undefined) return place.turn === 0 ? undefined : `${place.runId} ${place.turn}`;
  return given.type === 'sent' && given.items.some(isOfModel) ? UNNAMED : undefined;
}

export function isOfModel(item: Item): boolean {
  return item.type === 'message'
    ? item.role === 'assistant'
    : item.type === 'tool_call' || item.type === 'reasoning';
}

/** After calls that ran here, text begins the next turn. */
function isNextIn(turn: Turn, name: string | undefined, items: readonly Item[]): boolean {
  if (turn.name === undefined || name === undefined) return false;
  if (turn.name !== UNNAMED && name !== UNNAMED) return turn.name === name;
  return turn.results.length === 0 || items.every(({ type }) => type !== 'message' && type !== 'reasoning');
}

/** `isWhole`: the client may have left out, or may have sent, what came before: the items have it. */
async function readCompaction(item: InputItem, known: References) {
  if (item.type === 'item_reference') {
    const { kind, turn, runId = '', place: count = 0 } = readItemId(item.id) ?? {};
    return kind === 'cmp' && turn === 0 ? await known.restore({ runId, count }) : undefined;
  }
  if (item.type !== 'compaction') return undefined;
  const { at, content, ...named } = item;
  const id = omitUndefined({ id: named.id });
  const summary = openSummary(content);
  if (summary)
    return { items: known.receive(summary, `summary_${at.replaceAll(/\W+/g, '')}`), isWhole: false };
  const place = summary === null ? null : readCompactionPlace(content);
  if (place === undefined) {
    const theirs = { ...id, type: 'compaction', encrypted_content: content };
    return { items: [{ ...id, ...upstreamCompaction(theirs) }], isWhole: false };
  }
  const restored = place === null ? undefined : await known.restore(place);
  if (restored !== undefined) return restored;
  const message = 'This server does not have the summary of this compaction item. It may have been deleted.';
  throw invalid(`${at}.encrypted_content`, 'compaction_not_found', message);
}

/** The stored result of a call that ran here counts; other items must be unchanged. */
async function restore(sent: SentItem, known: References): Promise<readonly Item[]> {
  const { id, tool, ranHere, newCallId: made } = sent;
  // A call id made from the place in the input would come again with the next request of the chain.
  const own = sent.items.map(item =>
    made !== undefined && 'callId' in item && item.callId === made
      ? { ...item, callId: made.replace('_', `_${known.scope}`) }
      : item,
  );
  const mayBeStored = own.some(item => isOfModel(item) || item.type === 'provider_item');
  const stored = id !== undefined && mayBeStored ? await known.recognize(id) : undefined;
  if (stored !== undefined && (ranHere === true || isSame(stored, own, known.origins))) return stored;
  for (const item of own)
    if (item.type === 'tool_call' && tool !== undefined) known.origins.set(item.callId, { tool });
  return own;
}

/** Apart from ids and opaque data, and from the text of reasoning that the client was not shown. */
function isSame(
  stored: readonly Item[],
  sent: readonly Item[],
  origins: ReadonlyMap<string, CallOrigin>,
): boolean {
  const shown = stored
    .filter(item => !isReceiptItem(item))
    .map(item =>
      item.type === 'tool_call' ? { ...item, name: origins.get(item.callId)?.tool.name ?? item.name } : item,
    );
  const own = sent.filter(item => !isReceiptItem(item));
  const [call] = shown;
  const [given, ...others] = own;
  if (call?.type === 'tool_call' && given?.type === 'tool_call' && shown.length === 1 && others.length === 0)
    return call.callId === given.callId && isSameCall(call, given);
  if (own.every(item => item.type === 'reasoning' && item.text === ''))
    return shown.every(({ type }) => type === 'reasoning');
  return JSON.stringify(contentOf(shown)) === JSON.stringify(contentOf(own));
}

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
      return JSON.stringify([item.callId, item.name, argumentsIn(item.arguments)]);
    case 'provider_item': {
      const { id: _, ...shown } = objectOf(objectOf(item.opaque.data).item);
      return JSON.stringify(shown);
    }
    default:
      return '';
  }
}
