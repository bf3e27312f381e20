import { systemHost } from '../../engine/driver/host.ts';
import type { VersionDifference, VersionReport } from '../../engine/versions/compare-versions.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { EXIT } from '../exit-codes.ts';
import { formatDistance } from './format-time.ts';
import type { Output } from './output.ts';

/** How the run stands to this program, and to the agent it was compared with; nothing where nothing differs. */
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
  const changed = was === null ? 'new' : is === null ? 'gone' : `${was} → ${is}`;
  return `${named} ${changed}: ${effect}`;
}

/** What is known of a run whose journal is not read; gives the exit code. */
export function showUnread(output: Output, record: RunRecord, report: VersionReport): number {
  if (output.json) {
    output.data({ ...record, versions: report });
    return EXIT.failed;
  }
  const fact = (label: string, text: string) => output.line({ style: 'dim', text: label.padEnd(10) }, text);
  output.line({ style: 'bold', text: record.runId });
  fact('agent', record.agent);
  fact('began', `${formatDistance(record.createdAt, systemHost.now())}, ${record.seq} events`);
  fact('status', `${record.status}, says whoever wrote it`);
  showVersions(output, report);
  return EXIT.failed;
}
