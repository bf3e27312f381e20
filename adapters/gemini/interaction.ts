import type { ProviderError } from '../../protocol/error.ts';
import type { Part } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import {
  classifyFailure,
  errorFromBody,
  malformedStream,
  type ProviderContext,
  unsupported,
} from '../http/provider-errors.ts';
import { arrayOf, integerIn, nonEmpty, objectOf, objectsOf, pick, textIn } from '../turn/json-access.ts';
import type { AnswerReader } from '../turn/single-turn.ts';
import { argumentText, toolCall } from '../turn/tool-calls.ts';
import { finishReasons, TurnBuilder } from '../turn/turn-builder.ts';
import { callStarted } from '../turn/turn-deltas.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { type Continuation, keepStep, summaryOf } from './steps.ts';

/** A step as far as it has arrived. `written`: the arguments of a call, if they were streamed. */
type Slot = { step: JsonObject; written?: string; callIndex?: number; isSealed?: true };

/**
 * Reads one interaction, complete or streamed. A stream has the steps in its events, and the rest at its end.
 *
 * I1 An event belongs to the step at its `index`, or without one to the step of the previous event. A `step.start` with
 *    another type or id than the step at its index begins a new one.
 * I2 Pieces of a text are joined, and those of a sound; of every other member the last one counts. An empty one
 *    replaces nothing.
 * I3 A call is announced once, when its name is known.
 * I4 A stream may end with an update of the status. What it used is in its last event that says so.
 */
export class InteractionReader implements AnswerReader {
  progress: 'open' | 'ended' | 'over' = 'open';
  readonly #request: ModelRequest;
  readonly #context: ProviderContext;
  #interaction: JsonObject = {};
  readonly #slots: Slot[] = [];
  readonly #byIndex = new Map<number, Slot>();
  #calls = 0;
  /** A `0` for each thought without a summary, the number of refusals before it; made when a delta needs it. */
  #sealed: readonly 0[] = [];
  #sealedThoughts = 0;

  constructor(request: ModelRequest, context: ProviderContext) {
    this.#request = request;
    this.#context = context;
  }

