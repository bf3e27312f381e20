import { digestId, ENGINE } from '../../machines/compaction.ts';
import type { Context } from '../../machines/context.ts';
import { recordItems } from '../../machines/ledger.ts';
import type { CapturedExchange } from '../../protocol/adapter.ts';
import { backOffMs } from '../../protocol/back-off.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { batchIn, piecesOf } from '../../protocol/delta-batches.ts';
import { codeOf, EngineError, isThrown, messageOf, ProviderError, setupError } from '../../protocol/error.ts';
import type { ToolInputGuardrail } from '../../protocol/guardrail.ts';
import type { BlobReference, Item } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined, toBoundedText } from '../../protocol/json.ts';
import { refusalOf, textOf } from '../../protocol/message.ts';
import type { Broken } from '../../protocol/sent.ts';
import type { ModelRequest, ModelTurn, Skipped, ToolCall, TurnDelta } from '../../protocol/turn.ts';
import type { Rule } from '../../rules/rule.ts';
import { fitsBytes } from '../../text/cut-text.ts';
import { countUsage, estimateUsage } from '../../text/estimate-usage.ts';
import { chainFilters, type TextFilter } from '../../text/text-filter.ts';
import { type DriveWatcher, watchChunks } from '../events/watch-drive.ts';
import type { Host } from '../host/host.ts';
import { toolsIn } from '../sub-agents/hand-back.ts';
import type { AgentDefinition, CallerRetries, Retry } from './definition.ts';
import { GuardrailUsage, judge } from './guardrails.ts';
import { judgeItems } from './judge-items.ts';
import { type PreparedTurn, prepareRequest, type TurnParts } from './prepare-request.ts';
import { type JudgeInput, makeIdsUnique, qualifyCalls } from './qualify-calls.ts';
import { connectOrAsk, type Report, type Service, type ServiceScope, Stopped } from './service.ts';

type ModelTurnParts = Omit<TurnParts, 'tools'> & {
  connectTools(): Promise<TurnParts['tools']>;
  textFilters: readonly (() => TextFilter)[];
  retry: Retry;
  callerRetries?: CallerRetries;
  watchers?: readonly DriveWatcher[];
  capture?: 'requests';
  rules?: readonly Rule[];
  guardrails?: Pick<AgentDefinition['guardrails'], 'toolInput' | 'input' | 'toolOutput'>;
};

/** Makes exactly one adapter call. Rejects with an `EngineError`, and the run unchanged, if this process is not set up for it. */
export function makeModelTurn(parts: ModelTurnParts): Service {
  return async scope => {
    const startedAt = scope.host.now();
    const exchanges: CapturedExchange[] | undefined = parts.capture && [];
    let broken: Broken | undefined;
    try {
      await scope.durable();
      if (scope.yielding.aborted) return;
      const connected = await connectOrAsk(scope, parts.connectTools);
      if (connected === null) return;
      const inherited = await scope.inherited();
      if (parts.guardrails !== undefined) await judgeItems(scope, inherited, parts.guardrails);
      if (scope.stop.isStopped || scope.yielding.aborted) return;
      const context = scope.context();
      const tools = toolsIn(connected, context);
      const newId = (kind: string) => scope.host.newId(kind);
      const ready = await prepareRequest({ ...parts, tools }, context, { inherited, newId });
      const prepared = { ...ready, inherited };
      broken = ready.broken;
      scope.host.reach?.('model.before');
      const call = (onChunk: () => void) =>
        callModel(scope, context, { ...prepared, exchanges, onChunk }, parts.textFilters);
      const turn = await watchCall(context, prepared, parts.watchers ?? [], call);
      scope.host.reach?.('model.after');
      const captured = exchanges && (await storeCapture(scope, exchanges));
      if (scope.stop.isStopped) return;
      const { toolInput } = parts.guardrails ?? {};
      const how = { startedAt, captured, rules: parts.rules ?? [], ...omitUndefined({ toolInput }) };
      const completed = await completeTurn(scope, turn, prepared, how);
      const fault = scope.faultIn?.(completed);
      // A turn that no journal can hold would be asked for, and paid for, again and again.
      if (fault !== undefined) throw invalidTurn(fault, prepared.adapter);
      if (!scope.stop.isStopped) scope.report(completed);
    } catch (error) {
      if (scope.stop.isStopped || isThrown(error, Stopped)) return;
      const notSetUp = isThrown(error, EngineError) ? error : setupError(error);
      if (notSetUp) throw notSetUp;
      const failure = describeFailure(error, scope.context(), parts, scope.host, startedAt);
      const captured = exchanges && (await storeCapture(scope, exchanges));
      scope.report({ ...failure, ...omitUndefined({ broken, captured }) });
    }
  };
}

