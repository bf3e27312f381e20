import { beginFold, foldEntry } from '../../engine/journal/load-run.ts';
import type { Call, Context } from '../../machines/context.ts';
import { addUsage } from '../../machines/limits.ts';
import { listOpen } from '../../machines/settled.ts';
import { hasEnded, isAtRest, statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import type { Item, Part } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Open } from '../../protocol/run-view.ts';
import type { Usage } from '../../protocol/turn.ts';
import { type Attributes, placeOfCall, placeOfTurn, type RunSpan, spanIdOf } from './run-span.ts';

export type TracePlace = {
  traceId: string;
  /** The id of the conversation: that of the thread of the topmost run, or of the first of the runs that it continues. */
  conversationId: string;
};

type Drive = DriveFacts & { spanId: string; parentSpanId: string | undefined; start: number };

type Spanned = Pick<RunSpan, 'name' | 'start' | 'end' | 'attributes'> & {
  [Name in 'parentSpanId' | 'kind' | 'error']?: RunSpan[Name] | undefined;
};

type OpenCall = { attempt: number; start: number; parentSpanId: string | undefined; attributes: Attributes };

/** When driving began, if an event shows that it did: at a claim, or at the input that ended a rest. */
type Candidate = { seq: number; at: number; claimed: boolean };

/**
 * Folds the journal of one run into its spans. Pure: the same entries give the same spans with the same ids, in the
 * process that drives the run and afterwards.
 *
 * F1 A drive is the work between two rests under one claim: one `invoke_agent` span. The first drive of the topmost
 *    run is the root of the trace; later drives and waits are its children.
 * F2 A span is returned once, by the entry that ends it.
 * F3 A drive, a call or a wait before a retry that the death of its process cut short ends at the next claim, as an
 *    error of the type `interrupted`, and at the time of the last entry before it.
 * F4 A wait is of one call, or of a paused run, and lasts from the rest in which it began until it is over, even if the
 *    run continues. A call that waits for a sub-agent's run has no span of its own.
 */
export class SpanFold {
  readonly #place: TracePlace;
  readonly #content: boolean;
  readonly #instructions: Map<string, string> | undefined;
  #state: ChartState | null = null;
  #runId = '';
  #parentSpanId: string | undefined;
  #firstSpanId: string | undefined;
  #origins: ReadonlyMap<string, string> = new Map();
  /** A fork's entries before its first claim are a copy: the original run has their spans. */
  #isCopy = false;
  #drives = 0;
  #drive: Drive | null = null;
  #candidate: Candidate | null = null;
  #calls = new Map<string, OpenCall>();
  #waits = new Map<string, OpenWait>();
  #backoff: { seq: number; at: number } | null = null;
  #lastAt = 0;

  /** `instructions`: those of this process's model calls by `placeOfTurn`; the fold removes what it has used. */
  constructor(
    place: TracePlace,
    { content = false, instructions }: { content?: boolean; instructions?: Map<string, string> } = {},
  ) {
    this.#place = place;
    this.#content = content;
    this.#instructions = instructions;
  }

  take(entry: JournalEntry): RunSpan[] {
    const { seq, event } = entry;
    const before = this.#state;
    const state = before === null ? this.#begin(event) : foldEntry(before, entry, this.#runId);
    this.#state = state;
    const spans: RunSpan[] = [];
    if (event.type === 'run.claimed') spans.push(...this.#takeClaim(seq, event.at));
    else if (before === null) this.#candidate = { seq, at: event.at, claimed: false };
    else if (!this.#isCopy) spans.push(...this.#takeEvent(seq, event, before, state));
    this.#lastAt = event.at;
    return spans;
  }

  /** The drive that has not ended, up to the last entry, so that its children have a parent. */
  unfinished(): RunSpan[] {
    return this.#drive === null ? [] : [this.#endDrive(this.#drive, this.#lastAt, { unfinished: true })];
  }

  #begin(event: RunEvent): ChartState {
    const state = beginFold(event as Extract<RunEvent, { type: 'run.started' }>);
    if (event.type !== 'run.started') return state;
    this.#runId = event.runId;
    const { parent, forkOf } = event;
    this.#parentSpanId = parent && spanIdOf(parent.runId, placeOfCall(parent.callId, 1));
    this.#isCopy = forkOf !== undefined;
    this.#origins = new Map(
      (event.tools ?? []).flatMap(tool => (tool.server === undefined ? [] : [[tool.name, tool.server]])),
    );
    return state;
  }

