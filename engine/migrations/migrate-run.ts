import { isOfChart } from '../../machines/fold.ts';
import { hasEnded } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import type { ChartEvent, JournalEntry, RunEvent, RunStarted } from '../../protocol/event.ts';
import { isJsonObject, type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { isDriven, type Owner, type StandingChange, type Store } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import {
  beginFold,
  foldEntry,
  loadRun,
  readImage,
  standingOf,
  wordsFor,
  writerOf,
} from '../journal/load-run.ts';
import { describeRestored, readPage, readStart, writerOfStart } from '../journal/read-journal.ts';
import { beginDoubting } from '../run/forks/copy-journal.ts';
import { toolsIn } from '../sub-agents/hand-back.ts';
import { suspendedCalls } from '../sub-agents/sub-agent-runs.ts';
import {
  compareAgents,
  compareJournal,
  type PresentAgent,
  type VersionReport,
  type WrittenBy,
} from '../versions/compare-versions.ts';
import { findSteps, type JournalMigration, migrateJournal, versionsOf } from '../versions/migrate-journal.ts';
import { adviseOn, versionMismatch } from '../versions/version-mismatch.ts';

/**
 * Migration: creates a new run, the successor, that continues an old run in the current format.
 *
 * G1 The full journal is migrated and folded before anything is written; the successor is created in one commit. Runs
 *    that it continues or waits for are created first; after a failure, the next migration finds and reuses them.
 * G2 The entries of the old journal are not changed, and this program never drives the old run.
 * G3 A run is migrated once: the successor's id is derived from its id.
 * G4 A migration that ends the old runs does so in the commit that creates the successor. Until then the successors of
 *    child runs have the status `cancelled`, and a later migration replaces them.
 * G5 The successor of a run of a thread takes its place there, in the same commit.
 * G6 Calls that the old run started and did not settle are in doubt in the successor, with their keys: a process with
 *    the old program may have completed them, or still may.
 */

type MigrateParts = {
  store: Store;
  host: Host;
  isDead(owner: Owner): boolean;
  migrations: readonly JournalMigration[];
  /** Throws if the migrated run belongs to another agent than the one that continues it. */
  assertOwn?(agent: string): void;
  /** What is to change in the commit that creates the successor. Without it, the old runs are not changed. */
  beside?: readonly StandingChange[];
};

export type MigrateOptions = {
  /** The id of the new run; needed to migrate a run a second time. */
  as?: string;
};

const NAMES: NamesOf<MigrateOptions> = { as: true };

/**
 * Creates the successor of a run and returns its id. The successor is not driven yet. The runs that it continues are
 * migrated first, if necessary, and the child runs that it waits for too.
 *
 * Throws `chart-mismatch` with the report if no steps lead to this version or the result does not fit this chart,
 * `input-invalid` if a step returns an invalid event, `refused` if there is nothing to migrate, `run-exists` if the run
 * was already migrated, the errors of `assertOwn`, and `lease-held` while another process drives the run. It creates
 * nothing and throws an error of `isChangedRun` if a run was redacted meanwhile or, with `beside`, one of those runs has
 * changed.
 */
export async function migrateRun(
  parts: MigrateParts,
  runId: string,
  options: MigrateOptions = {},
): Promise<string> {
  refuseUnknownOptions('agent.migrate', options, NAMES, 'input-invalid');
  const { as = successorOf(runId) } = options;
  const { store, migrations } = parts;
  const report = await checkRun(store, runId, undefined, migrations);
  if (report.verdict === 'refused') throw versionMismatch(report);
  if ((await store.get(as)) !== undefined)
    throw new EngineError(
      'run-exists',
      `Run ${runId} was already migrated: use run ${as}. To migrate it again, give another id for the new run.`,
      { runId, migratedTo: as },
    );
  const start = await readStart(store, runId);
  if (start === undefined) throw describeRestored(runId, 'Migrate', undefined);
  const steps = findSteps(versionsOf(start), migrations);
  if (steps === null && report.opens)
    throw new EngineError(
      'refused',
      `Run ${runId} can be opened as it is, and no migration of the agent matches its version.`,
      { runId },
    );
  if (steps === null) throw versionMismatch(report);
  await beginSuccessor(parts, { runId, as, steps, beside: [...(parts.beside ?? [])] });
  return as;
}

type Succession = {
  runId: string;
  as: string;
  steps: readonly JournalMigration[];
  parent?: RunStarted['parent'];
  beside: StandingChange[];
};

async function beginSuccessor(parts: MigrateParts, succession: Succession): Promise<void> {
  const { runId, as, steps, parent, beside } = succession;
  const redactions = await assertUndriven(parts, runId);
  const { length, ...migrated } = await readMigrated(parts.store, runId, steps);
  parts.assertOwn?.(migrated.started.agent.name);
  const started: RunStarted = { ...migrated.started, runId: as, forkOf: { runId, at: length } };
  if (parent !== undefined) started.parent = parent;
  if (started.continues !== undefined) started.continues = await succeed(parts, started.continues);
  const oldEnd = foldMigrated(runId, started, migrated.events);
  const children = await succeedChildren(parts, oldEnd, succession);
  const events = migrated.events.map(event => {
    const child = event.type === 'tool.suspended' ? children.get(event.childRunId) : undefined;
    return child === undefined ? event : { ...event, childRunId: child };
  });
  const { state, events: chartEvents } = doubtMigrated(runId, started, events);
  const evidence = events.filter(({ type }) => type === 'tool.late');
  const { progress, ...standing } = standingOf(state);
  const rest = {
    events: [...chartEvents, ...evidence],
    progress,
    ...wordsFor([started, ...chartEvents], progress),
  };
  const isHeldBack = parent !== undefined && parts.beside !== undefined && !hasEnded(state);
  parts.host.reach?.('create.before');
  const { seq } = await parts.store.create(started, undefined, {
    ...rest,
    ...(isHeldBack ? { status: 'cancelled' } : standing),
    ...(parent === undefined && { beside }),
    ...(started.thread !== undefined && { place: { of: runId } }),
    source: { runId, redactions },
  });
  parts.host.reach?.('create.after');
  if (isHeldBack) beside.push({ runId: as, after: seq, epoch: 0, ...standing });
}

/** The journal of a run after these steps, and how many entries it had before. */
async function readMigrated(store: Store, runId: string, steps: readonly JournalMigration[]) {
  const entries = (await store.readJson?.(runId)) ?? (await store.read(runId));
  const journal = entries.map(({ event }) => toJson(event));
  return { ...migrateJournal(journal, steps), length: entries.length };
}

/** The migrated run, with its unsettled calls in doubt: see G5. */
function doubtMigrated(runId: string, started: RunStarted, events: readonly RunEvent[]) {
  const reason = `run ${runId}, from which this one was migrated, had started it and recorded no outcome`;
  const copied = events.filter(isOfChart);
  return beginDoubting(
    { begun: beginFold(started), copied, end: foldMigrated(runId, started, events) },
    reason,
  );
}

/** The start and the events with which the successor of a run would begin. Writes nothing. Throws like `migrateRun`. */
export async function previewMigration(
  { store, migrations }: Pick<MigrateParts, 'store' | 'migrations'>,
  runId: string,
): Promise<{ started: RunStarted; past: ChartEvent[] }> {
  const start = await readStart(store, runId);
  if (start === undefined) throw describeRestored(runId, 'Migrate', undefined);
  const steps = findSteps(versionsOf(start), migrations);
  if (steps === null) throw versionMismatch(await checkRun(store, runId, undefined, migrations));
  const { started, events } = await readMigrated(store, runId, steps);
  return { started, past: doubtMigrated(runId, started, events).events };
}

/** Returns the run to continue: itself if it can be read, otherwise its successor, which is created if missing. */
async function succeed(parts: MigrateParts, runId: string): Promise<string> {
  const report = await checkRun(parts.store, runId, undefined, parts.migrations);
  if (report.opens) return runId;
  const { beside: _, ...others } = anyAgents(parts);
  return report.migratedTo ?? (await migrateRun(others, runId));
}

/** The runs that a run continues or waits for may belong to other agents. */
function anyAgents({ assertOwn: _, ...parts }: MigrateParts): MigrateParts {
  return parts;
}

async function succeedChildren(
  parts: MigrateParts,
  { context }: ChartState,
  { runId: old, beside }: Succession,
): Promise<ReadonlyMap<string, string>> {
  const successors = new Map<string, string>();
  for (const { callId, childRunId } of suspendedCalls(context)) {
    const isHere = (await parts.store.get(childRunId)) !== undefined;
    const start = isHere ? await readStart(parts.store, childRunId) : undefined;
    if (start === undefined || !isJsonObject(start.parent) || start.parent.runId !== old) continue;
    const isFirst = context.runId === successorOf(old);
    const as = isFirst ? successorOf(childRunId) : `${context.runId}_${callId}`;
    const parent = { runId: context.runId, callId };
    if (!(await isThere(parts, as))) {
      const steps = await stepsOfChild(parts, childRunId, start);
      await beginSuccessor(anyAgents(parts), { runId: childRunId, as, steps, parent, beside });
    }
    successors.set(childRunId, as);
  }
  return successors;
}

/** Whether there is a successor of a child run to continue with. One that has never been driven is created again: see G4. */
async function isThere({ store, host, isDead, beside }: MigrateParts, runId: string): Promise<boolean> {
  const found = await store.get(runId);
  if (found === undefined || found.epoch > 0 || beside === undefined) return found !== undefined;
  await store.delete(runId, { now: host.now(), isDead });
  return false;
}

/**
 * Steps between agent versions apply only to the parent, and to runs of one call, which are of its agent. A child of the
 * current version only gets its new parent.
 */
async function stepsOfChild({ store, migrations }: MigrateParts, runId: string, start: JsonObject) {
  const report = await checkRun(store, runId);
  const isOwn = start.onlyCall !== undefined;
  const general = migrations.filter(({ from }) => isOwn || from.agent === undefined);
  const steps = report.verdict === 'refused' ? null : findSteps(versionsOf(start), general);
  if (report.opens) return isOwn ? (steps ?? []) : [];
  if (steps === null) throw versionMismatch(report);
  return steps;
}

/** Throws `lease-held` while a process drives the run. Returns how often the run was redacted. */
async function assertUndriven({ store, host, isDead }: MigrateParts, runId: string): Promise<number> {
  const record = await store.get(runId);
  if (record === undefined || !isDriven(record, host.now(), isDead)) return record?.redactions ?? 0;
  throw new EngineError(
    'lease-held',
    `Run ${runId} is driven by process ${record.owner.pid}. End that process or wait until the run rests, then migrate it.`,
    { runId, pid: record.owner.pid, until: record.leaseUntil },
  );
}

function foldMigrated(runId: string, started: RunStarted, events: readonly RunEvent[]): ChartState {
  let state = beginFold(started);
  for (const [index, event] of events.entries()) {
    const entry: JournalEntry = { seq: index + 2, event };
    try {
      state = foldEntry(state, entry, started.runId);
    } catch (cause) {
      const message =
        `Run ${runId} was not migrated: entry ${entry.seq} of the migrated journal (${event.type}) does not fit ` +
        `the state ${JSON.stringify(state.value)}. Correct the migration; nothing was written.`;
      throw new EngineError('chart-mismatch', message, { runId, seq: entry.seq }, { cause });
    }
  }
  return state;
}

/** Whether a stored run fits this program and `present`. Throws `run-unknown`, `journal-damaged`. */
export async function checkRun(
  store: Store,
  runId: string,
  present?: PresentAgent,
  migrations: readonly JournalMigration[] = [],
): Promise<VersionReport> {
  const start = await readStart(store, runId);
  const written = start === undefined ? await readWriter(store, runId) : writerOfStart(start);
  const journalReport = compareJournal(runId, written);
  const report =
    journalReport.opens && present !== undefined ? await compareWith(store, runId, present) : journalReport;
  const successor = successorOf(runId);
  const isMigrated = (await store.get(successor)) !== undefined;
  const full = { ...report, ...(isMigrated && { migratedTo: successor }) };
  const from = versionsOf(start ?? (toJson(written) as JsonObject));
  return { ...full, ...omitUndefined({ advice: adviseOn(full, from, migrations) }) };
}

/** Returns the id of the run's successor. It depends only on the run's id, so that no run is migrated twice. */
export function successorOf(runId: string): string {
  const [, base = runId, count = '1'] = /^(.*)_m(\d+)$/.exec(runId) ?? [];
  return `${base}_m${Number(count) + 1}`;
}

async function readWriter(store: Store, runId: string): Promise<WrittenBy> {
  const snapshot = await store.loadSnapshot(runId);
  if (snapshot !== undefined) return writerOf(readImage(snapshot.state, runId));
  throw new EngineError('journal-damaged', `The journal of run ${runId} is empty.`, { runId, seq: 1 });
}

async function compareWith(store: Store, runId: string, present: PresentAgent): Promise<VersionReport> {
  const { state } = await loadRun(store, runId);
  const { agent, config, calls } = state.context;
  const openCalls = hasEnded(state) ? [] : calls.filter(({ status }) => status !== 'settled');
  const [first] = await readPage(store, runId, 0, { entries: 1 });
  const tools = first?.event.type === 'run.started' ? first.event.tools : undefined;
  const recorded = { agent, models: config.models, openCalls, ...omitUndefined({ tools }) };
  // A fork on another model uses that one, whatever the agent's own models are.
  const { models } = config.forkModel === undefined ? present : config;
  const own = toolsIn(present.tools, state.context);
  return await compareAgents(runId, recorded, { ...present, models, tools: own });
}