  read(body: JsonObject): ModelTurn {
    return this.#turn(
      body,
      objectsOf(body.steps).map(step => ({ step })),
    );
  }

  end(): ModelTurn {
    const steps = objectsOf(this.#interaction.steps).map(step => ({ step }));
    return this.#turn(this.#interaction, steps.length > 0 ? steps : this.#slots);
  }

  *push(event: JsonObject, type: string): Generator<TurnDelta, void> {
    const { total_usage: usage } = objectOf(event.metadata);
    if (isJsonObject(usage)) this.#update({ usage });
    switch (nonEmpty(event.event_type) ?? type) {
      case 'interaction.completed':
        this.progress = 'over';
        this.#update(objectOf(event.interaction));
        return;
      case 'interaction.created':
        this.#update(objectOf(event.interaction));
        return;
      case 'interaction.status_update':
        this.#update(pick(event, ['status', 'continuation_token', 'usage']));
        if (nonEmpty(event.status) !== undefined && !RUNNING.has(event.status)) this.progress = 'ended';
        return;
      case 'error':
        throw errorFromBody(event, this.#context);
      case 'step.start':
        yield* this.#start(event, objectOf(event.step));
        return;
      case 'step.delta':
        yield* this.#extend(event, objectOf(event.delta));
        return;
      case 'step.stop':
        this.#seal(this.#slotAt(event));
        return;
    }
  }

  #update(members: JsonObject): void {
    this.#interaction = { ...this.#interaction, ...members };
  }

  #slotAt({ index }: JsonObject): Slot | undefined {
    const at = integerIn(index);
    return at === undefined ? this.#slots.at(-1) : this.#byIndex.get(at);
  }

  #open({ index }: JsonObject, step: JsonObject): Slot {
    const slot: Slot = { step };
    this.#slots.push(slot);
    const at = integerIn(index);
    if (at !== undefined) this.#byIndex.set(at, slot);
    return slot;
  }

  *#start(event: JsonObject, step: JsonObject): Generator<TurnDelta, void> {
    const { content, summary, ...members } = step;
    const begun = this.#slotAt(event);
    if (integerIn(event.index) !== undefined && begun && isSame(begun.step, step)) {
      begun.step = { ...members, ...begun.step };
      yield* this.#announce(begun);
      return;
    }
    const slot = this.#open(event, members);
    for (const part of objectsOf(content)) yield* this.#addPart(slot, 'content', part);
    for (const part of objectsOf(summary)) yield* this.#addPart(slot, 'summary', part);
    yield* this.#announce(slot);
  }

  *#extend(event: JsonObject, delta: JsonObject): Generator<TurnDelta, void> {
    const { type: kind, ...members } = delta;
    const begun = this.#slotAt(event);
    const isOutput = begun?.step.type === 'model_output';
    const type = STEPS.get(textIn(kind)) ?? (isOutput ? 'model_output' : textIn(kind));
    const slot = begun ?? this.#open(event, { type });
    const { step } = slot;
    if (step.type !== type) return;
    switch (kind) {
      case 'text_annotation':
      case 'text_annotation_delta': {
        const text = lastText(step.content) ?? addTo(step, 'content', { type: 'text', text: '' });
        for (const annotation of arrayOf(delta.annotations)) addTo(text, 'annotations', annotation);
        return;
      }
      case 'thought_summary':
        yield* this.#addPart(slot, 'summary', objectOf(delta.content));
        return;
      case 'arguments_delta': {
        const { arguments: piece, ...more } = members;
        const text = argumentText(piece);
        slot.written = (slot.written ?? '') + text;
        slot.step = withMembers(step, more);
        const index = slot.callIndex;
        if (index !== undefined && text !== '') yield { type: 'call_arguments', index, text };
        return;
      }
      default:
        if (type === 'model_output') yield* this.#addPart(slot, 'content', delta);
        else slot.step = withMembers(step, members);
    }
  }

  *#addPart({ step }: Slot, list: 'content' | 'summary', part: JsonObject): Generator<TurnDelta, void> {
    const last = lastText(step[list]);
    if (typeof part.text !== 'string' || !last) addTo(step, list, { ...part });
    else last.text = textIn(last.text) + part.text;
    const text = textIn(part.text);
    if (text === '') return;
    const type = list === 'summary' ? 'reasoning' : 'text';
    if (this.#sealed.length < this.#sealedThoughts)
      this.#sealed = Array.from({ length: this.#sealedThoughts }, () => 0 as const);
    yield { type, text, ...(this.#sealed.length > 0 && { sealed: this.#sealed }) };
  }

  *#announce(slot: Slot): Generator<TurnDelta, void> {
    const { step, written } = slot;
    const name = nonEmpty(step.name);
    if (step.type !== 'function_call' || slot.callIndex !== undefined || name === undefined) return;
    const index = this.#calls++;
    slot.callIndex = index;
    yield callStarted(index, name, textIn(step.id));
    if (written) yield { type: 'call_arguments', index, text: written };
  }

  #seal(slot: Slot | undefined): void {
    if (slot?.step.type !== 'thought' || slot.isSealed || !isSignedOnly(slot.step)) return;
    slot.isSealed = true;
    this.#sealedThoughts += 1;
  }

  #turn(interaction: JsonObject, steps: readonly Slot[]): ModelTurn {
    const status = nonEmpty(interaction.status);
    if (status === undefined)
      throw malformedStream('the interaction has no status', this.#context, interaction);
    if (status === 'failed' || status === 'cancelled') throw failedInteraction(interaction, this.#context);
    if (RUNNING.has(status))
      throw unsupported(
        `the interaction is still ${status}. Background interactions are not supported: remove the option background.`,
        this.#context,
      );
    const reader = new StepReader(new TurnBuilder(this.#request));
    for (const slot of inCallOrder(steps)) {
      if (slot.step.type === 'function_call' && nonEmpty(slot.step.name) === undefined) {
        throw malformedStream('a function call has no name', this.#context, slot.step);
      }
      reader.read(slot);
    }
    const { turn, isRenamed } = reader;
    const hasCalls = turn.toolCalls.length > 0;
    const known = isRenamed ? undefined : continuationOf(interaction, status, { hasCalls });
    return turn.turn({
      finishReason: finishReasonOf(interaction, status, { hasCalls, canResume: known?.token !== undefined }),
      usage: usageOf(interaction.usage),
      model: nonEmpty(interaction.model) ?? this.#context.model,
      ...omitUndefined({ continuation: known?.token === undefined ? known?.id : known }),
    });
  }
}

const RUNNING: ReadonlySet<JsonValue | undefined> = new Set(['queued', 'in_progress']);

/** The type of the step that a delta is part of, if it is not the delta's own. */
const STEPS: ReadonlyMap<string, string> = new Map([
  ...['text', 'image', 'audio', 'video', 'document', 'text_annotation', 'text_annotation_delta'].map(
    kind => [kind, 'model_output'] as const,
  ),
  ['thought_summary', 'thought'],
  ['thought_signature', 'thought'],
  ['arguments_delta', 'function_call'],
]);

/** Whether a start repeats the start of a step, or names one of which only pieces were seen. */
function isSame(begun: JsonObject, step: JsonObject): boolean {
  const idOf = ({ id, call_id }: JsonObject) => nonEmpty(id) ?? nonEmpty(call_id);
  return begun.type === step.type && (idOf(begun) ?? idOf(step)) === idOf(step);
}

function withMembers(step: JsonObject, members: JsonObject): JsonObject {
  const given = Object.entries(members).filter(([name, value]) => value !== '' || step[name] === undefined);
  return { ...step, ...Object.fromEntries(given) };
}

/** Adds to a list that no event shares, in place: a stream may have a million pieces. */
function addTo<Added extends JsonValue>(whole: JsonObject, list: string, added: Added): Added {
  const known = whole[list];
  if (Array.isArray(known)) known.push(added);
  else whole[list] = [added];
  return added;
}

function lastText(parts: JsonValue | undefined): JsonObject | undefined {
  const last = objectOf(arrayOf(parts).at(-1));
  return typeof last.text === 'string' ? last : undefined;
}

function isSignedOnly(thought: JsonObject): boolean {
  return nonEmpty(thought.signature) !== undefined && summaryOf(thought) === '';
}

/** Calls stand where they were announced: one whose name came late is after those that it was announced after. */
function inCallOrder(steps: readonly Slot[]): readonly Slot[] {
  const calls = steps.filter(({ callIndex }) => callIndex !== undefined);
  calls.sort((one, other) => (one.callIndex ?? 0) - (other.callIndex ?? 0));
  const next = calls.values();
  return steps.map(slot => (slot.callIndex === undefined ? slot : (next.next().value ?? slot)));
}

class StepReader {
  readonly turn: TurnBuilder;
  /** A call was given an id that the provider does not know. */
  isRenamed = false;

  constructor(turn: TurnBuilder) {
    this.turn = turn;
  }

  /** Steps of the user repeat the input. A stream has an empty signature where there is none. */
  read({ step: { signature, ...members }, written }: Slot): void {
    const type = nonEmpty(members.type);
    const step: JsonObject = { ...members, ...omitUndefined({ signature: signature || undefined }) };
    if (type === 'model_output') this.#readOutput(step);
    else if (type === 'thought') this.#readThought(step);
    else if (type === 'function_call') this.#readCall(step, written);
    else if (type !== undefined && type !== 'user_input') this.turn.addProviderItem(type, keepStep({ step }));
  }

  /** A part without a portable form is an item of its own. */
  #readOutput({ content }: JsonObject): void {
    let parts: Part[] = [];
    let more: JsonObject[] = [];
    const flush = () => {
      if (parts.length === 0) return;
      const isPlain = parts.every(({ type }, at) => type === 'text' && isEmpty(more[at]));
      const opaque = isPlain ? {} : { opaque: keepStep({ parts: more }) };
      this.turn.items.push({ type: 'message', role: 'assistant', content: parts, ...opaque });
      parts = [];
      more = [];
    };
    for (const source of withWholeSounds(objectsOf(content))) {
      const read = partIn(source);
      if (read === undefined) {
        flush();
        const step = { type: 'model_output', content: [source] };
        this.turn.addProviderItem(nonEmpty(source.type) ?? 'content', keepStep({ step }));
      } else if (read.part.type !== 'text' || read.part.text !== '') {
        parts.push(read.part);
        more.push(read.more);
        if (read.part.type === 'text') this.turn.text += read.part.text;
      }
    }
    flush();
  }

  #readThought(step: JsonObject): void {
    const text = summaryOf(step);
    if (text !== '' || nonEmpty(step.signature) !== undefined || objectsOf(step.summary).length > 0)
      this.turn.addReasoning(text, keepStep({ step }));
  }

  #readCall({ type: _, id, name, arguments: args, ...more }: JsonObject, written?: string): void {
    const callId = this.turn.nextCallId(nonEmpty(id));
    if (callId !== id) this.isRenamed = true;
    const call = toolCall(callId, textIn(name), written || argumentText(args));
    this.turn.addCall(call, isEmpty(more) ? undefined : keepStep({ more }));
  }
}

