import { existsSync } from 'node:fs';
import { systemHost } from '../../engine/driver/host.ts';
import { EngineError } from '../../protocol/error.ts';
import type { RunRecord, RunStatus } from '../../protocol/store.ts';
import { EXIT } from '../exit-codes.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { formatPath } from '../render/format-path.ts';
import { formatDistance } from '../render/format-time.ts';
import { Output } from '../render/output.ts';
import { STATUS_STYLES } from '../render/show-end.ts';
import { showSafely } from '../render/show-safely.ts';

export type RunsOptions = { db?: string; json?: boolean; status?: string; limit?: string };

/** Implements `agentchart runs`. Reports records that cannot be read and lists the others. */
export async function runs(options: RunsOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const damaged: EngineError[] = [];
  const onDamaged = (error: EngineError) => damaged.push(error);
  const filter = { onDamaged, limit: readLimit(options.limit), ...readStatus(options.status) };
  const file = storeFile(options.db);
  const { runs: records } = existsSync(file)
    ? await withExistingStore(file, store => store.list(filter))
    : { runs: [] };
  if (output.json) for (const record of records) output.data(record);
  else if (records.length === 0 && damaged.length === 0)
    output.line(`No ${options.status === undefined ? '' : `${options.status} `}runs in ${formatPath(file)}.`);
  else if (records.length > 0) showTable(output, records);
  for (const { message } of damaged) output.problem(message);
  return damaged.length === 0 ? EXIT.done : EXIT.failed;
}

function showTable(output: Output, records: readonly RunRecord[]): void {
  const now = systemHost.now();
  const rows = records.map(record => [
    record.runId,
    record.status,
    showSafely(record.agent),
    formatDistance(record.updatedAt, now),
    String(record.seq),
  ]);
  const titles = ['run', 'status', 'agent', 'last event', 'events'];
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...rows.map(row => row[column]?.length ?? 0)),
  );
  const pad = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0));
  output.line({ style: 'dim', text: pad(titles).join('  ').trimEnd() });
  for (const [index, row] of rows.entries()) {
    const [id = '', status = '', ...rest] = pad(row);
    const style = STATUS_STYLES[records[index]?.status ?? 'running'];
    output.line(id, '  ', { style, text: status }, '  ', rest.join('  ').trimEnd());
  }
}

function readLimit(text = '50'): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit > 0) return limit;
  throw new EngineError('input-invalid', `--limit must be a positive integer, got "${text}".`);
}

function readStatus(text: string | undefined): { status?: RunStatus } {
  if (text === undefined) return {};
  const status = (Object.keys(STATUS_STYLES) as RunStatus[]).find(known => known === text);
  if (status !== undefined) return { status };
  throw new EngineError(
    'input-invalid',
    `--status must be one of ${Object.keys(STATUS_STYLES).join(', ')}, got "${text}".`,
  );
}
