import type { JsonObject } from '../../protocol/json.ts';
import { integerIn, nonEmpty, objectsOf, textIn } from '../turn/json-access.ts';

/** One output item while it is streamed. */
export type OutputSlot = {
  /** As it was announced; replaced by the finished item when that comes. */
  item: JsonObject;
  finished: boolean;
  /** Of the turn's calls; `undefined` for everything that is not one. */
  callIndex: number | undefined;
  /** Text, refusal, summary and reasoning parts: whole where a `done` event said so, else the pieces. */
  parts: Map<string, { type: string; pieces: string[] }>;
  pieces: string[];
  /** What the `done` event said the arguments or the input are. */
  written: string | undefined;
};

/**
 * The output items of a streamed response.
 *
 * O1 An event belongs to the item at its `output_index`; without one, to the item with its `item_id`;
 *    without both, to the item touched last. Some proxies give each event another `item_id`.
 * O2 A finished item counts before pieces, where it has content at all, and whole text before the sum
 *    of deltas.
 */
export class OutputSlots {
  #byIndex = new Map<number, OutputSlot>();
  #byId = new Map<string, OutputSlot>();
  #order: { at: number; slot: OutputSlot }[] = [];
  #last: OutputSlot | undefined;

  /** The slot an event is about; a new one if none is known. */
  at(event: JsonObject, item: JsonObject = {}): OutputSlot {
    const index = integerIn(event.output_index);
    const id = nonEmpty(event.item_id) ?? nonEmpty(item.id);
    const known =
      index !== undefined ? this.#byIndex.get(index) : id !== undefined ? this.#byId.get(id) : this.#last;
    const slot = known ?? this.#open(index);
    if (id !== undefined) this.#byId.set(id, slot);
    this.#last = slot;
    return slot;
  }

  /** The items in the provider's order, put together from pieces where they were not finished. */
  items(): JsonObject[] {
    return this.#order
      .toSorted((a, b) => a.at - b.at)
      .map(({ slot }) => (isWhole(slot) ? slot.item : assembled(slot)))
      .filter(item => nonEmpty(item.type) !== undefined);
  }

  /** The item at this place of the output, if it came finished. */
  finishedAt(index: number): JsonObject | undefined {
    const slot = this.#byIndex.get(index);
    return slot?.finished ? slot.item : undefined;
  }

  #open(index: number | undefined): OutputSlot {
    const slot: OutputSlot = {
      item: {},
      finished: false,
      callIndex: undefined,
      parts: new Map(),
      pieces: [],
      written: undefined,
    };
    if (index !== undefined) this.#byIndex.set(index, slot);
    this.#order.push({ at: index ?? this.#order.length, slot });
    return slot;
  }
}

/** Adds a piece to the part of the slot that the event names, or sets the whole of it. */
export function addToPart(
  slot: OutputSlot,
  event: JsonObject,
  type: string,
  text: string,
  whole = false,
): void {
  const key = `${type} ${integerIn(event.content_index) ?? integerIn(event.summary_index) ?? 0}`;
  const part = slot.parts.get(key) ?? { type, pieces: [] };
  if (whole) part.pieces = [text];
  else part.pieces.push(text);
  slot.parts.set(key, part);
}

/** Some servers finish an item with no more than its id and type. */
function isWhole({ finished, item }: OutputSlot): boolean {
  switch (item.type) {
    case 'message':
      return finished && objectsOf(item.content).length > 0;
    case 'reasoning':
      return finished && (objectsOf(item.summary).length > 0 || objectsOf(item.content).length > 0);
    case 'function_call':
      return finished && textIn(item.arguments) !== '';
    case 'custom_tool_call':
      return finished && textIn(item.input) !== '';
    default:
      return finished;
  }
}

function assembled(slot: OutputSlot): JsonObject {
  const { item } = slot;
  switch (item.type ?? typeByParts(slot)) {
    case 'message':
      return {
        ...item,
        type: 'message',
        content: [...partsOf(slot, 'output_text'), ...refusalsOf(slot)],
      };
    case 'reasoning': {
      const summary = partsOf(slot, 'summary_text');
      const content = partsOf(slot, 'reasoning_text');
      return {
        ...item,
        type: 'reasoning',
        ...(summary.length > 0 ? { summary } : {}),
        ...(content.length > 0 ? { content } : {}),
      };
    }
    case 'function_call':
      return { ...item, arguments: slot.written ?? (slot.pieces.join('') || textIn(item.arguments)) };
    case 'custom_tool_call':
      return { ...item, input: slot.written ?? (slot.pieces.join('') || textIn(item.input)) };
    default:
      return item;
  }
}

/** What an item that was never announced must have been. */
function typeByParts(slot: OutputSlot): string {
  const types = [...slot.parts.values()].map(part => part.type);
  if (types.includes('output_text') || types.includes('refusal')) return 'message';
  return types.length > 0 ? 'reasoning' : '';
}

function partsOf(slot: OutputSlot, type: string): JsonObject[] {
  const streamed = [...slot.parts.values()]
    .filter(part => part.type === type)
    .map(part => ({ type, text: part.pieces.join('') }));
  if (streamed.length > 0) return streamed;
  return objectsOf(slot.item[type === 'summary_text' ? 'summary' : 'content']).filter(
    part => part.type === type,
  );
}

function refusalsOf(slot: OutputSlot): JsonObject[] {
  return [...slot.parts.values()]
    .filter(part => part.type === 'refusal')
    .map(part => ({ type: 'refusal', refusal: part.pieces.join('') }));
}