/** A stream has a sound in pieces, each with its own base64. */
function withWholeSounds(content: readonly JsonObject[]): JsonObject[] {
  const groups: JsonObject[][] = [];
  for (const part of content) {
    const [begun] = groups.at(-1) ?? [];
    const isSound = part.type === 'audio' && isBase64(part.data);
    const continues = isSound && begun?.type === 'audio' && begun.mime_type === part.mime_type;
    if (continues && isBase64(begun.data)) groups.at(-1)?.push(part);
    else groups.push([part]);
  }
  return groups.map(pieces => {
    const whole = { ...pieces[0] };
    if (pieces.length > 1) whole.data = btoa(pieces.map(({ data }) => atob(textIn(data))).join(''));
    return whole;
  });
}

function isBase64(value: JsonValue | undefined): boolean {
  return typeof value === 'string' && value.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(value);
}

function isEmpty(members: JsonObject = {}): boolean {
  return Object.keys(members).length === 0;
}

/** A part of an output, and its members that the part has no place for. */
function partIn(source: JsonObject): { part: Part; more: JsonObject } | undefined {
  if (source.type === 'text') {
    if (typeof source.text !== 'string') return undefined;
    const { type, text, annotations, ...rest } = source;
    const found = arrayOf(annotations);
    if (found.length === 0) return { part: { type, text }, more: rest };
    const placed = placesIn(text, found);
    const places = found.map(annotation => pick(objectOf(annotation), PLACES));
    const more = placed === found ? rest : { ...rest, annotations: places };
    return { part: { type, text, annotations: placed }, more };
  }
  const { type, data, uri, mime_type: named, ...more } = source;
  const mediaType = nonEmpty(named);
  if (nonEmpty(data) === undefined && nonEmpty(uri) === undefined) return undefined;
  if (type === 'image') {
    return nonEmpty(data) === undefined
      ? { part: { type, url: textIn(uri) }, more: { ...more, ...omitUndefined({ mime_type: mediaType }) } }
      : { part: { type, url: `data:${mediaType ?? 'image/png'};base64,${textIn(data)}` }, more };
  }
  if (type !== 'audio' && type !== 'video' && type !== 'document') return undefined;
  const url = nonEmpty(data) === undefined ? textIn(uri) : `data:${mediaType ?? ''};base64,${textIn(data)}`;
  return { part: { type: 'file', url, ...omitUndefined({ mediaType }) }, more: { ...more, type } };
}

