import { existsSync } from 'node:fs';
import { systemHost } from '../../engine/driver/host.ts';
import { EngineError } from '../../protocol/error.ts';
import type { RunRecord, RunStatus } from '../../protocol/store.ts';
import { EXIT } from '../exit-codes.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { formatDistance } from '../render/format-time.ts';
import { Output, type Style } from '../render/output.ts';
import { showSafely } from '../render/show-safely.ts';

export type RunsOptions = { db?: string; json?: boolean; status?: string; limit?: string };

const STYLES: Readonly<Record<RunStatus, Style>> = {
  running: 'cyan',
  waiting: 'yellow',
  finished: 'green',
  failed: 'red',
  cancelled: 'dim',
};

/** Lists the runs of the store, newest first. A record that cannot be read is told of; the others are listed. */
export async function runs(options: RunsOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const damaged: EngineError[] = [];
  const onDamaged = (error: EngineError) => damaged.push(error);
  const filter = { onDamaged, limit: readLimit(options.limit), ...readStatus(options.status) };
  const file = storeFile(options.db);
  const records = existsSync(file) ? await withExistingStore(file, store => store.list(filter)) : [];
  if (output.json) for (const record of records) output.data(record);
  else if (records.length === 0 && damaged.length === 0)
    output.line(`No runs in ${file}${options.status === undefined ? '' : ` are ${options.status}`}.`);
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
    const style = STYLES[records[index]?.status ?? 'running'];
    output.line(id, '  ', { style, text: status }, '  ', rest.join('  ').trimEnd());
  }
}

function readLimit(text = '50'): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit > 0) return limit;
  throw new EngineError('input-invalid', `--limit takes a whole number above 0, and "${text}" is none.`);
}

function readStatus(text: string | undefined): { status?: RunStatus } {
  if (text === undefined) return {};
  const status = (Object.keys(STYLES) as RunStatus[]).find(known => known === text);
  if (status !== undefined) return { status };
  throw new EngineError(
    'input-invalid',
    `--status takes one of ${Object.keys(STYLES).join(', ')}, and "${text}" is none.`,
  );
}
