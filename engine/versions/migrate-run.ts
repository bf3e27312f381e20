import type { ChartState } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry, RunEvent, RunStarted } from '../../protocol/event.ts';
import { isJsonObject, type JsonObject, toJson } from '../../protocol/json.ts';
import { isDriven, type Owner, type Store } from '../../protocol/store.ts';
import type { Host } from '../driver/host.ts';
import { beginFold, foldEntry, statusOf } from '../journal/load-run.ts';
import { describeRestored, readStart } from '../journal/read-journal.ts';
import { beginDoubting, isOfChart } from '../run/fork-run.ts';
import { suspendedCalls } from '../sub-agents/child-runs.ts';
import { checkRun, successorOf } from './check-run.ts';
import { findSteps, type JournalMigration, migrateJournal, versionsOf } from './migrate-journal.ts';
import { versionMismatch } from './version-mismatch.ts';

/**
 * Migrating: a run that goes on where an old one stands, in words this program reads.
 *
 * G1 The whole journal is migrated and folded before anything is written; then the new run is one commit.
 *    Runs that it continues or waits for come before it: should it not follow, they are found next time.
 * G2 The old journal is not touched, and this program never drives it.
 * G3 A run is migrated once: its successor's id follows from its own.
 * G4 What the old run had started and not settled is in doubt in the new one, with its key: whoever still
 *    has the old program may have done it, or may yet.
 */

export type MigrateParts = {
  store: Store;
  host: Host;
  isDead(owner: Owner): boolean;
  migrations: readonly JournalMigration[];
  /** Throws when the migrated run would be another agent's than the one that goes on with it. */
  assertOwn?(agent: string): void;
};

export type MigrateOptions = {
  /** The id of the new run, to migrate a run a second time on purpose. */
  as?: string;
};

/**
 * Begins the successor of a run, and gives its id. Nobody drives it. The runs it continues are migrated
 * before it where they need it, and the runs of sub-agents that it waits for with it.
 *
 * Throws `chart-mismatch` with the report when no steps lead here or the result does not fit this chart,
 * `input-invalid` for a step that gives what is no event, `refused` when there is nothing to migrate,
 * `run-exists` when it was migrated, what `assertOwn` throws, `lease-held` while another process drives it.
 */
export async function migrateRun(
  parts: MigrateParts,
  runId: string,
  { as = successorOf(runId) }: MigrateOptions = {},
): Promise<string> {
  const { store, migrations } = parts;
  const report = await checkRun(store, runId, undefined, migrations);
  if (report.verdict === 'refused') throw versionMismatch(report);
  if ((await store.get(as)) !== undefined) throw describeExisting(runId, as);
  const start = await readStart(store, runId);
  if (start === undefined) throw describeRestored(runId, 'Migrate', undefined);
  const steps = findSteps(versionsOf(start), migrations);
  if (steps === null) throw report.opens ? describeNothing(runId) : versionMismatch(report);
  await beginSuccessor(parts, { runId, as, steps });
  return as;
}

type Succession = {
  runId: string;
  as: string;
  steps: readonly JournalMigration[];
  parent?: RunStarted['parent'];
};

async function beginSuccessor(parts: MigrateParts, { runId, as, steps, parent }: Succession): Promise<void> {
  await assertUndriven(parts, runId);
  const entries = (await parts.store.readJson?.(runId)) ?? (await parts.store.read(runId));
  const migrated = migrateJournal(
    entries.map(({ event }) => toJson(event)),
    steps,
  );
  parts.assertOwn?.(migrated.started.agent.name);
  const started: RunStarted = { ...migrated.started, runId: as, forkOf: { runId, at: entries.length } };
  if (parent !== undefined) started.parent = parent;
  if (started.continues !== undefined) started.continues = await succeed(parts, started.continues);
  const stood = foldMigrated(runId, started, migrated.events);
  const children = await succeedChildren(parts, stood, runId);
  const events = migrated.events.map(event => nameChild(event, children));
  const reason = `run ${runId}, from which this one was migrated, had started it and recorded no outcome`;
  const copied = events.filter(isOfChart);
  const stands = { begun: beginFold(started), copied, end: foldMigrated(runId, started, events) };
  const { state, events: begun } = beginDoubting(stands, reason);
  const evidence = events.filter(({ type }) => type === 'tool.late');
  await parts.store.create(started, undefined, { events: [...begun, ...evidence], status: statusOf(state) });
}

/** The run to continue instead: itself if it can be read, else its successor, which is made if there is none. */
async function succeed(parts: MigrateParts, runId: string): Promise<string> {
  const report = await checkRun(parts.store, runId, undefined, parts.migrations);
  if (report.opens) return runId;
  return report.migratedTo ?? (await migrateRun(anyAgents(parts), runId));
}

/** What a run continues, or waits for, may be another agent's. */
function anyAgents({ assertOwn: _, ...parts }: MigrateParts): MigrateParts {
  return parts;
}

/** The sub-agents' runs that the run's calls wait for get successors too, which are its own; by their old ids. */
async function succeedChildren(
  parts: MigrateParts,
  { context }: ChartState,
  old: string,
): Promise<ReadonlyMap<string, string>> {
  const successors = new Map<string, string>();
  for (const { callId, childRunId } of suspendedCalls(context)) {
    const isHere = (await parts.store.get(childRunId)) !== undefined;
    const start = isHere ? await readStart(parts.store, childRunId) : undefined;
    if (start === undefined || !isJsonObject(start.parent) || start.parent.runId !== old) continue;
    const isFirst = context.runId === successorOf(old);
    const as = isFirst ? successorOf(childRunId) : `${context.runId}_${callId}`;
    const parent = { runId: context.runId, callId };
    if ((await parts.store.get(as)) === undefined) {
      const steps = await stepsOfChild(parts, childRunId, start);
      await beginSuccessor(anyAgents(parts), { runId: childRunId, as, steps, parent });
    }
    successors.set(childRunId, as);
  }
  return successors;
}

/** Steps between agent versions are the parent's alone. A child of this version is only given its new parent. */
async function stepsOfChild({ store, migrations }: MigrateParts, runId: string, start: JsonObject) {
  const report = await checkRun(store, runId);
  if (report.opens) return [];
  const general = migrations.filter(({ from }) => from.agent === undefined);
  const steps = report.verdict === 'refused' ? null : findSteps(versionsOf(start), general);
  if (steps === null) throw versionMismatch(report);
  return steps;
}

function nameChild(event: RunEvent, successors: ReadonlyMap<string, string>): RunEvent {
  if (event.type !== 'tool.suspended') return event;
  return { ...event, childRunId: successors.get(event.childRunId) ?? event.childRunId };
}

async function assertUndriven({ store, host, isDead }: MigrateParts, runId: string): Promise<void> {
  const record = await store.get(runId);
  if (record === undefined || !isDriven(record, host.now(), isDead)) return;
  throw new EngineError(
    'lease-held',
    `Run ${runId} is driven by process ${record.owner.pid}: end that, or wait until the run rests, then migrate it.`,
    { runId, pid: record.owner.pid, until: record.leaseUntil },
  );
}

/** Throws for the first entry that does not fit: there is no half of a run. */
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

function describeExisting(runId: string, as: string): EngineError {
  return new EngineError(
    'run-exists',
    `Run ${runId} was migrated already: go on with run ${as}. To migrate it once more, name another id for the new run.`,
    { runId, migratedTo: as },
  );
}

function describeNothing(runId: string): EngineError {
  return new EngineError(
    'refused',
    `Run ${runId} can be opened as it is, and no migration of the agent takes its version.`,
    { runId },
  );
}
