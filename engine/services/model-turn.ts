import type { Context } from '../../machines/context.ts';
import type { CapturedExchange } from '../../protocol/adapter.ts';
import { backOffMs } from '../../protocol/back-off.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { codeOf, EngineError, isThrown, messageOf, ProviderError, setupError } from '../../protocol/error.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import type { BlobReference, Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { ModelTurn, ToolCall } from '../../protocol/turn.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import type { DriveWatcher } from '../events/watch-drive.ts';
import type { Host } from '../host/host.ts';
import type { Retry } from './definition.ts';
import { type PreparedTurn, prepareRequest, type TurnParts } from './prepare-request.ts';
import { makeIdsUnique, qualifyCalls } from './qualify-calls.ts';
import { type Report, type Service, type ServiceScope, Stopped } from './service.ts';
import { TurnDisplay } from './show-turn.ts';

type ModelTurnParts = Omit<TurnParts, 'tools'> & {
  connectTools(): Promise<TurnParts['tools']>;
  textFilters: readonly (() => TextFilter)[];
  retry: Retry;
  watchers?: readonly DriveWatcher[];
  capture?: 'requests';
};

/**
 * Returns the service that makes exactly one adapter call and reports `turn.completed` or `turn.failed`. If this
 * process is not set up for the call (a missing key, a tool server that does not start), it rejects with an
 * `EngineError` and the run stays unchanged.
 */
export function makeModelTurn(parts: ModelTurnParts): Service {
  return async scope => {
    const startedAt = scope.host.now();
    const exchanges: CapturedExchange[] | undefined = parts.capture && [];
    try {
      await scope.durable();
      if (scope.yielding.aborted) return;
      const context = scope.context();
      const tools = await parts.connectTools();
      const inherited = await scope.inherited();
      const prepared = { ...(await prepareRequest({ ...parts, tools }, context, inherited)), inherited };
      scope.host.reach?.('model.before');
      const call = () => callModel(scope, context, { ...prepared, exchanges }, parts.textFilters);
      const turn = await watchCall(context, prepared, parts.watchers ?? [], call);
      scope.host.reach?.('model.after');
      const captured = exchanges && (await storeCapture(scope, exchanges));
      if (!scope.stop.isStopped)
        scope.report(await completeTurn(scope, turn, prepared, { startedAt, captured }));
    } catch (error) {
      if (scope.stop.isStopped || isThrown(error, Stopped)) return;
      const notSetUp = isThrown(error, EngineError) ? error : setupError(error);
      if (notSetUp) throw notSetUp;
      const failure = describeFailure(error, scope.context(), parts.retry, scope.host, startedAt);
      const captured = exchanges && (await storeCapture(scope, exchanges));
      scope.report({ ...failure, ...omitUndefined({ captured }) });
    }
  };
}

/** `inherited`: the transcript of the runs that the run continues. */
type Inheriting = PreparedTurn & { inherited: readonly Item[] };

function watchCall(
  { runId, turn: { number: turn, model, attempt } }: Context,
  { request: { instructions } }: PreparedTurn,
  watchers: readonly DriveWatcher[],
  call: () => Promise<ModelTurn>,
): Promise<ModelTurn> {
  return watchers.reduce<() => Promise<ModelTurn>>(
    (work, watcher) => () =>
      watcher.aroundModelCall?.({ runId, turn, model, attempt, instructions }, work) ?? work(),
    call,
  )();
}

async function callModel(
  scope: ServiceScope,
  context: Context,
  { adapter, request, inherited, exchanges }: Inheriting & { exchanges: CapturedExchange[] | undefined },
  filters: readonly (() => TextFilter)[],
): Promise<ModelTurn> {
  const display = new TurnDisplay(scope, context, filters, () => usedCallIds(scope, inherited));
  const options = { signal: scope.stop.signal, ...omitUndefined({ capture: exchanges }) };
  const turn = streams(context) ? await readStream() : await adapter.generate(request, options);
  if (turn.finishReason === 'error') throw endedInError(turn, adapter);
  if (!scope.stop.isStopped) display.finish(turn);
  return turn;

  async function readStream(): Promise<ModelTurn> {
    for await (const delta of adapter.stream(request, options)) {
      if (delta.type === 'turn') return delta.turn;
      if (!scope.stop.isStopped) display.take(delta);
    }
    throw new ProviderError('The stream ended without a turn.', {
      ...origin(adapter),
      code: 'malformed-stream',
      retryable: true,
    });
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

/** Planning turns of a `separate` answer are not shown, so they are not streamed. */
function streams({ stream, config, turn }: Context): boolean {
  return stream && (config.finalAnswer !== 'separate' || turn.final);
}

function endedInError(turn: ModelTurn, adapter: PreparedTurn['adapter']): ProviderError {
  const message = turn.text === '' ? 'The provider ended the turn with an error.' : turn.text;
  return new ProviderError(message, { ...origin(adapter), code: 'server', retryable: true });
}

function origin({ provider, model }: PreparedTurn['adapter']) {
  return { provider, model, status: null, retryAfterMs: null, raw: null };
}

async function completeTurn(
  scope: ServiceScope,
  turn: ModelTurn,
  { adapter, request, tools, isFullHistory, inherited }: Inheriting,
  { startedAt, captured }: { startedAt: number; captured: BlobReference | undefined },
): Promise<Report> {
  const { host } = scope;
  const { runId, runContext } = scope.context();
  const { items, toolCalls, renamed } = nameCalls(turn, scope, inherited);
  const calls: QualifiedCall[] =
    toolCalls.length === 0
      ? []
      : await qualifyCalls(toolCalls, { runId, runContext, now: host.now(), tools });
  const dropped = droppedItems(scope.context(), request.transcript, adapter.provider);
  const canContinue = !renamed && isFullHistory && request.transcript.length > 0;
  return {
    type: 'turn.completed',
    provider: adapter.provider,
    model: turn.model,
    finishReason: turn.finishReason,
    text: turn.text,
    items: items.map(item => (item.id === undefined ? { ...item, id: host.newId('item') } : item)),
    calls,
    usage: turn.usage,
    startedAt,
    ...omitUndefined({
      dropped: dropped.length === 0 ? undefined : dropped,
      captured,
      continuation: canContinue ? continuationOf(turn, adapter, request) : undefined,
    }),
  };
}

function continuationOf(
  { continuation: token }: ModelTurn,
  { provider, model }: PreparedTurn['adapter'],
  { instructions = '' }: PreparedTurn['request'],
) {
  return token === undefined ? undefined : { provider, model, instructions: digestOf(instructions), token };
}

/** The ids of items with another provider's opaque data; reported once, by the provider's first turn after theirs. */
function droppedItems({ lastTurn }: Context, transcript: readonly Item[], provider: string): string[] {
  if (lastTurn?.provider === provider) return [];
  return transcript.flatMap(item =>
    'opaque' in item && item.opaque && item.opaque.provider !== provider && item.id ? [item.id] : [],
  );
}

function usedCallIds(scope: ServiceScope, inherited: readonly Item[]): Set<string> {
  const used = new Set<string>();
  for (const items of [inherited, scope.context().transcript])
    for (const item of items) if (item.type === 'tool_call') used.add(item.callId);
  return used;
}

function hasNewIds(calls: readonly ToolCall[], scope: ServiceScope, inherited: readonly Item[]): boolean {
  const ids = new Set<string>();
  for (const { callId } of calls) ids.add(callId);
  if (ids.size < calls.length) return false;
  const isUsed = (item: Item) => item.type === 'tool_call' && ids.has(item.callId);
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
  retry: Retry,
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
  return { ...failed, retryAt: host.now() + waitBefore(context.turn.attempt, retryAfterMs, retry, host) };
}

/** At least the wait that the provider asked for. */
function waitBefore(attempt: number, retryAfterMs: number | null, retry: Retry, host: Host): number {
  return Math.max(backOffMs(attempt, retry, host.random()), retryAfterMs ?? 0);
}