  #takeClaim(seq: number, at: number): RunSpan[] {
    const spans = this.#interrupt();
    const state = this.#state;
    this.#isCopy = false;
    if (state === null || hasEnded(state)) return spans;
    this.#candidate = { seq, at, claimed: true };
    if (!isAtRest(state)) this.#beginDrive(state.context.cost);
    return spans;
  }

  #takeEvent(seq: number, event: RunEvent, before: ChartState, state: ChartState): RunSpan[] {
    const { at } = event;
    const isActive = !isAtRest(state) && !hasEnded(state);
    if (isAtRest(before) && isActive && this.#drive === null)
      this.#candidate = { seq, at, claimed: this.#candidate?.claimed === true };
    if (this.#drive === null && ('generation' in event || this.#candidate?.claimed === true))
      if (isActive || 'generation' in event) this.#beginDrive(before.context.cost);
    const spans = [...this.#takeReport(seq, event, before, state), ...this.#matchBackoff(seq, at, state)];
    spans.push(...this.#matchWaits(seq, event, state));
    if (!isActive && this.#drive !== null) {
      spans.push(...this.#endCalls(at, hasEnded(state) ? 'cancelled' : 'interrupted'));
      spans.push(this.#endDrive(this.#drive, at, { unfinished: false }));
    }
    return spans;
  }

  #takeReport(seq: number, event: RunEvent, before: ChartState, state: ChartState): RunSpan[] {
    switch (event.type) {
      case 'turn.completed':
      case 'turn.failed':
        return [this.#makeChat(event, before, state)];
      case 'transcript.compacted':
      case 'compaction.failed':
        return this.#makeSummary(seq, event, before, state);
      case 'tool.started':
        this.#startCall(event, state);
        return [];
      case 'tool.settled':
        return this.#endCall(event.callId, event.at, {
          ...(event.isError && { 'error.type': 'tool_error' }),
          ...(this.#content && { 'gen_ai.tool.call.result': JSON.stringify(event.shown ?? event.output) }),
        });
      case 'tool.doubted':
        return this.#endCall(event.callId, event.at, { 'error.type': 'in_doubt' });
      case 'tool.interrupted':
        return this.#endCall(event.callId, event.at, { 'error.type': 'interrupted' });
      case 'tool.suspended':
        return this.#endCall(event.callId, event.at, { 'agentchart.suspended': true });
      default:
        return [];
    }
  }

  #makeChat(
    event: Extract<RunEvent, { type: 'turn.completed' | 'turn.failed' }>,
    { context: before }: ChartState,
    { context: after }: ChartState,
  ): RunSpan {
    const { number: turn, model, attempt } = before.turn;
    const asked = before.config.models[model]?.model ?? 'unknown';
    const place = placeOfTurn({ turn, model, attempt });
    const instructions = this.#instructions?.get(place);
    this.#instructions?.delete(place);
    const drive = this.#drive;
    if (drive !== null) {
      drive.modelCalls += 1;
      if (event.type === 'turn.completed') drive.usage = addUsage(drive.usage, event.usage);
    }
    return this.#makeSpan(this.#idOf(place), {
      parentSpanId: drive?.spanId,
      name: `chat ${asked}`,
      kind: 'client',
      start: event.startedAt,
      end: event.at,
      attributes: {
        ...chatAttributes(event, before, after.cost - before.cost),
        ...(this.#content && chatContent(event, before, instructions)),
      },
      error: event.type === 'turn.failed' ? this.#describeFailure(event.error) : undefined,
    });
  }

  /** The call that asked a model for a summary. The agent's own summary function is not a model call. */
  #makeSummary(
    seq: number,
    event: Extract<RunEvent, { type: 'transcript.compacted' | 'compaction.failed' }>,
    { context: before }: ChartState,
    { context: after }: ChartState,
  ): RunSpan[] {
    const { usage, usageUnknown, startedAt, at } = event;
    if (usage === null && usageUnknown !== true) return [];
    const drive = this.#drive;
    if (drive !== null) {
      drive.modelCalls += 1;
      drive.usage = addUsage(drive.usage, usage);
    }
    const error = event.type === 'compaction.failed' ? event.error : undefined;
    const asked = askedAttributes(before);
    return [
      this.#makeSpan(this.#idOf(`compaction:${seq}`), {
        parentSpanId: drive?.spanId,
        name: `chat ${asked['gen_ai.request.model']}`,
        kind: 'client',
        start: startedAt,
        end: at,
        attributes: {
          ...asked,
          'agentchart.summary': true,
          ...spentAttributes(usage, after.cost - before.cost),
          ...omitUndefined({ 'error.type': error?.code }),
        },
        error: error && this.#describeFailure(error),
      }),
    ];
  }

  #describeFailure({ code, message }: { code: string; message: string }): string {
    return this.#content ? message : code;
  }

  #startCall(event: Extract<RunEvent, { type: 'tool.started' }>, { context }: ChartState): void {
    const { callId, attempt, at } = event;
    const call = context.calls.find(candidate => candidate.callId === callId);
    const server = call && this.#origins.get(call.name);
    if (this.#drive !== null) this.#drive.toolCalls += 1;
    this.#calls.set(callId, {
      attempt,
      start: at,
      parentSpanId: this.#drive?.spanId,
      attributes: {
        ...callAttributes(event, call, server),
        ...(this.#content && { 'gen_ai.tool.call.arguments': JSON.stringify(call?.input ?? null) }),
      },
    });
  }

  #endCall(callId: string, end: number, attributes: Attributes): RunSpan[] {
    const call = this.#calls.get(callId);
    if (call === undefined) return [];
    this.#calls.delete(callId);
    const { attempt, start, parentSpanId } = call;
    const error = attributes['error.type'];
    return [
      this.#makeSpan(this.#idOf(placeOfCall(callId, attempt)), {
        parentSpanId,
        name: `execute_tool ${call.attributes['gen_ai.tool.name']}`,
        start,
        end,
        attributes: { ...call.attributes, ...attributes },
        error: error === undefined ? undefined : String(error),
      }),
    ];
  }

  #endCalls(at: number, type: string): RunSpan[] {
    return [...this.#calls.keys()].flatMap(callId => this.#endCall(callId, at, { 'error.type': type }));
  }

  #matchBackoff(seq: number, at: number, state: ChartState): RunSpan[] {
    const waits = state.value === 'backingOff';
    if (waits) this.#backoff ??= { seq, at };
    if (waits || this.#backoff === null) return [];
    return this.#endBackoff(this.#backoff, at);
  }

  #endBackoff(backoff: { seq: number; at: number }, end: number): RunSpan[] {
    this.#backoff = null;
    return [
      this.#makeSpan(this.#idOf(`backoff:${backoff.seq}`), {
        parentSpanId: this.#drive?.spanId,
        name: 'agentchart.backoff',
        start: backoff.at,
        end,
        attributes: {},
      }),
    ];
  }

  #matchWaits(seq: number, event: RunEvent, state: ChartState): RunSpan[] {
    const open = waitsIn(state);
    const over = [...this.#waits].filter(([key]) => !open.has(key));
    if (isAtRest(state))
      for (const [key, wait] of open)
        if (!this.#waits.has(key)) this.#waits.set(key, { ...wait, seq, start: event.at });
    return over.map(([key, wait]) => {
      this.#waits.delete(key);
      return this.#makeSpan(this.#idOf(`wait:${wait.seq}:${key}`), {
        parentSpanId: this.#firstSpanId,
        name: 'agentchart.wait',
        start: wait.start,
        end: event.at,
        attributes: { ...wait.attributes, ...outcomeOfWait(event, { content: this.#content }) },
      });
    });
  }

  #beginDrive(cost: number): void {
    const { seq, at } = this.#candidate ?? { seq: 0, at: this.#lastAt };
    this.#candidate = null;
    const spanId = this.#idOf(`drive:${seq}`);
    const parentSpanId = this.#firstSpanId ?? this.#parentSpanId;
    this.#firstSpanId ??= spanId;
    this.#drives += 1;
    const facts = { number: this.#drives, modelCalls: 0, toolCalls: 0, usage: null, costBefore: cost };
    this.#drive = { ...facts, spanId, parentSpanId, start: at };
  }

  /** Ends the spans that the previous driver left open, at the last entry before this claim. */
  #interrupt(): RunSpan[] {
    const spans = this.#endCalls(this.#lastAt, 'interrupted');
    if (this.#backoff !== null) spans.push(...this.#endBackoff(this.#backoff, this.#lastAt));
    if (this.#drive !== null) spans.push(this.#endDrive(this.#drive, this.#lastAt, { unfinished: true }));
    return spans;
  }

  #endDrive(drive: Drive, end: number, { unfinished }: { unfinished: boolean }): RunSpan {
    const state = this.#state as ChartState;
    const { agent, next } = state.context;
    this.#drive = null;
    const failure = state.value === 'failed' && next?.type === 'fail' ? next : undefined;
    const errorType = unfinished ? 'interrupted' : failure?.code;
    const error = failure === undefined || unfinished ? errorType : this.#describeFailure(failure);
    return this.#makeSpan(drive.spanId, {
      parentSpanId: drive.parentSpanId,
      name: `invoke_agent ${agent.name}`,
      start: drive.start,
      end,
      attributes: { ...driveAttributes(state, drive), ...omitUndefined({ 'error.type': errorType }) },
      error,
    });
  }

  #idOf(place: string): string {
    return spanIdOf(this.#runId, place);
  }

  #makeSpan(
    spanId: string,
    { parentSpanId, kind = 'internal', error, attributes, start, end, name }: Spanned,
  ): RunSpan {
    const { traceId, conversationId } = this.#place;
    return {
      traceId,
      spanId,
      ...omitUndefined({ parentSpanId }),
      name,
      kind,
      start,
      end: Math.max(start, end),
      attributes: {
        ...attributes,
        'gen_ai.agent.name': this.#state?.context.agent.name ?? 'unknown',
        'gen_ai.conversation.id': conversationId,
        'agentchart.run.id': this.#runId,
      },
      ...omitUndefined({ error }),
    };
  }
}

