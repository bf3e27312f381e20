import type { ProviderError } from '../../protocol/error.ts';
import type { Part, ReasoningItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import {
  errorFromBody,
  malformedStream,
  type ProviderContext,
  unsupported,
} from '../http/provider-errors.ts';
import { arrayOf, integerIn, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import type { AnswerReader } from '../turn/single-turn.ts';
import { toolCall } from '../turn/tool-calls.ts';
import { MOST_DROPPED, TurnBuilder } from '../turn/turn-builder.ts';
import { callStarted } from '../turn/turn-deltas.ts';
import { normalizeUsage } from '../turn/usage.ts';
import type { ResponsesDialect } from './dialect.ts';
import { type Kept, keptFrom, keyOf, withoutFollower } from './input.ts';
import { type CallKind, callKindOf, callTypeAnsweredBy } from './item-kinds.ts';

/** The kind of a call that is not the provider's own. */
function ourKind(item: JsonObject, { customTools }: ResponsesDialect): CallKind | undefined {
  const kind = callKindOf(item.type);
  const isTheirs = item.type !== 'function_call' && customTools === 'provider';
  return isTheirs || kind?.atProvider?.(item) ? undefined : kind;
}

/** The tool in a namespace that a call names. */
function memberCalled({ namespace, name }: JsonObject, { members }: ModelRequest) {
  return (
    members && Object.entries(members).find(([, one]) => one.namespace === namespace && one.name === name)
  );
}

function nameOf(item: JsonObject, request: ModelRequest): string {
  return memberCalled(item, request)?.[0] ?? textIn(item.name);
}

/** The ids of the calls whose outputs are in the same response: the provider has run them. */
function answeredIn(output: readonly JsonObject[]): ReadonlySet<string> {
  return new Set(
    output.flatMap(({ type, call_id: id }) =>
      callTypeAnsweredBy(type) === undefined || typeof id !== 'string' ? [] : [id],
    ),
  );
}

function reasoningText(item: JsonObject): string {
  const summary = joinedText(item.summary);
  return summary === '' ? joinedText(item.content) : summary;
}

function joinedText(parts: JsonValue | undefined): string {
  return objectsOf(parts)
    .map(part => textIn(part.text))
    .join('');
}

class OutputReader {
  readonly turn: TurnBuilder;
  isRefused = false;
  /** A call was given an id that the provider does not know. */
  isRenamed = false;
  readonly #dialect: ResponsesDialect;
  readonly #request: ModelRequest;
  readonly #answered: ReadonlySet<string>;
  readonly #callIds = new Set<string>();
  #after: string | undefined;

  constructor(dialect: ResponsesDialect, request: ModelRequest, output: readonly JsonObject[]) {
    this.#dialect = dialect;
    this.#request = request;
    this.#answered = answeredIn(output);
    this.turn = new TurnBuilder(request);
  }

  read(item: JsonObject, next: JsonObject | undefined): void {
    const kind = this.#answered.has(textIn(item.call_id)) ? undefined : ourKind(item, this.#dialect);
    if (item.type === 'message') this.#readMessage(item);
    else if (item.type === 'reasoning') this.#readReasoning(item, next);
    else if (kind) this.#readCall(item, kind);
    else {
      this.turn.addProviderItem(nonEmpty(item.type) ?? 'unknown', this.#opaque({ item, ...this.#origin() }));
    }
  }

  /** A refusal is after the text of its message: text that follows it is a message of its own. */
  #readMessage(item: JsonObject): void {
    const empty = (): { content: Part[]; refusal: string } => ({ content: [], refusal: '' });
    let piece = empty();
    const pieces = [piece];
    for (const part of objectsOf(item.content)) {
      if (part.type === 'refusal') {
        this.isRefused = true;
        piece.refusal += textIn(part.refusal);
      } else if (typeof part.text === 'string') {
        if (piece.refusal !== '') {
          piece = empty();
          pieces.push(piece);
        }
        const annotations = arrayOf(part.annotations);
        piece.content.push({ type: 'text', text: part.text, ...(annotations.length > 0 && { annotations }) });
        this.turn.text += part.text;
      }
    }
    for (const [at, { content, refusal }] of pieces.entries()) {
      const kept: Kept = {
        ...(at === 0 ? this.#origin(item) : { ...this.#origin(), more: true }),
        ...omitUndefined({ phase: nonEmpty(item.phase), refusal: refusal || undefined }),
      };
      this.turn.items.push({ type: 'message', role: 'assistant', content, opaque: this.#opaque(kept) });
    }
  }

  #readReasoning(item: JsonObject, next: JsonObject | undefined): void {
    const kept: Kept = { item: withoutStatus(item), ...omitUndefined({ before: next && keyOf(next) }) };
    this.turn.addReasoning(reasoningText(item), this.#opaque(kept));
    this.#after = keyOf(item);
  }

  #readCall(item: JsonObject, kind: CallKind): void {
    const providerId = nonEmpty(item.call_id);
    const isFree = providerId !== undefined && !this.#callIds.has(providerId);
    const callId = isFree ? providerId : this.turn.nextCallId();
    this.#callIds.add(callId);
    if (callId !== providerId) this.isRenamed = true;
    const kept: Kept = {
      ...this.#origin(item),
      ...omitUndefined({
        as: item.type === 'function_call' ? undefined : nonEmpty(item.type),
        namespace: nonEmpty(item.namespace),
        called: memberCalled(item, this.#request)?.[1].name,
        caller: isJsonObject(item.caller) ? item.caller : undefined,
      }),
    };
    const name = kind.tool ?? nameOf(item, this.#request);
    this.turn.addCall(toolCall(callId, name, kind.read(item)), this.#opaque(kept));
  }

  #origin(item: JsonObject = {}): Kept {
    return omitUndefined({ id: nonEmpty(item.id), after: this.#after });
  }

  #opaque(data: Kept): { provider: string; data: JsonValue } {
    return { provider: this.#dialect.provider, data };
  }
}

function withoutStatus({ status: _, ...item }: JsonObject): JsonObject {
  return item;
}

function finishReasonOf(
  response: JsonObject,
  { isRefused, hasCalls }: { isRefused: boolean; hasCalls: boolean },
): FinishReason {
  switch (response.status ?? 'completed') {
    case 'completed':
      if (isRefused) return 'content_filter';
      return hasCalls ? 'tool_calls' : 'stop';
    case 'incomplete':
      return objectOf(response.incomplete_details).reason === 'content_filter' ? 'content_filter' : 'length';
    case 'failed':
      return 'error';
    default:
      return 'unknown';
  }
}

/** OpenAI sends a cache write count of 0 if it has no such count. */
function usageOf(value: JsonValue | undefined): Usage | null {
  const usage = objectOf(value);
  const input = objectOf(usage.input_tokens_details);
  return normalizeUsage({
    input: usage.input_tokens,
    output: usage.output_tokens,
    cachedInput: input.cached_tokens,
    cacheWrite: input.cache_write_tokens || undefined,
    reasoning: objectOf(usage.output_tokens_details).reasoning_tokens,
  });
}

function failedResponse({ id, status, error }: JsonObject, context: ProviderContext): ProviderError {
  return errorFromBody({ id: id ?? null, status: status ?? null, error: error ?? null }, context);
}

/** Reads one response. Its output is its own if it has any, else the streamed items. */
export class ResponseReader implements AnswerReader {
  progress: 'open' | 'over' = 'open';
  readonly #request: ModelRequest;
  readonly #context: ProviderContext;
  readonly #dialect: ResponsesDialect;
  #response: JsonObject = {};
  readonly #slots = new OutputSlots();
  #calls = 0;
  #refusals = 0;
  /** Of each reasoning item without text: the number of refusals before it. */
  #sealed: number[] = [];
  #isRefused = false;

  constructor(request: ModelRequest, dialect: ResponsesDialect, context: ProviderContext) {
    this.#request = request;
    this.#dialect = dialect;
    this.#context = context;
  }

  read(body: JsonObject): ModelTurn {
    if (body.status === 'failed') throw failedResponse(body, this.#context);
    if (!Array.isArray(body.output)) {
      throw malformedStream('the response has no output', this.#context, body);
    }
    if (body.status === 'queued' || body.status === 'in_progress') {
      throw unsupported(
        `the response is still ${body.status}. Background responses are not supported: remove the option background.`,
        this.#context,
      );
    }
    return this.#turn(body, objectsOf(body.output));
  }

  end(): ModelTurn {
    const output = objectsOf(this.#response.output);
    return this.#turn(this.#response, output.length > 0 ? this.#asFinished(output) : this.#slots.items());
  }

  #turn(response: JsonObject, output: readonly JsonObject[]): ModelTurn {
    const reader = new OutputReader(this.#dialect, this.#request, output);
    for (const [at, item] of output.entries()) reader.read(item, output[at + 1]);
    const { turn, isRefused, isRenamed } = reader;
    const canContinue =
      this.#dialect.remembers &&
      response.store !== false &&
      (response.status ?? 'completed') === 'completed' &&
      !isRenamed;
    return turn.turn({
      finishReason: finishReasonOf(response, { isRefused, hasCalls: turn.toolCalls.length > 0 }),
      usage: usageOf(response.usage),
      model: nonEmpty(response.model) ?? this.#context.model,
      ...omitUndefined({
        continuation: canContinue ? nonEmpty(response.id) : undefined,
        dropped: this.#dropped(response),
      }),
    });
  }

  /** OpenAI leaves out the reasoning of earlier turns of the user as a matter of course. */
  #dropped({ input_transformations: reported }: JsonObject): string[] | undefined {
    const removed = objectsOf(reported).filter(({ reason }) => reason !== 'turn_boundary');
    if (removed.length === 0) return undefined;
    const names = new Set(removed.map(({ id }) => id));
    const ids = this.#request.transcript.flatMap(item => {
      const kept = item.type === 'reasoning' ? keptFrom(this.#dialect.provider, item.opaque) : undefined;
      return kept?.item && item.id !== undefined && names.has(kept.item.id) ? [item.id] : [];
    });
    return ids.length === 0 ? undefined : ids.slice(0, MOST_DROPPED);
  }

  /** Restores the encrypted reasoning of the finished items: OpenAI encrypts it differently in each event. */
  #asFinished(output: readonly JsonObject[]): JsonObject[] {
    return output.map((item, at) => {
      const finished = this.#slots.finishedAt(at);
      const encrypted = finished?.type === item.type ? nonEmpty(finished?.encrypted_content) : undefined;
      return encrypted === undefined ? item : { ...item, encrypted_content: encrypted };
    });
  }

  *push(event: JsonObject, type: string): Generator<TurnDelta, void> {
    switch (type) {
      case 'response.completed':
      case 'response.incomplete':
      case 'response.done':
        this.#response = objectOf(event.response);
        this.progress = 'over';
        return;
      case 'response.failed':
      case 'response.cancelled':
        throw failedResponse(objectOf(event.response), this.#context);
      case 'response.output_item.added':
      case 'response.output_item.done': {
        const item = objectOf(event.item);
        const slot = this.#slots.at(event, item);
        const isRepeated = slot.finished;
        slot.item = item;
        slot.finished = type === 'response.output_item.done';
        yield* this.#announce(slot);
        if (!slot.finished || isRepeated || item.type !== 'reasoning') return;
        const reasoning = this.#reasoning(isComplete(slot) ? item : assembled(slot));
        if (reasoning.text === '') {
          this.#passRefusal();
          this.#sealed = [...this.#sealed, this.#refusals];
        } else if (!isStreamed(slot)) yield* this.#delta('reasoning', { delta: reasoning.text });
        yield { type: 'reasoning_ended', item: reasoning };
        return;
      }
      case 'response.output_text.delta':
        addToPart(this.#slots.at(event), event, 'output_text', textIn(event.delta));
        yield* this.#delta('text', event);
        return;
      case 'response.output_text.done':
        setPart(this.#slots.at(event), event, 'output_text', textIn(event.text));
        return;
      case 'response.refusal.delta':
        addToPart(this.#slots.at(event), event, 'refusal', textIn(event.delta));
        this.#isRefused ||= textIn(event.delta) !== '';
        return;
      case 'response.refusal.done':
        setPart(this.#slots.at(event), event, 'refusal', textIn(event.refusal));
        this.#isRefused ||= textIn(event.refusal) !== '';
        return;
      case 'response.reasoning_summary_text.delta':
        addToPart(this.#slots.at(event), event, 'summary_text', textIn(event.delta));
        yield* this.#delta('reasoning', event);
        return;
      case 'response.reasoning_text.delta': {
        const slot = this.#slots.at(event);
        addToPart(slot, event, 'reasoning_text', textIn(event.delta));
        if (!hasSummary(slot)) yield* this.#delta('reasoning', event);
        return;
      }
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        yield* this.#callDelta(this.#slots.at(event), type, textIn(event.delta));
        return;
      case 'response.function_call_arguments.done':
        this.#slots.at(event).written = textIn(event.arguments);
        return;
      case 'response.custom_tool_call_input.done':
        this.#slots.at(event).written = textIn(event.input);
        return;
    }
  }

  /** What follows it is not known yet. */
  #reasoning(item: JsonObject): ReasoningItem {
    const reader = new OutputReader(this.#dialect, this.#request, [item]);
    reader.read(item, item);
    const [read] = reader.turn.items;
    return withoutFollower(read?.type === 'reasoning' ? read : { type: 'reasoning', text: '' });
  }

  *#delta(type: 'text' | 'reasoning', event: JsonObject): Generator<TurnDelta, void> {
    const text = textIn(event.delta);
    if (text === '') return;
    this.#passRefusal();
    yield {
      type,
      text,
      ...(this.#refusals > 0 && { refusals: this.#refusals }),
      ...(this.#sealed.length > 0 && { sealed: this.#sealed }),
    };
  }

  #passRefusal(): void {
    if (this.#isRefused) this.#refusals += 1;
    this.#isRefused = false;
  }

  *#announce(slot: OutputSlot): Generator<TurnDelta, void> {
    const kind = ourKind(slot.item, this.#dialect);
    if (slot.callIndex !== undefined || kind === undefined) return;
    slot.callIndex = this.#calls++;
    const name = kind.tool ?? nameOf(slot.item, this.#request);
    // A search has another id when it is finished.
    const isKnown = slot.finished || slot.item.type !== 'tool_search_call';
    yield callStarted(slot.callIndex, name, isKnown ? textIn(slot.item.call_id) : '');
  }

  /** Custom input becomes a JSON member of the arguments, so it can only be shown when it is complete. */
  *#callDelta(slot: OutputSlot, type: string, text: string): Generator<TurnDelta, void> {
    if (text === '') return;
    slot.pieces.push(text);
    if (slot.callIndex === undefined || type !== 'response.function_call_arguments.delta') return;
    yield { type: 'call_arguments', index: slot.callIndex, text };
  }
}

function isStreamed({ parts }: OutputSlot): boolean {
  return [...parts.values()].some(({ pieces }) => pieces.join('') !== '');
}

function hasSummary(slot: OutputSlot): boolean {
  return [...slot.parts.values()].some(part => part.type === 'summary_text');
}

type OutputSlot = {
  /** The announced item; replaced by the finished item when it arrives. */
  item: JsonObject;
  finished: boolean;
  callIndex?: number;
  /** Text, refusal, summary and reasoning parts: the full text if a `done` event sent it, else the pieces. */
  parts: Map<string, { type: string; pieces: string[] }>;
  pieces: string[];
  written?: string;
};

/**
 * Collects the output items of a streamed response.
 *
 * O1 An event belongs to the item at its `output_index`; without one, to the item with its `item_id`; without
 *    both, to the item of the previous event. Some proxies change the `item_id` with every event.
 * O2 A finished item with content takes precedence over its pieces, and a full text over the sum of its
 *    deltas.
 */
class OutputSlots {
  #byIndex = new Map<number, OutputSlot>();
  #byId = new Map<string, OutputSlot>();
  #order: { at: number; slot: OutputSlot }[] = [];
  #last: OutputSlot | undefined;

  at(event: JsonObject, item: JsonObject = {}): OutputSlot {
    const index = integerIn(event.output_index);
    const id = nonEmpty(event.item_id) ?? nonEmpty(item.id);
    const slot = this.#find(index, id) ?? this.#open(index);
    if (id !== undefined) this.#byId.set(id, slot);
    this.#last = slot;
    return slot;
  }

  items(): JsonObject[] {
    return this.#order
      .toSorted((a, b) => a.at - b.at)
      .map(({ slot }) => (isComplete(slot) ? slot.item : assembled(slot)))
      .filter(item => nonEmpty(item.type) !== undefined);
  }

  finishedAt(index: number): JsonObject | undefined {
    const slot = this.#byIndex.get(index);
    return slot?.finished ? slot.item : undefined;
  }

  #find(index: number | undefined, id: string | undefined): OutputSlot | undefined {
    if (index !== undefined) return this.#byIndex.get(index);
    return id === undefined ? this.#last : this.#byId.get(id);
  }

  #open(index: number | undefined): OutputSlot {
    const slot: OutputSlot = { item: {}, finished: false, parts: new Map(), pieces: [] };
    if (index !== undefined) this.#byIndex.set(index, slot);
    this.#order.push({ at: index ?? this.#order.length, slot });
    return slot;
  }
}

function addToPart(slot: OutputSlot, event: JsonObject, type: string, text: string): void {
  const key = partKey(event, type);
  const part = slot.parts.get(key);
  if (part) part.pieces.push(text);
  else slot.parts.set(key, { type, pieces: [text] });
}

function setPart(slot: OutputSlot, event: JsonObject, type: string, text: string): void {
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
