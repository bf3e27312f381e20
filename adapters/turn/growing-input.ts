import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { noteText } from '../http/body-text.ts';

/** A transcript in a provider's form. `opening`: the instructions it begins with, where they have a place of their own. */
export type Input = { opening: readonly string[]; input: JsonObject[] };

/** How the items of a transcript are made the input of a request. */
export type InputForm = {
  /** `begun`: other input stands before these items. */
  make(items: readonly Item[], begun: boolean): Input;
  /**
   * The names by which an item is tied to others, such as its call's id; `undefined` for one that has to be
   * seen together with all others. Items without a name in common are made the same apart as together.
   */
  namesOf(item: Item): readonly string[] | undefined;
  /** Whether two that come to stand beside each other would be made otherwise together. Default: never. */
  joins?(last: JsonObject, next: JsonObject): boolean;
};

type Made = Input & { items: Item[]; names: Set<string>; text: string };

/**
 * The input of transcripts that grow from call to call, and its text: only what was added is made. Both are equal
 * to what `make` gives for the whole transcript.
 *
 * G1 What is kept is used only while each of its items is the same object at the same place. After an edit, a
 *    trim or in another branch of the run the whole input is made again. Items never change.
 * G2 What is kept ends where every form of input has closed what it had open: with somebody's message or the
 *    result of a call. What is added shares no name with what is kept, and the two do not join.
 */
export class GrowingInput {
  readonly #form: InputForm;
  readonly #made = new WeakMap<Item, Made>();

  constructor(form: InputForm) {
    this.#form = form;
  }

  /** `head` goes before the input. */
  of(transcript: readonly Item[], head: readonly JsonObject[] = []): Input {
    const kept = this.#grow(transcript) ?? this.#begin(transcript);
    const input = [...head, ...kept.input];
    noteText(input, `[${[...head.map(part => JSON.stringify(part)), kept.text].filter(Boolean).join(',')}]`);
    return { opening: kept.opening, input };
  }

  #grow(transcript: readonly Item[]): Made | undefined {
    const [first] = transcript;
    const kept = first && this.#made.get(first);
    if (kept === undefined || !goesOn(transcript, kept.items)) return undefined;
    if (transcript.length === kept.items.length) return kept;
    const items = transcript.slice(kept.items.length);
    const names = this.#namesOf(items);
    if (names?.some(name => kept.names.has(name)) !== false) return undefined;
    const { input } = this.#form.make(items, true);
    const [last, next] = [kept.input.at(-1), input[0]];
    if (last && next && this.#form.joins?.(last, next)) return undefined;
    const text = next === undefined ? kept.text : `${kept.text},${textOf(input)}`;
    if (!endsTurn(items)) return { ...kept, input: [...kept.input, ...input], text };
    kept.text = text;
    for (const name of names) kept.names.add(name);
    for (const part of input) kept.input.push(part);
    for (const item of items) kept.items.push(item);
    return kept;
  }

  #begin(transcript: readonly Item[]): Made {
    const { opening, input } = this.#form.make(transcript, false);
    const names = this.#namesOf(transcript);
    const made = { opening, input, items: [...transcript], names: new Set(names), text: textOf(input) };
    const [first] = transcript;
    if (first && names && input.length > 0 && endsTurn(transcript)) this.#made.set(first, made);
    return made;
  }

  #namesOf(items: readonly Item[]): string[] | undefined {
    const found: string[] = [];
    for (const item of items) {
      const names = this.#form.namesOf(item);
      if (names === undefined) return undefined;
      found.push(...names);
    }
    return found;
  }
}

function goesOn(transcript: readonly Item[], known: readonly Item[]): boolean {
  return known.length <= transcript.length && known.every((item, at) => item === transcript[at]);
}

function textOf(input: readonly JsonObject[]): string {
  return JSON.stringify(input).slice(1, -1);
}

/** An empty message may be left out, and a result closes its turn only as the one result of a call in it. */
function endsTurn(items: readonly Item[]): boolean {
  const last = items.at(-1);
  if (last?.type === 'message') {
    const { role, content } = last;
    if (role === 'assistant') return false;
    return content.some(part => (part.type === 'text' ? part.text !== '' : role === 'user'));
  }
  const answered = new Set<string>();
  let inTurn = false;
  for (let at = items.length - 1; at >= 0; at -= 1) {
    const item = items[at];
    if (item?.type === 'tool_result') {
      if (inTurn) return false;
      answered.add(item.callId);
      continue;
    }
    inTurn = true;
    if (item?.type === 'message' && item.role !== 'assistant') return false;
    if (item?.type !== 'tool_call' || !answered.has(item.callId)) continue;
    return !items.slice(0, at).some(other => 'callId' in other && other.callId === item.callId);
  }
  return false;
}
