import { compareChart } from '../../machines/snapshot.ts';
import { JOURNAL_FORMAT } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { findSteps, type JournalMigration, type Versions } from './migrate-journal.ts';

/** What can continue a migrated run: the versions of its agent that are here (default any), and its migrations. */
export type MigrationTarget = { versions?: readonly string[]; migrations: readonly JournalMigration[] };

/**
 * Whether migrations lead from the chart and agent version in a run's record to this program's chart and to one of the
 * versions. False if the record has no chart.
 */
export function canMigrate(
  { chart, agentVersion }: Pick<RunRecord, 'chart' | 'agentVersion'>,
  { versions, migrations }: MigrationTarget,
): boolean {
  if (chart === undefined) return false;
  const relation = compareChart(chart);
  if (relation !== 'same' && relation !== 'older') return false;
  const from: Versions = {
    format: JOURNAL_FORMAT,
    chart: chart.version,
    ...omitUndefined({ agent: agentVersion }),
  };
  const steps = findSteps(from, migrations);
  if (steps === null) return false;
  const reached = steps.findLast(({ to }) => to.agent !== undefined)?.to.agent ?? agentVersion;
  return reached === undefined || versions === undefined || versions.includes(reached);
}