/** Google places annotations by bytes of UTF-8; everyone else by UTF-16 code units. The same list if there is no difference. */
function placesIn(text: string, annotations: JsonValue[]): JsonValue[] {
  const places = new Map<JsonValue | undefined, number>();
  let bytes = 0;
  let units = 0;
  for (const annotation of annotations)
    for (const name of PLACES) places.set(objectOf(annotation)[name], Number.NaN);
  for (const character of text) {
    if (places.has(bytes)) places.set(bytes, units);
    bytes += bytesIn(character);
    units += character.length;
  }
  if (places.has(bytes)) places.set(bytes, units);
  if (bytes === units) return annotations;
  return annotations.map(annotation => {
    if (!isJsonObject(annotation)) return annotation;
    const known = PLACES.flatMap(name => {
      const place = places.get(annotation[name]) ?? Number.NaN;
      return Number.isNaN(place) ? [] : [[name, place] as const];
    });
    return { ...annotation, ...Object.fromEntries(known) };
  });
}

const PLACES = ['start_index', 'end_index'] as const;

function bytesIn(character: string): number {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}

/** The total includes tokens of tools that the provider ran, and of thoughts: they are not part of input and output. */
function usageOf(value: JsonValue | undefined): Usage | null {
  const usage = objectOf(value);
  return normalizeUsage({
    input: sum(usage.total_input_tokens, usage.total_tool_use_tokens),
    output: sum(usage.total_output_tokens, usage.total_thought_tokens),
    cachedInput: usage.total_cached_tokens,
    reasoning: usage.total_thought_tokens,
  });
}