type OpenWait = { seq: number; start: number; attributes: Attributes };

const WAITS: Readonly<Record<Open['kind'], { waitsFor: string; place: string }>> = {
  approval: { waitsFor: 'approval', place: 'gated' },
  result: { waitsFor: 'result', place: 'waiting' },
  doubt: { waitsFor: 'resolution', place: 'doubted' },
  question: { waitsFor: 'answer', place: 'asking' },
  review: { waitsFor: 'review', place: 'reviewed' },
  'sign-in': { waitsFor: 'sign-in', place: 'signing-in' },
  pause: { waitsFor: 'unpause', place: 'paused' },
};

function waitsIn(state: ChartState): Map<string, Pick<OpenWait, 'attributes'>> {
  const waits = new Map<string, Pick<OpenWait, 'attributes'>>();
  if (hasEnded(state)) return waits;
  for (const open of listOpen(state.context)) {
    const { waitsFor, place } = WAITS[open.kind];
    const call = 'name' in open && { 'gen_ai.tool.name': open.name, 'gen_ai.tool.call.id': open.callId };
    const attributes = { 'agentchart.wait.for': waitsFor, ...call };
    waits.set('callId' in open ? `${place}:${open.callId}` : place, { attributes });
  }
  return waits;
}

function outcomeOfWait(event: RunEvent, { content }: { content: boolean }): Attributes {
  const by = 'by' in event && event.type !== 'run.claimed' ? event.by : undefined;
  return {
    'agentchart.wait.outcome': nameOutcome(event),
    ...(content && by !== undefined && { 'agentchart.wait.by': by }),
  };
}

