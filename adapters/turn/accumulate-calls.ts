import type { JsonValue } from '../../protocol/json.ts';
import type { TurnDelta } from '../../protocol/turn.ts';

/** A piece of a call as a provider streams it. `''`, `null` and absent all mean: not said. */
export type CallFragment = {
  id?: string | null;
  index?: number | null;
  name?: string | null;
  arguments?: JsonValue;
};

/** A call put together; `id` is `null` when the provider gave none, `arguments` is the text as it came. */
export type AccumulatedCall = { id: string | null; name: string; arguments: string };

type OpenCall = { position: number; id: string | null; name: string; pieces: string[] };

/**
 * Puts streamed calls together.
 *
 * C1 A fragment belongs to the call with its id; an id that is new begins a new call, even under a
 *    used index; without an id it belongs to the latest call under its index; without both to the
 *    call touched last. An id that is new joins that call only if it has none and not both have a name:
 *    then the parts of one call came in another order.
 * C2 The first name that is not empty counts. Arguments that come with the name are the first fragment.
 * C3 Nothing is parsed or joined before `calls()`: what parses early can be the beginning of more.
 * C4 A call is announced once, when its name is known; argument text before that is held back till then.
 */
export class CallAccumulator {
  #calls: OpenCall[] = [];
  #byId = new Map<string, OpenCall>();
  #byIndex = new Map<number, OpenCall>();
  #last: OpenCall | undefined;
  #announced = 0;

  /** Takes a fragment in; what of it a reader of the stream can be shown. */
  push(fragment: CallFragment): TurnDelta[] {
    return this.#extend(this.#find(fragment) ?? this.#open(fragment), fragment);
  }

  /** Takes a call that is whole, such as an entry of a list: it never joins another one. */
  add(call: Omit<CallFragment, 'index'>): TurnDelta[] {
    return this.#extend(this.#open(call), call);
  }

  /** The calls in the order of the deltas' `index`. A call without a name comes last, one that said nothing at all not. */
  calls(): AccumulatedCall[] {
    const named = this.#calls.filter(call => call.position >= 0).sort((a, b) => a.position - b.position);
    const nameless = this.#calls.filter(call => call.position < 0 && call.pieces.length > 0);
    return [...named, ...nameless].map(call => ({
      id: call.id,
      name: call.name,
      arguments: call.pieces.join(''),
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
    const deltas: TurnDelta[] = [];
    const text = argumentText(fragment.arguments);
    if (text !== '') call.pieces.push(text);
    if (call.position >= 0) {
      if (text !== '') deltas.push({ type: 'call_arguments', index: call.position, text });
    } else if (fragment.name) {
      call.name = fragment.name;
      call.position = this.#announced++;
      deltas.push({ type: 'call_started', index: call.position, name: call.name });
      const held = call.pieces.join('');
      if (held !== '') deltas.push({ type: 'call_arguments', index: call.position, text: held });
    }
    return deltas;
  }
}

/** Providers send arguments as text, or as the object itself. */
function argumentText(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
