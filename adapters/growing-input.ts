import type { Item } from '../protocol/item.ts';
import type { JsonObject } from '../protocol/json.ts';

/** How the items of a transcript are made the input of a request. */
export type InputForm = {
  make(items: readonly Item[]): JsonObject[];
  /**
   * The names by which an item is tied to others, such as its call's id; `undefined` for one that has to be
   * seen together with all others. Items without a name in common are made the same apart as together.
   */
  namesOf(item: Item): readonly string[] | undefined;
};

/** Below this many items keeping costs more than making. */
const SHORT = 64;

type Made = { items: Item[]; names: Set<string>; input: JsonObject[] };

/**
 * The input of transcripts that grow from call to call: only what was added is made. The result is equal to what
 * `make` gives for the whole transcript.
 *
 * G1 What is kept is used only while each of its items is the same object at the same place. After an edit, a
 *    trim or in another branch of the run the whole input is made again. Items never change.
 * G2 What is kept ends with a tool result or with a message that is not the assistant's: there every form of
 *    input closes what it has open. What is added shares no name with what is kept.
 */
export class GrowingInput {
  readonly #form: InputForm;
  readonly #made = new WeakMap<Item, Made>();

  constructor(form: InputForm) {
    this.#form = form;
  }

  /** The caller copies the array before the next call, which may append to it. */
  of(transcript: readonly Item[]): readonly JsonObject[] {
    const [first] = transcript;
    if (first === undefined || transcript.length < SHORT || !endsTurn(transcript.at(-1))) {
      return this.#form.make(transcript);
    }
    const known = this.#made.get(first);
    const made: Made =
      known && goesOn(transcript, known.items) ? known : { items: [], names: new Set(), input: [] };
    const added = transcript.slice(made.items.length);
    const names = added.map(item => this.#form.namesOf(item));
    if (names.some(some => some === undefined || some.some(name => made.names.has(name)))) {
      this.#made.delete(first);
      return this.#form.make(transcript);
    }
    for (const name of names.flatMap(some => some ?? [])) made.names.add(name);
    for (const part of this.#form.make(added)) made.input.push(part);
    for (const item of added) made.items.push(item);
    this.#made.set(first, made);
    return made.input;
  }
}

function endsTurn(item: Item | undefined): boolean {
  return item?.type === 'tool_result' || (item?.type === 'message' && item.role !== 'assistant');
}

function goesOn(transcript: readonly Item[], known: readonly Item[]): boolean {
  return known.length <= transcript.length && known.every((item, at) => item === transcript[at]);
}