function nameOutcome(event: RunEvent): string {
  switch (event.type) {
    case 'approval.decided':
    case 'review.decided':
      return event.decision.type;
    case 'doubt.resolved':
      return event.resolution.type;
    case 'question.answered':
      return Object.values(event.answers).some(({ type }) => type === 'given') ? 'answered' : 'declined';
    case 'result.received':
      return event.isError ? 'failed' : 'answered';
    case 'message.received':
      return 'superseded';
    case 'timer.fired':
      return 'expired';
    case 'run.unpaused':
    case 'step.requested':
      return 'unpaused';
    case 'run.cancelled':
    case 'cancel.requested':
      return 'cancelled';
    default:
      return 'settled';
  }
}

/**
 * Attributes by the GenAI conventions of OpenTelemetry, v0.1.0, in development.
 * Source: https://github.com/open-telemetry/semantic-conventions-genai
 *
 * Left out: `plan` and memory spans, because a run has no phase of planning apart from its turns and no store of
 * memories; and `gen_ai.response.time_to_first_chunk`, because a journal does not have the times of chunks.
 */

const PROVIDERS: Readonly<Record<string, string>> = {
  'openai-chat': 'openai',
  'openai-responses': 'openai',
  azure: 'azure.ai.openai',
  gemini: 'gcp.gemini',
  'gemini-interactions': 'gcp.gemini',
  mistral: 'mistral_ai',
  xai: 'x_ai',
};

