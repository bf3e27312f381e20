import { isOwnerDead } from '../../../engine/driver/owner.ts';
import { readStart, writerOfStart } from '../../../engine/journal/read-journal.ts';
import { successorOf } from '../../../engine/versions/check-run.ts';
import { compareJournal, type VersionReport } from '../../../engine/versions/compare-versions.ts';
import { findSteps, type JournalMigration, type Versions } from '../../../engine/versions/migrate-journal.ts';
import { canMigrate } from '../../../engine/versions/plan-migration.ts';
import { adviseOn } from '../../../engine/versions/version-mismatch.ts';
import { messageOf } from '../../../protocol/error.ts';
import { JOURNAL_FORMAT } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { isDriven, type RunRecord, type Store, type WorkRequest } from '../../../protocol/store.ts';
import { MIGRATE_AFTER_MS } from '../../../server/runs/migrate-orphans.ts';

/** What a deploy may need to know about a run that has not ended. */
export type Finding = {
  /** `migrates`: the workers of the deploy migrate the run once no process drives its version. */
  type: 'stranded' | 'migrates' | 'in-doubt' | 'dead-owner' | 'damaged';
  runId: string;
  reason: string;
  advice: string;
};

/** The agents of the deploy; `work` is missing if they are unknown. */
export type Deployed = {
  work?: WorkRequest['agents'];
  /** The migrations of the agent with this name; `undefined` if the deploy does not have it. */
  migrationsOf(name: string): readonly JournalMigration[] | undefined;
};

/** Returns what is to report about a run. Reads its first entry only if its record has no chart. */
export async function findProblem(
  store: Store,
  record: RunRecord,
  deployed: Deployed,
  now: number,
): Promise<Finding[]> {
  const stranded = await findStranded(store, record, deployed).catch(
    (error): Finding => ({
      type: 'damaged',
      runId: record.runId,
      reason: messageOf(error),
      advice: 'Restore the store from a backup, or delete the run.',
    }),
  );
  return [stranded, findDoubt(record), findDeadOwner(record, now)].filter(finding => finding !== undefined);
}

async function findStranded(
  store: Store,
  record: RunRecord,
  deployed: Deployed,
): Promise<Finding | undefined> {
  const { runId, agent, agentVersion } = record;
  const written = await findVersions(store, record);
  if (written === undefined) return undefined;
  const report = compareJournal(runId, written);
  const versions = {
    format: written.format,
    chart: written.chart.version,
    ...omitUndefined({ agent: agentVersion }),
  };
  const reason = report.opens ? explainAgent(record, deployed) : report.reason;
  if (reason === undefined || (await store.get(successorOf(runId))) !== undefined) return undefined;
  const migrations = deployed.migrationsOf(agent) ?? [];
  const advice = report.opens
    ? adviseOnAgent(record, deployed, versions)
    : adviseOnChart(report, versions, migrations);
  if (!isMigrated(record, deployed)) return { type: 'stranded', runId, reason, advice };
  const seconds = MIGRATE_AFTER_MS / 1_000;
  const later = `Workers of the deploy migrate it once no process of its version takes it for ${seconds} seconds.`;
  return { type: 'migrates', runId, reason, advice: `${later} ${advice}` };
}

/** Whether workers of the deploy migrate the run by themselves. */
function isMigrated(record: RunRecord, { work, migrationsOf }: Deployed): boolean {
  const migrations = migrationsOf(record.agent);
  if (work === undefined || migrations === undefined) return false;
  const versions = work.find(({ name }) => name === record.agent)?.versions;
  return canMigrate(record, { migrations, ...omitUndefined({ versions }) });
}

/** The versions in the record, else those in the journal; `undefined` for a run that was adopted without them. */
async function findVersions(store: Store, { runId, chart }: RunRecord) {
  if (chart !== undefined) return { format: JOURNAL_FORMAT, chart };
  const start = await readStart(store, runId);
  return start && writerOfStart(start);
}

/** Why no agent of the deploy drives the run. */
function explainAgent({ agent, agentVersion }: RunRecord, { work }: Deployed): string | undefined {
  const found = work?.filter(({ name }) => name === agent);
  if (found === undefined || agentVersion === undefined) {
    return found?.length === 0 ? `no given module has an agent "${agent}"` : undefined;
  }
  if (found.length === 0) return `no given module has an agent "${agent}"`;
  const versions = found.flatMap(({ versions }) => versions ?? [agentVersion]);
  if (versions.includes(agentVersion)) return undefined;
  return `version ${agentVersion} of agent "${agent}" began it, and the deploy has version ${versions.join(', ')}`;
}

function adviseOnAgent(
  { runId, agent, agentVersion }: RunRecord,
  { work, migrationsOf }: Deployed,
  versions: Versions,
): string {
  if (work?.every(({ name }) => name !== agent) === true)
    return `Add its module with --agent, or keep a worker with agent "${agent}" until the run ends.`;
  const keep = `keep a worker with version ${agentVersion} of "${agent}" until the run ends`;
  return findSteps(versions, migrationsOf(agent) ?? []) === null
    ? `K${keep.slice(1)}, or continue it with \`agentchart resume ${runId}\`.`
    : `Migrate it with \`agentchart migrate ${runId}\`, or ${keep}.`;
}

function adviseOnChart(
  report: VersionReport,
  versions: Versions,
  migrations: readonly JournalMigration[],
): string {
  const keep = `eep a worker of the release with chart ${versions.chart} until the run ends`;
  if (findSteps(versions, migrations) !== null)
    return `Migrate it with \`agentchart migrate ${report.runId}\`, or k${keep}.`;
  return [`K${keep}.`, adviseOn(report, versions, migrations)].join(' ').trim();
}

function findDoubt({ runId, state, waitsFor = [] }: RunRecord): Finding | undefined {
  const doubts = waitsFor.filter(({ type }) => type === 'doubt');
  if (doubts.length === 0 && state !== 'resting.inDoubt') return undefined;
  const names = doubts.map(({ name, callId }) => `${name} (${callId})`).join(', ');
  return {
    type: 'in-doubt',
    runId,
    reason: `in doubt: ${names || 'a call'}`,
    advice: `Find out whether the call happened, then use \`agentchart resolve ${runId} CALL\`.`,
  };
}

function findDeadOwner(record: RunRecord, now: number): Finding | undefined {
  const { runId, owner } = record;
  if (owner === undefined || isDriven(record, now, isOwnerDead)) return undefined;
  const cause = isOwnerDead(owner) ? 'is gone' : 'let its lease expire';
  return {
    type: 'dead-owner',
    runId,
    reason: `process ${owner.pid} on ${owner.host} drove it and ${cause}`,
    advice: 'A worker that has its agent takes it.',
  };
}
