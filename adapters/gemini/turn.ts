import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import { malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';
import type { AnswerReader } from '../turn/single-turn.ts';
import { toolCall } from '../turn/tool-calls.ts';
import { finishReasons, TurnBuilder } from '../turn/turn-builder.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { type ContentSpan, GEMINI, imageURL, keep, signed } from './request.ts';

/** Members of a candidate that describe its sources. They are not content and are never sent back. */
const METADATA = ['groundingMetadata', 'urlContextMetadata', 'citationMetadata'];

/**
 * Reads the turn of a response, complete or streamed.
 *
 * T1 Only the first candidate is read.
 * T2 The last finish reason and the last usage with counts win; metadata of one kind is merged.
 */
export class TurnReader implements AnswerReader {
  readonly #parts = new PartReader();
  readonly #request: ModelRequest;
  #model: string;
  #hasCandidate = false;
  #finishReason: string | undefined;
  #blockReason: string | undefined;
  #usage: JsonObject | undefined;
  readonly #metadata = new Map<string, JsonObject>();

  readonly #context: ProviderContext;

  constructor(request: ModelRequest, context: ProviderContext) {
    this.#request = request;
    this.#model = context.model;
    this.#context = context;
  }

  get progress(): 'open' | 'ended' {
    return this.#finishReason === undefined && this.#blockReason === undefined ? 'open' : 'ended';
  }

  read(body: JsonObject): ModelTurn {
    this.push(body);
    if (this.#hasCandidate || this.progress === 'ended') return this.end();
    throw malformedStream('the response has no candidate and no block reason', this.#context, body);
  }

  push(response: JsonObject): TurnDelta[] {
    this.#model = nonEmpty(response.modelVersion) ?? this.#model;
    this.#blockReason = nonEmpty(objectOf(response.promptFeedback).blockReason) ?? this.#blockReason;
    if (isJsonObject(response.usageMetadata)) this.#readUsage(response.usageMetadata);
    const candidate = objectsOf(response.candidates).find(({ index }) => (index ?? 0) === 0);
    if (!candidate) return [];
    this.#hasCandidate = true;
    this.#finishReason = nonEmpty(candidate.finishReason) ?? this.#finishReason;
    for (const name of METADATA) this.#readMetadata(name, objectOf(candidate[name]));
    return objectsOf(objectOf(candidate.content).parts).flatMap(part => this.#parts.read(part));
  }

  end(): ModelTurn {
    const turn = new TurnBuilder(this.#request);
    this.#parts.addTo(turn);
    for (const [kind, data] of this.#metadata) turn.addProviderItem(kind, { provider: GEMINI, data });
    const hasCalls = turn.toolCalls.length > 0;
    return turn.turn({
      finishReason: finishReasonOf(this.#finishReason, this.#blockReason, { hasCalls }),
      usage: usageOf(this.#usage),
      model: this.#model,
    });
  }

  #readUsage(usage: JsonObject): void {
    if (this.#usage === undefined || COUNTS.some(name => usage[name] !== undefined)) this.#usage = usage;
  }

  #readMetadata(kind: string, metadata: JsonObject): void {
    if (Object.keys(metadata).length === 0) return;
    this.#metadata.set(kind, { ...this.#metadata.get(kind), ...metadata });
  }
}

const COUNTS = ['promptTokenCount', 'candidatesTokenCount', 'thoughtsTokenCount', 'totalTokenCount'];

/** The API omits counts of 0, as usual for JSON converted from protobuf. */
function usageOf(usage: JsonObject | undefined): Usage | null {
  if (!usage) return null;
  return normalizeUsage({
    input: sum(usage.promptTokenCount, usage.toolUsePromptTokenCount),
    output: sum(usage.candidatesTokenCount, usage.thoughtsTokenCount),
    cachedInput: usage.cachedContentTokenCount,
    reasoning: usage.thoughtsTokenCount,
  });
}

function sum(...counts: (JsonValue | undefined)[]): number {
  return counts.reduce<number>((total, count) => total + (typeof count === 'number' ? count : 0), 0);
}

type Run = { type: 'text' | 'reasoning'; pieces: string[]; spans: ContentSpan[] };
type Piece = Run | { type: 'call'; call: CallReader } | { type: 'part'; part: JsonObject };

/**
 * Reads the parts of a model turn in order.
 *
 * P1 Consecutive texts form one item, as do consecutive thoughts. A signed part keeps its extent in the item;
 *    unsigned parts are joined, so that the result does not depend on how a stream was split.
 * P2 A call whose arguments arrive in pieces is open until its last piece, or until another call starts.
 * P3 Parts without a portable form are kept unchanged.
 */
class PartReader {
  readonly #pieces: Piece[] = [];
  #open: CallReader | undefined;
  #calls = 0;

  read(part: JsonObject): TurnDelta[] {
    if (typeof part.text === 'string') return this.#readText(part, part.text);
    if (isJsonObject(part.functionCall)) return this.#readCall(part, part.functionCall);
    if (kindOf(part) !== undefined) this.#pieces.push({ type: 'part', part });
    return [];
  }

  addTo(turn: TurnBuilder): void {
    for (const piece of this.#pieces) {
      if (piece.type === 'call') addCall(turn, piece.call);
      else if (piece.type === 'part') turn.items.push(partItem(piece.part));
      else addRun(turn, piece);
    }
  }

  #readText(part: JsonObject, text: string): TurnDelta[] {
    const thoughtSignature = nonEmpty(part.thoughtSignature);
    if (text === '' && thoughtSignature === undefined) return [];
    const type = part.thought === true ? 'reasoning' : 'text';
    const run = this.#run(type);
    run.pieces.push(text);
    const last = run.spans.at(-1);
    if (last && thoughtSignature === undefined && last.thoughtSignature === undefined) {
      last.length += text.length;
    } else run.spans.push({ length: text.length, ...signed(thoughtSignature) });
    return text === '' ? [] : [{ type, text }];
  }

  #run(type: Run['type']): Run {
    const last = this.#pieces.at(-1);
    if (last?.type === type) return last;
    const run: Run = { type, pieces: [], spans: [] };
    this.#pieces.push(run);
    return run;
  }

  #readCall(part: JsonObject, source: JsonObject): TurnDelta[] {
    const name = nonEmpty(source.name);
    const deltas = name === undefined ? [] : this.#close();
    if (name !== undefined) {
      this.#open = new CallReader(this.#calls++, name);
      this.#pieces.push({ type: 'call', call: this.#open });
      deltas.push({ type: 'call_started', index: this.#open.index, name });
    }
    this.#open?.push(part, source);
    return source.willContinue === true ? deltas : [...deltas, ...this.#close()];
  }

  #close(): TurnDelta[] {
    const call = this.#open;
    this.#open = undefined;
    return call ? [{ type: 'call_arguments', index: call.index, text: call.arguments() }] : [];
  }
}

function addRun(turn: TurnBuilder, { type, pieces, spans }: Run): void {
  const text = pieces.join('');
  const kept = keep(spans.some(span => span.thoughtSignature !== undefined) ? { spans } : {});
  if (type === 'reasoning') turn.addReasoning(text, kept);
  else if (text !== '') turn.addText(text, kept);
  else {
    for (const { thoughtSignature } of spans)
      turn.items.push(partItem({ text, ...signed(thoughtSignature) }));
  }
}

function addCall(turn: TurnBuilder, call: CallReader): void {
  const { name, id, thoughtSignature } = call;
  const kept = keep({ ...signed(thoughtSignature), ...(id === undefined ? {} : { hasId: true }) });
  turn.addCall(toolCall(turn.nextCallId(id), name, call.arguments()), kept);
}

function partItem(part: JsonObject): Item {
  const url = isJsonObject(part.inlineData) && part.thought !== true ? imageURL(part.inlineData) : undefined;
  if (url !== undefined) {
    const kept = { opaque: { provider: GEMINI, data: signed(nonEmpty(part.thoughtSignature)) } };
    return { type: 'message', role: 'assistant', content: [{ type: 'image', url }], ...kept };
  }
  return {
    type: 'provider_item',
    kind: kindOf(part) ?? 'part',
    opaque: { provider: GEMINI, data: { part } },
  };
}

function kindOf(part: JsonObject): string | undefined {
  return Object.keys(part).find(name => !SECONDARY_MEMBERS.has(name)) ?? Object.keys(part)[0];
}

const SECONDARY_MEMBERS = new Set(
  'thought thoughtSignature partMetadata videoMetadata mediaResolution'.split(' '),
);

class CallReader {
  readonly index: number;
  readonly name: string;
  id: string | undefined;
  thoughtSignature: string | undefined;
  #pieces: PartialArguments | undefined;
  #args: JsonValue | undefined;

  constructor(index: number, name: string) {
    this.index = index;
    this.name = name;
  }

  push(part: JsonObject, { id, args, partialArgs }: JsonObject): void {
    this.id ??= nonEmpty(id);
    this.thoughtSignature ??= nonEmpty(part.thoughtSignature);
    for (const piece of objectsOf(partialArgs)) this.#partial().push(piece);
    if (this.#pieces && isJsonObject(args)) this.#pieces.add(args);
    else this.#args = args ?? this.#args;
  }

  /** Returns the arguments as JSON text. Text that the model sent instead of an object is returned unchanged. */
  arguments(): string {
    if (this.#pieces) return this.#pieces.text();
    const text = typeof this.#args === 'string' ? this.#args : JSON.stringify(this.#args ?? {});
    return text.trim() === '' ? '{}' : text;
  }

  #partial(): PartialArguments {
    if (!this.#pieces) {
      this.#pieces = new PartialArguments();
      if (isJsonObject(this.#args)) this.#pieces.add(this.#args);
    }
    return this.#pieces;
  }
}

const DEEPEST = 100;

/**
 * Assembles call arguments from pieces that each have a JSON path (`streamFunctionCallArguments`).
 *
 * A1 Texts for the same path are concatenated; any other value replaces the previous one.
 * A2 A piece with an invalid path makes the arguments invalid JSON, so that the call becomes an error and
 *    does not run with incomplete arguments.
 */
class PartialArguments {
  readonly #root: JsonObject = Object.create(null);
  #misplaced: string | undefined;

  add(args: JsonObject): void {
    Object.assign(this.#root, args);
  }

  push(piece: JsonObject): void {
    const value = valueIn(piece);
    if (value === undefined) return;
    const path = nonEmpty(piece.jsonPath) ?? '';
    const steps = stepsOf(path);
    if (!steps || !place(this.#root, steps, value)) this.#misplaced ??= path;
  }

  /** Returns the arguments as JSON text; invalid JSON if a piece could not be placed. */
  text(): string {
    const text = JSON.stringify(this.#root);
    return this.#misplaced === undefined ? text : `${text} and a value for ${this.#misplaced}`;
  }
}

function valueIn(piece: JsonObject): JsonValue | undefined {
  if (piece.nullValue !== undefined) return null;
  return piece.stringValue ?? piece.numberValue ?? piece.boolValue ?? undefined;
}

type Step = string | number;

/** Parses a path like `$.a.b[0]["c"]`; `undefined` if it is invalid. */
function stepsOf(path: string): Step[] | undefined {
  const steps: Step[] = [];
  let read = path.startsWith('$') ? 1 : 0;
  for (const [match, name, index, quoted] of path.matchAll(STEP)) {
    if (steps.length === DEEPEST) return undefined;
    if (index !== undefined) steps.push(Number(index));
    else steps.push(name ?? (quoted ?? '').slice(1, -1).replace(/\\(.)/g, '$1'));
    read += match.length;
  }
  return read === path.length && steps.length > 0 ? steps : undefined;
}

const STEP = /\.([^.[\]]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]/g;

/** Returns `false` if the value has no place: lists grow by one, and a value never becomes a container. */
function place(root: JsonObject, steps: readonly Step[], value: JsonValue): boolean {
  let container: JsonValue = root;
  for (const [at, step] of steps.entries()) {
    const next = steps[at + 1];
    const present = memberOf(container, step);
    if (present === NO_PLACE) return false;
    let member: JsonValue | undefined = present;
    if (next === undefined) member = joined(present, value);
    else if (present === undefined) member = typeof next === 'number' ? [] : Object.create(null);
    if (member === undefined) return false;
    if (Array.isArray(container)) container[Number(step)] = member;
    else if (isJsonObject(container)) container[step] = member;
    container = member;
  }
  return true;
}

const NO_PLACE = Symbol('no place');

function memberOf(container: JsonValue, step: Step): JsonValue | undefined | typeof NO_PLACE {
  if (Array.isArray(container) && typeof step === 'number') {
    return step <= container.length ? container[step] : NO_PLACE;
  }
  if (!isJsonObject(container) || typeof step !== 'string') return NO_PLACE;
  return Object.hasOwn(container, step) ? container[step] : undefined;
}

function joined(present: JsonValue | undefined, value: JsonValue): JsonValue {
  return typeof present === 'string' && typeof value === 'string' ? present + value : value;
}

function finishReasonOf(
  reason: string | undefined,
  blocked: string | undefined,
  { hasCalls }: { hasCalls: boolean },
): FinishReason {
  if (reason === undefined) return blocked === undefined ? 'unknown' : 'content_filter';
  const known = REASONS.get(reason) ?? 'unknown';
  return known === 'stop' && hasCalls ? 'tool_calls' : known;
}

const BLOCKED = [
  'SAFETY',
  'RECITATION',
  'LANGUAGE',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'MODEL_ARMOR',
];
const BLOCKED_IMAGES = ['IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION', 'IMAGE_OTHER'];
const BROKEN = ['MALFORMED_FUNCTION_CALL', 'MALFORMED_RESPONSE', 'UNEXPECTED_TOOL_CALL'];

const REASONS = finishReasons(
  ['stop', 'STOP'],
  ['length', 'MAX_TOKENS'],
  ['content_filter', ...BLOCKED, ...BLOCKED_IMAGES],
  ['error', ...BROKEN, 'TOO_MANY_TOOL_CALLS', 'MISSING_THOUGHT_SIGNATURE', 'NO_IMAGE'],
);