function invalidTurn(fault: string, { provider, model }: PreparedTurn['adapter']): ProviderError {
  const message = `The adapter returned a turn that is not valid: ${fault}.`;
  return new ProviderError(message, { provider, model, code: 'malformed-stream', retryable: true });
}

/** `inherited`: the transcript of the runs that the run continues. */
type Inheriting = PreparedTurn & { inherited: readonly Item[] };

function watchCall(
  { runId, turn: { number: turn, model, attempt } }: Context,
  { adapter, request: { instructions } }: PreparedTurn,
  watchers: readonly DriveWatcher[],
  call: (onChunk: () => void) => Promise<ModelTurn>,
): Promise<ModelTurn> {
  const about = { runId, turn, model, attempt, instructions, adapter };
  return watchers.reduce(
    (work, watcher) => () => watcher.aroundModelCall?.(about, work) ?? work(),
    () => call(watchChunks(watchers, about)),
  )();
}

type Calling = Inheriting & { exchanges: CapturedExchange[] | undefined; onChunk(): void };

async function callModel(
  scope: ServiceScope,
  context: Context,
  { adapter, request, inherited, exchanges, onChunk }: Calling,
  filters: readonly (() => TextFilter)[],
): Promise<ModelTurn> {
  const display = new TurnDisplay(scope, context, filters, () => usedCallIds(scope, inherited));
  const options = { signal: scope.stop.signal, ...omitUndefined({ capture: exchanges }) };
  const { provider, model } = adapter;
  const failure = { provider, model, status: null, retryAfterMs: null, raw: null, retryable: true };
  // Planning turns of a `separate` answer are not shown, so they are not streamed.
  const streams = context.stream && (context.config.finalAnswer !== 'separate' || context.turn.final);
  const turn = streams ? await readStream() : await adapter.generate(request, options);
  if (turn.finishReason === 'error')
    throw new ProviderError(turn.text || 'The provider ended the turn with an error.', {
      ...failure,
      code: 'server',
    });
  if (!scope.stop.isStopped) display.finish(turn);
  return turn;

  async function readStream(): Promise<ModelTurn> {
    for await (const piece of piecesOf(adapter.stream(request, options)))
      for (const delta of batchIn(piece)) {
        if (delta.type === 'turn') return delta.turn;
        onChunk();
        if (!scope.stop.isStopped) display.take(delta);
      }
    throw new ProviderError('The stream ended without a turn.', { ...failure, code: 'malformed-stream' });
  }
}

/** Stores what was captured. Nothing depends on it: if that fails, the turn is reported without it. */
async function storeCapture(
  { blobs }: ServiceScope,
  exchanges: readonly CapturedExchange[],
): Promise<BlobReference | undefined> {
  if (blobs === null || exchanges.length === 0) return undefined;
  const copies = exchanges.map(({ path, request, status, reply }) => ({ path, request, status, reply }));
  return await blobs.capture(copies).catch(() => undefined);
}

