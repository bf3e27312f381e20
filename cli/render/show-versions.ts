import { systemHost } from '../../engine/driver/host.ts';
import type { VersionDifference, VersionReport } from '../../engine/versions/compare-versions.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { EXIT } from '../exit-codes.ts';
import { formatDistance } from './format-time.ts';
import type { Output } from './output.ts';

/** Prints the version differences of a run, if there are any. */
export function showVersions(output: Output, report: VersionReport): void {
  const { verdict, differences, reason, advice, migratedTo } = report;
  if (verdict === 'same' && migratedTo === undefined) return;
  const style = verdict === 'same' || verdict === 'compatible' ? 'cyan' : 'yellow';
  const why = reason === undefined ? '' : `: ${reason}`;
  output.line({ style: 'dim', text: 'versions  ' }, { style, text: verdict }, why);
  for (const difference of differences) output.line('  ', describeDifference(difference));
  if (advice !== undefined) output.line('  ', advice);
}

function describeDifference({ what, name, was, is, effect }: VersionDifference): string {
  const named = [what, name].filter(Boolean).join(' ');
  return `${named} ${describeChange(was, is)}: ${effect}`;
}

function describeChange(was: string | null, is: string | null): string {
  if (was === null) return 'new';
  return is === null ? 'removed' : `${was} → ${is}`;
}

/** Prints what is known about a run whose journal cannot be read. Returns the exit code. */
export function showUnread(output: Output, record: RunRecord, report: VersionReport): number {
  if (output.json) {
    output.data({ ...record, versions: report });
    return EXIT.failed;
  }
  const fact = (label: string, text: string) => output.line({ style: 'dim', text: label.padEnd(10) }, text);
  output.line({ style: 'bold', text: record.runId });
  fact('agent', record.agent);
  fact('started', `${formatDistance(record.createdAt, systemHost.now())}, ${record.seq} events`);
  fact('status', `${record.status} (according to the release that wrote it)`);
  showVersions(output, report);
  return EXIT.failed;
}
