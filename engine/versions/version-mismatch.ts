import { chartIdentity } from '../../machines/snapshot.ts';
import { EngineError } from '../../protocol/error.ts';
import { JOURNAL_FORMAT } from '../../protocol/event.ts';
import { given, type JsonObject, toJson } from '../../protocol/json.ts';
import { compareJournal, type VersionReport, type WrittenBy } from './compare-versions.ts';
import { findSteps, type JournalMigration, type Versions, versionsOf } from './migrate-journal.ts';

const GUIDE = 'docs/versions.md';

/** What to do about a run that does not go on as it is: for the person who reads the report. */
export function adviseOn(
  report: VersionReport,
  versions: Versions,
  migrations: readonly JournalMigration[] = [],
): string | undefined {
  const { runId, verdict, opens, migratedTo, differences } = report;
  if (migratedTo !== undefined) return `It was migrated: go on with run ${migratedTo}.`;
  const renamed = differences.find(({ what, name }) => what === 'agent' && name === 'name');
  if (renamed !== undefined)
    return `Open it with agent "${renamed.was}", or with an agent that has "${renamed.was}" as a sub-agent. If the agent was renamed, a migration can give the run its new name (${GUIDE}).`;
  if (verdict === 'refused') {
    return versions.chart > chartIdentity().version || versions.format > JOURNAL_FORMAT
      ? 'Open it with the release of agentchart that wrote it, or a later one.'
      : 'Open it with the program that wrote it; a chart that is changed gets a new CHART_VERSION.';
  }
  if (verdict !== 'needs-migration') return undefined;
  const migrate = `agent.migrate('${runId}') or \`agentchart migrate ${runId}\``;
  if (findSteps(versions, migrations) !== null)
    return `${migrate} begins a run that goes on where it stands.`;
  if (opens) {
    return (
      'Give the agent such tools again, or decide the calls (reject, answer, resolve, cancel), or write a ' +
      `migration: createAgent({ migrations: [{ from: { agent: … }, to: { agent: … }, migrate }] }), then ${migrate} (${GUIDE}).`
    );
  }
  return (
    `Write a migration: createAgent({ migrations: [{ from: { chart: ${versions.chart} }, to: { chart: ` +
    `${chartIdentity().version} }, migrate }] }), then ${migrate} (${GUIDE}); or open it with the release of ` +
    'agentchart that wrote it.'
  );
}

/** Throws `chart-mismatch` with the report for a journal that this program does not read. */
export function assertReadable(runId: string, written: WrittenBy): void {
  const report = compareJournal(runId, written);
  if (report.opens) return;
  const advice = adviseOn(report, versionsOf(toJson(written) as JsonObject));
  throw versionMismatch({ ...report, ...given({ advice }) });
}

/** The error for a run that is not opened. Its details are the report. */
export function versionMismatch(report: VersionReport): EngineError {
  const { runId, reason = 'it was written by another version', advice } = report;
  const told = advice === undefined ? '' : ` ${advice}`;
  return new EngineError(
    'chart-mismatch',
    `Run ${runId} cannot be opened with this program: ${reason}.${told}`,
    toJson(report),
  );
}