async function completeTurn(
  scope: ServiceScope,
  turn: ModelTurn,
  { adapter, request, tools, transcript, isFullHistory, inherited, sent, appended, broken }: Inheriting,
  {
    startedAt,
    captured,
    rules,
    toolInput = [],
  }: {
    startedAt: number;
    captured: BlobReference | undefined;
    rules: readonly Rule[];
    toolInput?: readonly ToolInputGuardrail[];
  },
): Promise<Report> {
  const { host } = scope;
  const { runId, runContext } = scope.context();
  const { provider, model } = adapter;
  const { items, toolCalls, renamed } = nameCalls(turn, scope, inherited);
  const usage = new GuardrailUsage(scope.context().config);
  const judgeInput = toolInput.length === 0 ? undefined : judgeWith(toolInput, scope, inherited, usage);
  const qualifying = {
    runId,
    runContext,
    now: host.now(),
    tools,
    rules: { rules, context: recordItems(scope.context(), items), past: () => scope.past() },
    ...omitUndefined({ judge: judgeInput }),
  };
  const calls = toolCalls.length === 0 ? [] : await qualifyCalls(toolCalls, qualifying);
  const dropped = [...droppedItems(scope.context(), transcript, provider), ...(turn.dropped ?? [])];
  const canContinue = !renamed && isFullHistory && request.transcript.length > 0;
  const { continuation: token } = turn;
  const { instructions = '' } = request;
  const continuation = canContinue &&
    token !== undefined && { provider, model, instructions: digestOf(instructions), token };
  return {
    type: 'turn.completed',
    provider,
    model: turn.model,
    finishReason: turn.finishReason,
    text: turn.text,
    items: items.map(item => (item.id === undefined ? { ...item, id: host.newId('item') } : item)),
    calls,
    usage: countUsage(turn, request, scope.context().config),
    startedAt,
    sent,
    ...omitUndefined({
      appended: appended.length === 0 ? undefined : [...appended],
      dropped: dropped.length === 0 ? undefined : dropped,
      appliedEdits: turn.appliedEdits,
      broken,
      captured,
      continuation: continuation || undefined,
      estimatedTokens: estimateTurn(turn, request, scope.context()),
    }),
    ...usage.spent,
  };
}

/** The largest input that a guardrail may give, in bytes of its JSON. */
const LARGEST_INPUT_BYTES = 1_048_576;

function judgeWith(
  guardrails: readonly ToolInputGuardrail[],
  scope: ServiceScope,
  inherited: readonly Item[],
  { count: countUsage }: GuardrailUsage,
): JudgeInput {
  const { runId, runContext, transcript: own } = scope.context();
  const transcript = [...inherited, ...own];
  const about = { runId, runContext, transcript, signal: scope.stop.signal, countUsage };
  return ({ callId, name, input }) =>
    judge('The call', guardrails, input, { ...about, callId, name }, readInput, { mayAsk: true });
}

function readInput(given: unknown): JsonValue {
  const text = toBoundedText(given);
  if (fitsBytes(text, LARGEST_INPUT_BYTES)) return JSON.parse(text);
  throw new Error(`its guardrail replaced the input with more than ${LARGEST_INPUT_BYTES} bytes`);
}

/** The tokens of the conversation, for a run that is compacted and a provider that does not count. */
function estimateTurn(turn: ModelTurn, request: ModelRequest, context: Context): number | undefined {
  if (context.config.compaction === undefined || countUsage(turn, request, context.config) !== null)
    return undefined;
  const { inputTokens, outputTokens } = estimateUsage(request, turn);
  return inputTokens + outputTokens;
}

/** The ids of items with another provider's opaque data; reported once, by the provider's first turn after theirs. */
function droppedItems({ lastTurn }: Context, transcript: readonly Item[], provider: string): string[] {
  if (lastTurn?.provider === provider) return [];
  return transcript.flatMap(item =>
    'opaque' in item && item.opaque && ![provider, ENGINE].includes(item.opaque.provider) && item.id
      ? [item.id]
      : [],
  );
}

