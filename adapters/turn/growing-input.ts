import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { setText } from '../http/body-text.ts';

/** A transcript in a provider's form. `opening`: leading instructions, for providers that take them separately. */
export type Input = { opening: readonly string[]; input: JsonObject[] };

type InputForm = {
  /** Converts items. `hasPrevious`: other input precedes these items. */
  make(items: readonly Item[], options: { hasPrevious: boolean }): Input;
  /** What links an item to others, such as a call id; `undefined` if it converts only with all others. */
  namesOf(item: Item): readonly string[] | undefined;
  /** Whether two adjacent parts would convert differently if converted together. Default: never. */
  joins?(last: JsonObject, next: JsonObject): boolean;
};

type Made = Input & { items: Item[]; names: Set<string>; text: string };

/**
 * Caches the input of transcripts that grow from call to call, and its JSON text: only added items are
 * converted. The result equals what `make` returns for the full transcript.
 *
 * G1 The cache is used only while each of its items is the same object at the same position. After an edit or
 *    a trim, or in another branch of the run, the full input is converted again. Items never change.
 * G2 The cache ends where no form of input has anything open: after a user or system message, or after the
 *    result of a call. Added items share no name with cached ones, and the two do not join.
 */
export class GrowingInput {
  readonly #form: InputForm;
  readonly #made = new WeakMap<Item, Made>();

  constructor(form: InputForm) {
    this.#form = form;
  }

  of(transcript: readonly Item[], head: readonly JsonObject[] = []): Input {
    const made = this.#extend(transcript) ?? this.#makeAll(transcript);
    const input = [...head, ...made.input];
    setText(input, `[${[...head.map(part => JSON.stringify(part)), made.text].filter(Boolean).join(',')}]`);
    return { opening: made.opening, input };
  }

  #extend(transcript: readonly Item[]): Made | undefined {
    const [first] = transcript;
    const kept = first && this.#made.get(first);
    if (kept === undefined || !startsWith(transcript, kept.items)) return undefined;
    if (transcript.length === kept.items.length) return kept;
    const items = transcript.slice(kept.items.length);
    const names = this.#namesOf(items);
    if (names?.some(name => kept.names.has(name)) !== false) return undefined;
    const { input } = this.#form.make(items, { hasPrevious: true });
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

  #makeAll(transcript: readonly Item[]): Made {
    const { opening, input } = this.#form.make(transcript, { hasPrevious: false });
    const names = this.#namesOf(transcript);
    const made = { opening, input, items: [...transcript], names: new Set(names), text: textOf(input) };
    const [first] = transcript;
    if (first && names && input.length > 0 && endsTurn(transcript)) this.#made.set(first, made);
    return made;
  }

  #namesOf(items: readonly Item[]): string[] | undefined {
    const names = items.map(item => this.#form.namesOf(item));
    return names.every(found => found !== undefined) ? names.flat() : undefined;
  }
}

function startsWith(transcript: readonly Item[], known: readonly Item[]): boolean {
  return known.length <= transcript.length && known.every((item, at) => item === transcript[at]);
}

function textOf(input: readonly JsonObject[]): string {
  return JSON.stringify(input).slice(1, -1);
}

/** An empty message may be left out of the input, and a result closes its turn only as its call's only one. */
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
