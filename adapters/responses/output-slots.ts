import type { JsonObject } from '../../protocol/json.ts';
import { integerIn, nonEmpty, objectsOf, textIn } from '../turn/json-access.ts';

/** One output item during streaming. */
export type OutputSlot = {
  /** The announced item; replaced by the finished item when it arrives. */
  item: JsonObject;
  finished: boolean;
  /** The position among the turn's calls; `undefined` for other items. */
  callIndex: number | undefined;
  /** Text, refusal, summary and reasoning parts: the full text if a `done` event sent it, else the pieces. */
  parts: Map<string, { type: string; pieces: string[] }>;
  /** The streamed pieces of a call's arguments or input. */
  pieces: string[];
  /** The full arguments or input from the `done` event. */
  written: string | undefined;
};

/**
 * Collects the output items of a streamed response.
 *
 * O1 An event belongs to the item at its `output_index`; without one, to the item with its `item_id`; without
 *    both, to the item of the previous event. Some proxies change the `item_id` with every event.
 * O2 A finished item with content takes precedence over its pieces, and a full text over the sum of its
 *    deltas.
 */
export class OutputSlots {
  #byIndex = new Map<number, OutputSlot>();
  #byId = new Map<string, OutputSlot>();
  #order: { at: number; slot: OutputSlot }[] = [];
  #last: OutputSlot | undefined;

  /** Returns the slot that an event belongs to, and opens one if necessary. */
  at(event: JsonObject, item: JsonObject = {}): OutputSlot {
    const index = integerIn(event.output_index);
    const id = nonEmpty(event.item_id) ?? nonEmpty(item.id);
    const slot = this.#find(index, id) ?? this.#open(index);
    if (id !== undefined) this.#byId.set(id, slot);
    this.#last = slot;
    return slot;
  }

  /** Returns the items in the provider's order; unfinished ones are assembled from their pieces. */
  items(): JsonObject[] {
    return this.#order
      .toSorted((a, b) => a.at - b.at)
      .map(({ slot }) => (isComplete(slot) ? slot.item : assembled(slot)))
      .filter(item => nonEmpty(item.type) !== undefined);
  }

  /** Returns the item at this output index if it was finished. */
  finishedAt(index: number): JsonObject | undefined {
    const slot = this.#byIndex.get(index);
    return slot?.finished ? slot.item : undefined;
  }

  #find(index: number | undefined, id: string | undefined): OutputSlot | undefined {
    if (index !== undefined) return this.#byIndex.get(index);
    return id === undefined ? this.#last : this.#byId.get(id);
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

/** Appends a piece to the part of the slot that the event names. */
export function addToPart(slot: OutputSlot, event: JsonObject, type: string, text: string): void {
  const key = partKey(event, type);
  const part = slot.parts.get(key);
  if (part) part.pieces.push(text);
  else slot.parts.set(key, { type, pieces: [text] });
}

/** Sets the full text of the part that the event names. */
export function setPart(slot: OutputSlot, event: JsonObject, type: string, text: string): void {
  slot.parts.set(partKey(event, type), { type, pieces: [text] });
}

function partKey(event: JsonObject, type: string): string {
  return `${type} ${integerIn(event.content_index) ?? integerIn(event.summary_index) ?? 0}`;
}

/** Some servers finish an item with nothing but its id and type. */
function isComplete({ finished, item }: OutputSlot): boolean {
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

/** The type of an item that was never announced, inferred from its parts. */
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
