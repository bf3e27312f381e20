import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { TurnDelta } from '../../protocol/turn.ts';
import { callStarted } from './turn-deltas.ts';

/**
 * A piece of a streamed tool call. An absent member, `''` and `null` all mean that the piece does not contain
 * it.
 */
export type CallFragment = {
  id?: string | null;
  index?: number | null;
  name?: string | null;
  arguments?: JsonValue;
  /** Members of the provider that are sent back with the call. */
  extra?: JsonObject;
};

/** An assembled call. `id` is `null` when the provider sent none; `arguments` is the text as received. */
export type AccumulatedCall = { id: string | null; name: string; arguments: string; extra?: JsonObject };

type OpenCall = { position: number; id: string | null; name: string; pieces: string[]; extra?: JsonObject };

/**
 * Assembles streamed tool calls from their fragments.
 *
 * C1 A fragment with an id belongs to the call with that id. A new id starts a new call, even under a used
 *    index. A fragment without an id belongs to the latest call under its index, or, without an index, to the
 *    call that was extended last. Exception: a new id is assigned to that call if the call has no id yet and
 *    not both have a name, because then the parts of one call arrived in a different order.
 * C2 The first non-empty name is used. Arguments that arrive with the name are the first fragment.
 * C3 Nothing is parsed or joined before `calls()`: text that parses early may be the beginning of longer
 *    text.
 * C4 A call is announced once, when its name is known; argument text that arrives earlier is held back until
 *    then.
 */
export class CallAccumulator {
  #calls: OpenCall[] = [];
  #byId = new Map<string, OpenCall>();
  #byIndex = new Map<number, OpenCall>();
  #last: OpenCall | undefined;
  #announced = 0;

  /** Adds a fragment. Returns the deltas to show to a reader of the stream. */
  push(fragment: CallFragment): TurnDelta[] {
    return this.#extend(this.#find(fragment) ?? this.#open(fragment), fragment);
  }

  /** Adds a complete call, such as an entry of a list. It is never merged with another call. */
  add(call: Omit<CallFragment, 'index'>): TurnDelta[] {
    return this.#extend(this.#open(call), call);
  }

  /**
   * Returns the calls in the order of the deltas' `index`. Calls without a name come last; empty ones are
   * omitted.
   */
  calls(): AccumulatedCall[] {
    const named = this.#calls.filter(call => call.position >= 0).sort((a, b) => a.position - b.position);
    const nameless = this.#calls.filter(call => call.position < 0 && call.pieces.length > 0);
    return [...named, ...nameless].map(call => ({
      id: call.id,
      name: call.name,
      arguments: call.pieces.join(''),
      ...omitUndefined({ extra: call.extra }),
    }));
  }

  #find({ id, index, name }: CallFragment): OpenCall | undefined {
    const latest = typeof index === 'number' ? this.#byIndex.get(index) : this.#last;
    if (!id) return latest;
    const known = this.#byId.get(id);
    if (known || !latest || latest.id !== null || (latest.name !== '' && name)) return known;
    latest.id = id;
    this.#byId.set(id, latest);
    return latest;
  }

  #open({ id, index }: CallFragment): OpenCall {
    const call: OpenCall = { position: -1, id: id || null, name: '', pieces: [] };
    this.#calls.push(call);
    if (id) this.#byId.set(id, call);
    if (typeof index === 'number') this.#byIndex.set(index, call);
    return call;
  }

  #extend(call: OpenCall, fragment: CallFragment): TurnDelta[] {
    this.#last = call;
    if (fragment.extra !== undefined) call.extra = { ...call.extra, ...fragment.extra };
    const deltas: TurnDelta[] = [];
    const text = argumentText(fragment.arguments);
    if (text !== '') call.pieces.push(text);
    if (call.position >= 0) {
      if (text !== '') deltas.push({ type: 'call_arguments', index: call.position, text });
    } else if (fragment.name) {
      call.name = fragment.name;
      call.position = this.#announced++;
      deltas.push(callStarted(call.position, call.name, call.id ?? ''));
      const held = call.pieces.join('');
      if (held !== '') deltas.push({ type: 'call_arguments', index: call.position, text: held });
    }
    return deltas;
  }
}

/** Providers send arguments as text or as an object. */
function argumentText(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