/** The well-known name of a provider in the conventions; else the adapter's own. */
export function providerName(provider: string): string {
  return PROVIDERS[provider] ?? provider;
}

function usageAttributes(usage: Usage | null): Attributes {
  if (usage === null) return {};
  return {
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
    ...(usage.estimated === true && { 'agentchart.usage.estimated': true }),
  };
}

/** Parts of the usage of one model call. The conventions have no sums of them. */
function usageParts(usage: Usage | null): Attributes {
  const counts = {
    'gen_ai.usage.cache_read.input_tokens': usage?.cachedInputTokens ?? undefined,
    'gen_ai.usage.cache_write.input_tokens': usage?.cacheWriteTokens ?? undefined,
    'gen_ai.usage.reasoning.output_tokens': usage?.reasoningTokens ?? undefined,
  };
  return omitUndefined(counts);
}

type Turned = Extract<RunEvent, { type: 'turn.completed' | 'turn.failed' }>;

/** A model call. `before` is the context before it; `cost` is its cost, in the unit of the prices. */
function chatAttributes(event: Turned, before: Context, cost: number): Attributes {
  return {
    ...askedAttributes(before),
    ...(event.type === 'turn.completed' && { 'gen_ai.provider.name': providerName(event.provider) }),
    ...(isStreamed(before) && { 'gen_ai.request.stream': true }),
    'agentchart.turn': before.turn.number,
    'agentchart.attempt': before.turn.attempt,
    ...(event.broken && { 'agentchart.broken.by': event.broken.by }),
    ...(event.type === 'turn.failed'
      ? {
          'error.type': event.error.code,
          'agentchart.retryable': event.retryable,
          'gen_ai.response.finish_reasons': ['error'],
        }
      : {
          'gen_ai.response.model': event.model,
          'gen_ai.response.finish_reasons': [event.finishReason],
          ...spentAttributes(event.usage, cost),
        }),
  };
}

