import { isOfChart } from '../../../machines/fold.ts';
import { hasEnded } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Prices } from '../../../protocol/config.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { countRedactions } from '../../../protocol/redaction.ts';
import { beginFold, foldEntry } from '../../journal/load-run.ts';
import type { WholeJournal } from '../../journal/read-journal.ts';
import type { RequestRecord } from '../../log/request-ids.ts';
import { applyEvent, beginDoubting, playOwn } from './doubt-calls.ts';

/**
 * The model of a fork, the only one that drives it. `launch`: the model string that a later command creates its agent
 * with. `prices`: those of its agent, which may price models that the original's do not.
 */
export type ForkModel = {
  launch?: string | undefined;
  provider: string;
  model: string;
  prices?: Prices | undefined;
};

/** What a copy of a journal does differently. `isHeld`: it rests after its last entry, before anything follows from it. */
type CopyOptions = {
  forkId: string;
  at: number;
  isHeld: boolean;
  replayTools: boolean;
  model: ForkModel | undefined;
  request: RequestRecord | undefined;
  /** Calls that do not take their results from the original. */
  decided: readonly string[];
};

/** A fork that no store has yet: its first event, the events after it, and the state after them. */
export type Copy = {
  started: RunStarted;
  events: readonly ChartEvent[];
  state: ChartState;
  /** What lets a held copy continue like the original did; `undefined` if the original rested there too. */
  release: Release | undefined;
};

/** `isOwn`: the copy is held by a pause that the original did not have. */
type Release = { isOwn: boolean; type: 'run.unpaused' | 'step.requested' };

/** A fork's beginning: the journal up to entry `at`, without claims and late outcomes. Throws as `forkRun` does. */
export function copyJournal(entries: WholeJournal, options: CopyOptions): Copy {
  const { forkId, at, isHeld, replayTools, model, request, decided } = options;
  const { parent: _, requestId: __, asked: ___, ...original } = entries[0].event;
  const { runId } = original;
  assertEntry(at, entries.length, runId);
  const { playsResultsOf: ____, ...config } = original.config;
  const same = withModel(
    {
      ...original,
      ...request,
      runId: forkId,
      forkOf: { runId, at },
      config: { ...config, ...(replayTools && { playsResultsOf: runId }) },
    },
    model,
  );
  const folded = entries
    .slice(1, at)
    .reduce((state, entry) => foldEntry(state, entry, runId), beginFold(same));
  assertRunnable(folded, runId);
  const all = entries.slice(1, at).flatMap(({ event }) => (isOfChart(event) ? [event] : []));
  const { started, copied } = isHeld ? holdLast(same, all) : { started: same, copied: all };
  const end = isHeld ? copied.reduce(applyEvent, beginFold(started)) : folded;
  const { state, events } = beginDoubting(
    { begun: beginFold(started), copied, end },
    `run ${runId}, forked here at entry ${at}, had started it and recorded no outcome`,
    replayTools ? playOwn(runId, entries, decided) : undefined,
  );
  return { started, events, state, release: isHeld ? releaseOf(all.at(-1), folded) : undefined };
}

/** The fork continues with another model: in every place of the list, since the copied entries may name any. */
function withModel(started: RunStarted, named: ForkModel | undefined): RunStarted {
  if (named === undefined) return started;
  const { launch: text, provider, model } = named;
  const { model: _, ...launch } = started.launch ?? {};
  const models = started.config.models.map(() => ({ provider, model }));
  const prices = named.prices && { prices: { ...started.config.prices, ...named.prices } };
  return {
    ...started,
    ...((started.launch !== undefined || text !== undefined) && {
      launch: { ...launch, ...omitUndefined({ model: text }) },
    }),
    config: { ...started.config, models, forkModel: { provider, model }, ...prices },
  };
}

/** The same events with a pause before the last one, so that the run rests where that one leads. */
function holdLast(started: RunStarted, events: readonly ChartEvent[]) {
  const last = events.at(-1);
  const held = { ...started, config: { ...started.config, holdsAtEnd: true } };
  if (last === undefined) return { started: { ...held, paused: true }, copied: [] };
  const earlier = events.slice(0, -1);
  const before = earlier.reduce(applyEvent, beginFold(held));
  if (last.type === 'run.unpaused' || last.type === 'step.requested')
    return { started: held, copied: earlier };
  if (before.context.paused || last.type === 'pause.requested') return { started: held, copied: events };
  const pause = { type: 'pause.requested', at: last.at } as const;
  const { generation } = applyEvent(before, pause).context;
  const again = 'generation' in last ? { ...last, generation } : last;
  return { started: held, copied: [...earlier, pause, again] };
}

function releaseOf(last: ChartEvent | undefined, { context }: ChartState): Release | undefined {
  if (last?.type === 'run.unpaused' || last?.type === 'step.requested')
    return { isOwn: false, type: last.type };
  return context.paused ? undefined : { isOwn: true, type: 'run.unpaused' };
}

function assertEntry(at: number, last: number, runId: string): void {
  if (Number.isInteger(at) && at >= 1 && at <= last) return;
  throw new EngineError(
    'input-invalid',
    `Expected the seq of an entry of run ${runId} to fork at, an integer from 1 to ${last}; got ${at}.`,
    { runId, first: 1, last },
  );
}

function assertRunnable(state: ChartState, runId: string): void {
  if (!hasEnded(state) && countRedactions(state.context.runContext ?? null) > 0) {
    throw new EngineError(
      'refused',
      `The run context of run ${runId} was redacted, and the fork's tools would need it. Fork at the entry that ends the run, or start a run that continues it.`,
      { runId },
    );
  }
  const open = hasEnded(state) ? [] : state.context.calls.filter(({ status }) => status !== 'settled');
  const call = open.find(({ input }) => countRedactions(input) > 0);
  if (call === undefined) return;
  throw new EngineError(
    'refused',
    `Call ${call.callId} of run ${runId} still has to run at that entry, but its input was redacted. Fork after the entry of its result.`,
    { runId, callId: call.callId },
  );
}