/** The ids of calls that a compaction replaced are known by their digests only. */
class UsedIds extends Set<string> {
  readonly #digests: ReadonlySet<string>;

  constructor({ compaction }: Context) {
    super();
    this.#digests = new Set(compaction.usedIds);
  }

  override has(callId: string): boolean {
    return super.has(callId) || (this.#digests.size > 0 && this.#digests.has(digestId(callId)));
  }
}

function usedCallIds(scope: ServiceScope, inherited: readonly Item[]): Set<string> {
  const used = new UsedIds(scope.context());
  for (const items of [inherited, scope.context().transcript])
    for (const item of items) if (item.type === 'tool_call') used.add(item.callId);
  return used;
}

function hasNewIds(calls: readonly ToolCall[], scope: ServiceScope, inherited: readonly Item[]): boolean {
  const ids = new Set<string>();
  for (const { callId } of calls) ids.add(callId);
  if (ids.size < calls.length) return false;
  const isUsed = (item: Item) => item.type === 'tool_call' && ids.has(item.callId);
  const { usedIds } = scope.context().compaction;
  if (usedIds.length > 0 && [...ids].some(callId => usedIds.includes(digestId(callId)))) return false;
  return !scope.context().transcript.some(isUsed) && !inherited.some(isUsed);
}

function nameCalls(turn: ModelTurn, scope: ServiceScope, inherited: readonly Item[]) {
  if (hasNewIds(turn.toolCalls, scope, inherited))
    return { items: turn.items, toolCalls: turn.toolCalls, renamed: false };
  const names = makeIdsUnique(turn.toolCalls, usedCallIds(scope, inherited));
  const toolCalls = turn.toolCalls.map(
    (call, index): ToolCall => ({ ...call, callId: names.get(index) ?? call.callId }),
  );
  let position = -1;
  const items = turn.items.map((item): Item => {
    if (item.type !== 'tool_call') return item;
    position += 1;
    return { ...item, callId: names.get(position) ?? item.callId };
  });
  return { items, toolCalls, renamed: true };
}

function describeFailure(
  error: unknown,
  context: Context,
  { retry, callerRetries }: Pick<ModelTurnParts, 'retry' | 'callerRetries'>,
  host: Host,
  startedAt: number,
): Report {
  if (!isThrown(error, ProviderError)) {
    const code = codeOf(error) ?? 'internal';
    return { type: 'turn.failed', error: { code, message: messageOf(error) }, retryable: false, startedAt };
  }
  const { code, message, status, provider, model, retryable, retryAfterMs } = error;
  const failed = {
    type: 'turn.failed',
    error: { code, message, provider, model, ...omitUndefined({ status: status ?? undefined }) },
    retryable,
    startedAt,
  } as const;
  if (!retryable) return failed;
  const waitMs = backOffMs(context.turn.attempt, retry, host.random());
  const retryAt = host.now() + Math.max(waitMs, retryAfterMs ?? 0);
  if (callerRetries?.(context) !== true) return { ...failed, retryAt };
  return { ...failed, retryable: false, retryAt, callerRetries: true };
}

/**
 * Streams a turn's text to readers and reports it to the chart.
 *
 * T1 `text.started` is reported at most once per turn, if and only if text is streamed.
 * T2 `calls.started` is reported at most once per turn, if and only if the turn has calls.
 * T3 Pieces of calls carry only ids that the calls keep in the journal.
 * T4 A generated turn leads to the same reports, in the same order, as the same turn streamed.
 */
class TurnDisplay {
  readonly #scope: ServiceScope;
  readonly #place: { turn: number; attempt: number };
  readonly #filter: TextFilter;
  /** Text is shown immediately; with `held`, after the turn proved to be the answer, or once the answer was checked. */
  readonly #visible: boolean;
  readonly #held: boolean;
  readonly #findUsed: () => Set<string>;
  #used: Set<string> | undefined;
  #textStarted = false;
  #callsStarted = false;
  #streamed = false;
  /** What the stream skipped before the text. */
  #skipped: Skipped = {};

