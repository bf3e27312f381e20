import { systemHost } from '../../engine/driver/host.ts';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { parseLabels } from '../../protocol/listing/label.ts';
import { MOST_LISTED } from '../../protocol/listing/run-list.ts';
import type { ListFilter, RunList, RunRecord, RunStatus } from '../../protocol/store.ts';
import { EXIT } from '../exit-codes.ts';
import { hasStore, storeFile, withExistingStore } from '../open-store.ts';
import { readTime } from '../options.ts';
import { formatStore } from '../render/format-path.ts';
import { formatDistance } from '../render/format-time.ts';
import { Output } from '../render/output.ts';
import { STATUS_STYLES } from '../render/show-end.ts';
import { showSafely } from '../render/show-safely.ts';

export type RunsOptions = {
  db?: string;
  json?: boolean;
  status?: string;
  waiting?: boolean;
  agent?: string;
  label?: string[];
  text?: string;
  since?: string;
  before?: string;
  limit?: string;
  cursor?: string;
};

/** Implements `agentchart runs`. Reports records that cannot be read and lists the others. */
export async function runs(options: RunsOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const damaged: EngineError[] = [];
  const filter: ListFilter = { ...readFilter(options), onDamaged: error => damaged.push(error) };
  const file = storeFile(options.db);
  const none: RunList = { runs: [] };
  const page = hasStore(file) ? await withExistingStore(file, store => store.list(filter)) : none;
  if (output.json) for (const record of page.runs) output.data(record);
  else if (page.runs.length > 0) showTable(output, page.runs);
  else if (damaged.length === 0)
    output.line(`No runs in ${formatStore(file)}${isFiltered(options) ? ' match' : ''}.`);
  if (page.next !== undefined)
    output.problem(`There are more runs: repeat the command with --cursor ${page.next}`);
  for (const { message } of damaged) output.problem(message);
  return damaged.length === 0 ? EXIT.done : EXIT.failed;
}

function isFiltered({ db: _, json: __, limit: ___, ...filters }: RunsOptions): boolean {
  return Object.values(filters).some(value => value !== undefined);
}

const LONGEST_TITLE = 40;

function showTable(output: Output, records: readonly RunRecord[]): void {
  const now = systemHost.now();
  const rows = records.map(record => [
    record.runId,
    record.status,
    showSafely(record.agent),
    formatDistance(record.updatedAt, now),
    shorten(showSafely(record.title)),
    showSafely(describeWait(record)),
  ]);
  const titles = ['run', 'status', 'agent', 'last event', 'title', 'waits for'];
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

/** Names what a waiting run waits for, such as `approval of refund`. */
function describeWait({ status, state, waitsFor = [] }: RunRecord): string {
  if (status !== 'waiting') return '';
  const [first, ...others] = waitsFor;
  // A run of an earlier release has its status as its state until its next append.
  if (first === undefined && state === status) return '';
  if (first === undefined || state === 'resting.paused') return state.replace('resting.', '');
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  return `${first.type} of ${first.name}${more}`;
}

function shorten(text: string): string {
  return text.length > LONGEST_TITLE ? `${text.slice(0, LONGEST_TITLE - 1)}…` : text;
}

function readFilter(options: RunsOptions): ListFilter {
  const { agent, label = [], text, since, before, limit, cursor } = options;
  return {
    labels: parseLabels(label),
    limit: readLimit(limit),
    ...omitUndefined({
      status: readStatus(options),
      agent,
      text,
      cursor,
      since: since === undefined ? undefined : readTime('--since', since),
      before: before === undefined ? undefined : readTime('--before', before),
    }),
  };
}

function readLimit(text = '50'): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit > 0 && limit <= MOST_LISTED) return limit;
  throw new EngineError(
    'input-invalid',
    `--limit must be a positive integer up to ${MOST_LISTED}, got "${text}".`,
  );
}

function readStatus({ status: text, waiting }: RunsOptions): RunStatus | undefined {
  const known = Object.keys(STATUS_STYLES) as RunStatus[];
  const status = known.find(one => one === text);
  if (text !== undefined && status === undefined)
    throw new EngineError('input-invalid', `--status must be one of ${known.join(', ')}, got "${text}".`);
  if (waiting !== true) return status;
  if (status === undefined || status === 'waiting') return 'waiting';
  throw new EngineError(
    'input-invalid',
    `--waiting and --status ${status} exclude each other. Give one of them.`,
  );
}