/** What each call has of the model that the run asks next. */
function askedAttributes({ config, turn, compaction }: Context): Attributes {
  const { provider = 'unknown', model = 'unknown' } = config.models[turn.model] ?? {};
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': providerName(provider),
    'gen_ai.request.model': model,
    ...(compaction.count > 0 && { 'gen_ai.conversation.compacted': true }),
  };
}

function spentAttributes(usage: Usage | null, cost: number): Attributes {
  return { ...usageAttributes(usage), ...usageParts(usage), ...(cost > 0 && { 'agentchart.cost': cost }) };
}

/** The planning turns of a `separate` answer are not streamed. */
function isStreamed({ stream, config, turn }: Context): boolean {
  return stream && (config.finalAnswer !== 'separate' || turn.final);
}

/** The instructions and messages of a model call, as JSON in the shape of the conventions. */
function chatContent(event: Turned, before: Context, instructions = before.params.instructions): Attributes {
  const input = {
    ...(instructions && {
      'gen_ai.system_instructions': JSON.stringify([{ type: 'text', content: instructions }]),
    }),
    'gen_ai.input.messages': JSON.stringify(before.transcript.flatMap(describeItem)),
  };
  if (event.type === 'turn.failed') return input;
  // A turn is one message, whatever it consists of.
  const parts = event.items.flatMap(describeItem).flatMap(message => message.parts);
  return { ...input, 'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', parts }]) };
}

function describeItem(item: Item): { role: string; parts: JsonValue[] }[] {
  switch (item.type) {
    case 'message':
      return [{ role: item.role, parts: item.content.map(describePart) }];
    case 'reasoning':
      return [{ role: 'assistant', parts: [{ type: 'reasoning', content: item.text }] }];
    case 'tool_call': {
      const { callId: id, name } = item;
      return [{ role: 'assistant', parts: [{ type: 'tool_call', id, name, arguments: item.arguments }] }];
    }
    case 'tool_result': {
      const response = item.shown ?? item.output;
      return [{ role: 'tool', parts: [{ type: 'tool_call_response', id: item.callId, response }] }];
    }
    default:
      return [];
  }
}

function describePart(part: Part): JsonValue {
  if (part.type === 'text') return { type: 'text', content: part.text };
  return { type: 'uri', modality: part.type, uri: part.url.startsWith('data:') ? 'data:' : part.url };
}

function callAttributes(
  { callId, attempt }: Extract<RunEvent, { type: 'tool.started' }>,
  call: Call | undefined,
  server: string | undefined,
): Attributes {
  return {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': call?.name ?? 'unknown',
    'gen_ai.tool.call.id': callId,
    'gen_ai.tool.type': server === undefined ? 'function' : 'extension',
    'agentchart.attempt': attempt,
    ...(call !== undefined && { 'agentchart.tool.side_effect': call.sideEffect }),
    ...(server !== undefined && { 'mcp.method.name': 'tools/call', 'agentchart.mcp.server': server }),
  };
}

type DriveFacts = {
  number: number;
  modelCalls: number;
  toolCalls: number;
  usage: Usage | null;
  costBefore: number;
};

function driveAttributes(state: ChartState, drive: DriveFacts): Attributes {
  const { agent, cost } = state.context;
  return {
    'gen_ai.operation.name': 'invoke_agent',
    ...omitUndefined({ 'agentchart.agent.version': agent.version }),
    ...usageAttributes(drive.usage),
    'agentchart.drive': drive.number,
    'agentchart.run.status': statusOf(state),
    'agentchart.model_calls': drive.modelCalls,
    'agentchart.tool_calls': drive.toolCalls,
    ...(cost > drive.costBefore && { 'agentchart.cost': cost - drive.costBefore }),
  };
}
