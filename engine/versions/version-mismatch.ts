import { chartIdentity } from '../../machines/snapshot.ts';
import { EngineError } from '../../protocol/error.ts';
import { JOURNAL_FORMAT } from '../../protocol/event.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import { compareJournal, type VersionReport, type WrittenBy } from './compare-versions.ts';
import { findSteps, type JournalMigration, type Versions, versionsOf } from './migrate-journal.ts';

const GUIDE = 'docs/versions.md';

export function adviseOn(
  report: VersionReport,
  versions: Versions,
  migrations: readonly JournalMigration[] = [],
): string | undefined {
  const { runId, verdict, opens, migratedTo, differences } = report;
  if (migratedTo !== undefined) return `It was already migrated: use run ${migratedTo}.`;
  const renamed = differences.find(({ what, name }) => what === 'agent' && name === 'name');
  if (renamed !== undefined)
    return `Open it with agent "${renamed.was}", or with an agent that has "${renamed.was}" as a sub-agent. If the agent was renamed, a migration can give the run its new name (${GUIDE}).`;
  if (verdict === 'refused') {
    return versions.chart > chartIdentity().version || versions.format > JOURNAL_FORMAT
      ? 'Open it with the release of agentchart that wrote it, or a later one.'
      : 'Open it with the program that wrote it. A changed chart needs a new CHART_VERSION.';
  }
  if (verdict !== 'needs-migration') return undefined;
  const migrate = `agent.migrate('${runId}') or \`agentchart migrate ${runId}\``;
  if (findSteps(versions, migrations) !== null)
    return `${migrate} creates a run that continues from its current state.`;
  if (opens) {
    return (
      'Restore these tools of the agent, or decide the calls (reject, answer, resolve, cancel), or write a ' +
      `migration: createAgent({ migrations: [{ from: { agent: … }, to: { agent: … }, migrate }] }), then ${migrate} (${GUIDE}).`
    );
  }
  return (
    `Write a migration: createAgent({ migrations: [{ from: { chart: ${versions.chart} }, to: { chart: ` +
    `${chartIdentity().version} }, migrate }] }), then ${migrate} (${GUIDE}); or open it with the release of ` +
    'agentchart that wrote it.'
  );
}

/** Throws `chart-mismatch` with the report for a journal that this program cannot read. */
export function assertReadable(runId: string, written: WrittenBy): void {
  const report = compareJournal(runId, written);
  if (report.opens) return;
  const advice = adviseOn(report, versionsOf(toJson(written) as JsonObject));
  throw versionMismatch({ ...report, ...omitUndefined({ advice }) });
}

export function versionMismatch(report: VersionReport): EngineError {
  const { runId, reason = 'it was written by another version', advice } = report;
  const suffix = advice === undefined ? '' : ` ${advice}`;
  return new EngineError(
    'chart-mismatch',
    `Run ${runId} cannot be opened with this program: ${reason}.${suffix}`,
    toJson(report),
  );
}