function sum(...counts: (JsonValue | undefined)[]): number | undefined {
  const known = counts.filter(count => typeof count === 'number');
  return known.length === 0 ? undefined : known.reduce((total, count) => total + count, 0);
}

const REASONS = finishReasons(
  ['stop', 'completed'],
  ['tool_calls', 'requires_action'],
  ['length', 'incomplete', 'budget_exceeded', 'requires_continuation'],
);

function finishReasonOf(
  interaction: JsonObject,
  status: string,
  { hasCalls, canResume }: { hasCalls: boolean; canResume: boolean },
): FinishReason {
  const known = REASONS.get(status) ?? 'unknown';
  const why = { message: '', codes: codesIn(interaction), status: null, retryAfterMs: null };
  if (known === 'length' && classifyFailure(null, why) === 'content-filter') return 'content_filter';
  if (canResume) return 'pause';
  if (known === 'stop' || known === 'tool_calls') {
    if (hasCalls) return 'tool_calls';
    return known === 'stop' ? 'stop' : 'unknown';
  }
  return known;
}

/** The codes of errors are URIs, whose last part is the code in the documentation. */
function codesIn({ errors }: JsonObject): string[] {
  return objectsOf(errors).flatMap(({ code }) => nonEmpty(code)?.split('/').at(-1)?.toLowerCase() ?? []);
}

function failedInteraction(interaction: JsonObject, context: ProviderContext): ProviderError {
  const { id = null, status = null, errors = null } = interaction;
  const [first = {}] = objectsOf(errors);
  const [code = null] = codesIn(interaction);
  return errorFromBody({ id, status, errors, error: { ...first, code } }, context);
}

/** A pause within a call is not a turn to resume: the call would run before it is complete. */
function continuationOf(
  { id, continuation_token: token }: JsonObject,
  status: string,
  { hasCalls }: { hasCalls: boolean },
): Continuation | undefined {
  const known = omitUndefined({ id: nonEmpty(id) });
  if (status === 'completed' || status === 'requires_action') return known;
  const resumes = status === 'requires_continuation' && !hasCalls ? nonEmpty(token) : undefined;
  return resumes === undefined ? undefined : { ...known, token: resumes };
}