  constructor(
    scope: ServiceScope,
    context: Context,
    filters: readonly (() => TextFilter)[],
    /** Returns the ids of the calls before this turn, as a new set. */
    findUsed: () => Set<string>,
  ) {
    this.#scope = scope;
    this.#place = { turn: context.turn.number, attempt: context.turn.attempt };
    this.#filter = chainFilters(filters);
    this.#findUsed = findUsed;
    const { finalAnswer, checksAnswer } = context.config;
    const isHeld = finalAnswer === 'held' && (checksAnswer || !context.turn.final);
    this.#visible = finalAnswer === 'live' || (context.turn.final && !isHeld);
    this.#held = isHeld && !checksAnswer;
  }

  take(delta: Exclude<TurnDelta, { type: 'turn' }>): void {
    switch (delta.type) {
      case 'text':
        if (delta.text === '') return;
        this.#streamed = true;
        this.#showText(delta.text, delta);
        return;
      case 'reasoning':
        if (this.#visible) this.#scope.publish({ ...delta, type: 'reasoning.delta', ...this.#place });
        return;
      case 'reasoning_ended':
        if (this.#visible) this.#scope.publish({ type: 'reasoning.ended', ...this.#place, item: delta.item });
        return;
      case 'call_started':
        this.#startCalls();
        this.#publishCall({ index: delta.index, name: delta.name, text: '', ...this.#freshId(delta.callId) });
        return;
      case 'call_arguments':
        if (delta.text !== '') this.#publishCall({ index: delta.index, text: delta.text });
        return;
    }
  }

  finish(turn: ModelTurn): void {
    let refusals = 0;
    for (const item of turn.items) {
      if (item.type === 'tool_call') this.#startCalls();
      if (!this.#streamed && item.type === 'message')
        this.#showText(textOf(item), refusals > 0 ? { refusals } : {});
      if (refusalOf(item) !== '') refusals += 1;
    }
    const hasCalls = turn.toolCalls.some(call => call.executedBy !== 'provider');
    if (hasCalls) this.#startCalls();
    if (this.#held && !hasCalls) this.#release(turn);
    if (this.#textStarted) this.#publishText(this.#filter.end());
  }

  #release({ text, items }: ModelTurn): void {
    if (text === '') return;
    for (const item of this.#streamed ? items : [])
      if (item.type === 'reasoning' && item.text !== '')
        this.#scope.publish({ type: 'reasoning.delta', ...this.#place, text: item.text });
    this.#startText();
    this.#publishText(this.#filter.push(text));
  }

  #showText(text: string, { refusals, sealed }: Skipped): void {
    if (!this.#visible || text === '') return;
    this.#skipped = omitUndefined({ refusals, sealed });
    this.#startText();
    this.#publishText(this.#filter.push(text));
  }

  #startText(): void {
    if (this.#textStarted) return;
    this.#textStarted = true;
    this.#scope.report({ type: 'text.started' });
  }

  #startCalls(): void {
    if (this.#callsStarted) return;
    this.#callsStarted = true;
    this.#scope.report({ type: 'calls.started' });
  }

  #publishCall(piece: { index: number; callId?: string; name?: string; text: string }): void {
    this.#scope.publish({ type: 'call.delta', ...this.#place, ...piece });
  }

  /** The id, unless the run has used it: such a call gets another id once the turn is complete. */
  #freshId(callId: string | undefined): { callId?: string } {
    this.#used ??= this.#findUsed();
    if (callId === undefined || this.#used.has(callId)) return {};
    this.#used.add(callId);
    return { callId };
  }

  #publishText(text: string): void {
    if (text !== '') this.#scope.publish({ type: 'text.delta', ...this.#place, text, ...this.#skipped });
  }
}
