import { systemHost } from '../../engine/host/host.ts';
import { type EngineError, invalidInput } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Totals } from '../../protocol/listing/totals.ts';
import type { RunList, RunRecord, RunStatus } from '../../protocol/store.ts';
import type { Action, GivenTo } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { storeFile } from '../options.ts';
import { formatDistance, formatStore, showSafely } from '../render/format.ts';
import { dim, Output } from '../render/output.ts';
import { STATUS_STYLES } from '../render/show-open.ts';
import { hasStore, missingStore, withStore } from '../store.ts';

/** Reports records that cannot be read and lists the others. */
export const runs: Action<'runs'> = async options => {
  const { db, json, limit, wide = false, label: labels, agent, text, since, before, cursor } = options;
  const { sort } = options;
  const folded = options.folded === true ? (true as const) : undefined;
  const output = new Output({ json });
  const damaged: EngineError[] = [];
  const filter = omitUndefined({ status: statusOf(options), labels, agent, text, since, before, cursor });
  const filtered = { ...filter, ...omitUndefined({ folded }) };
  const how = omitUndefined({ sort, folded });
  const file = storeFile(db);
  const none: RunList = { runs: [] };
  const listed = { ...filter, ...how, limit, onDamaged: (error: EngineError) => damaged.push(error) };
  const page = hasStore(file) ? await withStore(file, store => store.list(listed)) : none;
  if (output.json) for (const record of page.runs) output.data(record);
  else if (page.runs.length > 0) showTable(output, page.runs, wide);
  else if (!hasStore(file)) output.line(missingStore(file).message);
  else if (damaged.length === 0)
    output.line(`No runs in ${formatStore(file)}${Object.keys(filter).length === 0 ? '' : ' match'}.`);
  if (options.totals === true && hasStore(file))
    showTotals(output, await withStore(file, store => store.totals(filtered)));
  if (page.next !== undefined)
    output.problem(`There are more runs: repeat the command with --cursor ${page.next}`);
  for (const { message } of damaged) output.problem(message);
  return damaged.length === 0 ? EXIT.done : EXIT.failed;
};

function showTotals(output: Output, { rows: [row] }: Totals): void {
  if (row === undefined) return;
  const { runs, turns, tokens, cost, activeMs, doubts } = row;
  if (output.json) return output.data({ totals: row });
  const counts = [`${runs} runs`, `${turns} turns`, `${tokens} tokens`, `$${cost.toFixed(2)}`];
  const inDoubt = doubts === 0 ? [] : [`${doubts} in doubt`];
  output.line([...counts, `${Math.round(activeMs / 1000)} s of work`, ...inDoubt].join(', '));
}

function statusOf({ status, waiting }: GivenTo<'runs'>): RunStatus | undefined {
  if (waiting !== true) return status;
  if (status === undefined || status === 'waiting') return 'waiting';
  throw invalidInput(`--waiting and --status ${status} exclude each other. Give one of them.`);
}

const LONGEST_TITLE = 40;

/** The columns, and how narrow those that are cut may become. */
const COLUMNS = ['run', 'status', 'agent', 'last event', 'title', 'waits for'];
const NARROWEST: Readonly<Record<string, number>> = { agent: 8, title: 10, 'waits for': 9 };

/** So many characters of a run's id name it in practice, as in `run_1a2b3c4d5e6f`. */
const ID_PREFIX = 16;

const GAP = '  ';

/** On a terminal, the table is as wide as the terminal: long ids, titles and names are cut, unless `isWide`. */
function showTable(output: Output, records: readonly RunRecord[], isWide: boolean): void {
  const now = systemHost.now();
  const rows = records.map(record => [
    record.runId,
    record.status,
    showSafely(record.agent),
    formatDistance(record.updatedAt, now),
    isWide ? showSafely(record.title) : cut(showSafely(record.title), LONGEST_TITLE),
    showSafely(describeWait(record)),
  ]);
  const natural = COLUMNS.map((title, column) =>
    Math.max(title.length, ...rows.map(row => row[column]?.length ?? 0)),
  );
  const columns = isWide ? undefined : output.columns;
  const widths = columns === undefined ? natural : fitTo(natural, columns, idWidth(records));
  const pad = (row: readonly string[]) =>
    row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return (column === 0 ? cell.slice(0, width) : cut(cell, width)).padEnd(width);
    });
  output.line(dim(pad(COLUMNS).join(GAP).trimEnd()));
  for (const [index, row] of rows.entries()) {
    const [id = '', status = '', ...rest] = pad(row);
    const style = STATUS_STYLES[records[index]?.status ?? 'running'];
    output.line(id, GAP, { style, text: status }, GAP, rest.join(GAP).trimEnd());
  }
}

/** How much of the ids has to be shown so that each names one of these runs: commands take a prefix of an id. */
function idWidth(records: readonly RunRecord[]): number {
  const isDistinct = (width: number) =>
    new Set(records.map(({ runId }) => runId.slice(0, width))).size === records.length;
  let width = ID_PREFIX;
  while (!isDistinct(width)) width += 1;
  return width;
}

/** Narrows the columns until they fit: first the ids, then always the widest of the others. */
function fitTo(natural: readonly number[], columns: number, narrowestId: number): number[] {
  const widths = [...natural];
  let over = widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length) - columns;
  const narrow = (column: number, by: number) => {
    widths[column] = (widths[column] ?? 0) - by;
    over -= by;
  };
  if (over > 0) narrow(0, Math.min(over, Math.max(0, (widths[0] ?? 0) - narrowestId)));
  const spare = (column: number) => (widths[column] ?? 0) - (NARROWEST[COLUMNS[column] ?? ''] ?? Infinity);
  while (over > 0) {
    const [widest] = [...widths.keys()]
      .filter(column => spare(column) > 0)
      .sort((one, other) => (widths[other] ?? 0) - (widths[one] ?? 0));
    if (widest === undefined) return widths;
    narrow(widest, 1);
  }
  return widths;
}

/** What a waiting run waits for: `approval of refund and 2 more`. */
export function describeWait({ status, state, waitsFor = [] }: RunRecord): string {
  if (status !== 'waiting') return '';
  const [first, ...others] = waitsFor;
  // Without progress in its record, a run has its status as its state until its next append.
  if (first === undefined && state === status) return '';
  if (first === undefined || state === 'resting.paused') return state.replace('resting.', '');
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  return `${first.type} of ${first.name}${more}`;
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
