import { hashText } from '../../protocol/content/hash-text.ts';
import type { Item, ToolResultItem } from '../../protocol/item.ts';
import {
  DEEPEST_JSON,
  isJsonObject,
  isTooDeep,
  type JsonObject,
  type JsonValue,
  omitUndefined,
} from '../../protocol/json.ts';
import type { ModelRequest, ToolCall, ToolDefinition, TurnDelta } from '../../protocol/turn.ts';
import { jsonIn, shorten } from './json-access.ts';
import { callStarted } from './turn-deltas.ts';

/** A piece of a streamed tool call. An absent member, `''` and `null` all mean that it is in another piece. */
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

  push(fragment: CallFragment): TurnDelta[] {
    return this.#extend(this.#find(fragment) ?? this.#open(fragment), fragment);
  }

  add(call: Omit<CallFragment, 'index'>): TurnDelta[] {
    return this.#extend(this.#open(call), call);
  }

  /** The calls in the order of the deltas' `index`, then those without a name, except empty ones. */
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

/** Arguments as text; of a value that is not a text, its JSON. */
export function argumentText(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Names calls without an id, or with a duplicate, by transcript and position: a repeat gets the same. */
export class CallIds {
  readonly #transcript: ModelRequest['transcript'];
  #taken: Set<string> | undefined;
  #hash: string | undefined;

  constructor(transcript: ModelRequest['transcript']) {
    this.#transcript = transcript;
  }

  /** Returns `providerId` if it is usable and unique, else a generated id. */
  name(providerId: string | null | undefined, index: number): string {
    this.#taken ??= new Set(this.#transcript.flatMap(item => (item.type === 'tool_call' ? item.callId : [])));
    let id = providerId && !this.#taken.has(providerId) ? providerId : `${this.#prefix}_${index}`;
    while (this.#taken.has(id)) id = `${id}_`;
    this.#taken.add(id);
    return id;
  }

  get #prefix(): string {
    this.#hash ??= hashText(JSON.stringify(this.#transcript)).slice(0, 16);
    return `call_${this.#hash}`;
  }
}

/** Creates a call for the engine from the model's arguments text. Empty text becomes `{}`. */
export function toolCall(callId: string, name: string, text: string): ToolCall {
  return {
    callId,
    name,
    arguments: text.trim() === '' ? '{}' : text,
    ...parseArguments(text),
    executedBy: 'engine',
  };
}

type ParsedArguments = { input: JsonObject } | { error: string };

/** Parses arguments: none is `{}`; all but an object of at most 200 levels is an error for the model. */
export function parseArguments(text: string | null | undefined): ParsedArguments {
  if (text === null || text === undefined || text.trim() === '') return { input: {} };
  const refuse = (what: string) => ({ error: `The arguments ${what}: ${shorten(text, 80)}` });
  const value = jsonIn(text);
  if (value === undefined) return refuse('must be a JSON object, but they are not valid JSON');
  if (isTooDeep(text)) return refuse(`are nested more than ${DEEPEST_JSON} levels deep. Nest them less`);
  return isJsonObject(value)
    ? { input: value }
    : refuse(`must be a JSON object, but they are ${kindOf(value)}`);
}

/** The arguments of an earlier call; text that is not an object becomes `{invalid_arguments: text}`. */
export function argumentsObject(text: string): JsonObject {
  const parsed = parseArguments(text);
  return 'input' in parsed ? parsed.input : { invalid_arguments: text };
}

function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`;
}

/** The tools to send where there is no tool choice: the model does not see those that it must not call. */
export function offeredTools({ tools, toolChoice }: ModelRequest): readonly ToolDefinition[] {
  if (toolChoice === 'none') return [];
  return typeof toolChoice === 'string' ? tools : tools.filter(tool => tool.name === toolChoice.name);
}

/** The results of each call id, in order. There are several if a provider reused the id. */
export function resultsByCall(transcript: readonly Item[]): ReadonlyMap<string, ToolResultItem[]> {
  const results = transcript.filter(item => item.type === 'tool_result');
  return Map.groupBy(results, ({ callId }) => callId);
}

/** Maps call ids to those that the provider accepts, others to one of their digest: unique and stable. */
export class WireCallIds {
  readonly #byCallId = new Map<string, string>();

  constructor(transcript: readonly Item[], form: CallIdForm | undefined) {
    if (!form) return;
    const callIds: string[] = [];
    for (const item of transcript) if (item.type === 'tool_call') callIds.push(item.callId);
    if (callIds.every(form.fits)) return;
    const taken = new Set(callIds.filter(form.fits));
    for (const callId of callIds) {
      if (form.fits(callId) || this.#byCallId.has(callId)) continue;
      let made = form.make(hashText(callId));
      for (let again = 1; taken.has(made); again += 1) made = form.make(hashText(`${callId} ${again}`));
      taken.add(made);
      this.#byCallId.set(callId, made);
    }
  }

  of(callId: string): string {
    return this.#byCallId.get(callId) ?? callId;
  }
}

/** The call ids that a provider accepts. `make` returns a valid id for a digest of 64 hex digits. */
export type CallIdForm = { fits: (id: string) => boolean; make: (digest: string) => string };
