import {
  describeKind,
  describeShown,
  describeToolChange,
  groupByRun,
  listFigures,
  listNotes,
} from '../../regress/describe-report.ts';
import type { RegressReport } from '../../regress/report.ts';
import type { Difference } from '../../regress/report-sums.ts';
import type { CommandLines } from './command-lines.ts';
import { plural, shortenCell } from './format.ts';
import { bold, cyan, dim, green, type Output, red, type Segment, yellow } from './output.ts';

const MOST_RUNS = 50;
const MOST_REASONS = 10;
const LONGEST = 200;

/**
 * Prints a report: counts, figures, tools, and each run that differs with its first difference. `failures`: what
 * `failuresOf` says. `commands` name the store of the played runs.
 */
export function showRegress(
  output: Output,
  report: RegressReport,
  { commands, failures = [] }: { commands: CommandLines; failures?: readonly string[] },
): void {
  output.line(bold(`${plural(report.runs, 'recorded run')} played`));
  showCounts(output, report);
  showFigures(output, report);
  for (const note of listNotes(report)) output.line(yellow('note '), note);
  showTools(output, report);
  showRuns(output, report, commands);
  showReasons(output, report);
  for (const failure of failures) output.line(red('✗ '), shortenCell(failure, 2 * LONGEST));
}

function showCounts(output: Output, { baseline, ...report }: RegressReport): void {
  const rows = [
    ['same', 'same', green],
    ['sameEffects', 'same effects, other words', green],
    ['otherEffects', 'other effects', red],
    ['undecidable', 'undecidable', yellow],
  ] as const;
  for (const [sameness, words, color] of rows) {
    const count = report[sameness];
    const beside = baseline === undefined ? '' : dim(`  (baseline ${baseline[sameness]})`);
    const number = String(count).padStart(7);
    output.line(count === 0 ? dim(number) : color(number), `  ${words}`, beside);
  }
  output.line('');
}

function showFigures(output: Output, { paired, baseline }: RegressReport): void {
  const rows = listFigures(paired);
  if (rows.length === 0) return;
  const others = new Map(listFigures(baseline?.paired ?? {}).map(row => [row.name, row]));
  const columns = ['a run', 'recorded', 'candidate', 'difference', '95 % interval'];
  const table = rows.map(({ name, recorded, candidate, difference, interval }) => [
    name,
    recorded,
    candidate,
    difference,
    interval,
  ]);
  const widths = columns.map((title, at) =>
    Math.max(title.length, ...table.map(cells => (cells[at] ?? '').length)),
  );
  const cell = (text: string, at: number) =>
    at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0);
  output.line(dim(columns.map(cell).join('  ')));
  for (const [at, cells] of table.entries()) {
    const { name = '', isSure = false } = rows[at] ?? {};
    const other = others.get(name);
    const [label = '', was = '', is = '', difference = '', interval = ''] = cells.map(cell);
    output.line(
      `${label}  ${was}  ${is}  `,
      isSure ? bold(difference) : difference,
      dim(`  ${interval}`),
      other === undefined ? '' : dim(`  (baseline ${other.difference})`),
    );
  }
  output.line('');
}

function showTools(output: Output, { tools, baseline }: RegressReport): void {
  for (const change of tools) {
    const { tool, sideEffect } = change;
    output.line(
      bold(shortenCell(tool, LONGEST)),
      sideEffect === undefined ? '' : dim(` ${sideEffect}`),
      `  ${describeToolChange(change, baseline)}`,
    );
  }
  if (tools.length > 0) output.line('');
}

/** Each run that differs in a line, and how to look at the first. */
function showRuns(output: Output, { differences }: RegressReport, commands: CommandLines): void {
  const groups = groupByRun(differences);
  for (const group of groups.slice(0, MOST_RUNS)) output.line(...describeRun(group));
  const rest = groups.length - MOST_RUNS;
  if (rest > 0) output.line(dim(`and ${plural(rest, 'more run')}; --json lists all`));
  const [first] = groups[0] ?? [];
  if (first === undefined) return;
  output.line('');
  output.line(dim('Look at the first: '), commands.of('show', first.candidate));
  const page = `/compare/${first.runId}..${first.candidate}`;
  output.line(dim('On the page:       '), commands.of('serve'), dim(`, then /regressions, or ${page}`));
  output.line('');
}

function describeRun([first, ...others]: readonly [Difference, ...Difference[]]): Segment[] {
  const shown = describeShown(first);
  const isNoise = first.noise === true;
  const style = first.sideEffect === 'once' && !isNoise ? red : cyan;
  const kind = describeKind(first).padEnd(12);
  return [
    `${first.runId}  `,
    dim(`turn ${first.turn}  `),
    isNoise ? dim(kind) : style(kind),
    `  ${shortenCell(first.detail, LONGEST)}`,
    others.length === 0 ? '' : dim(`, and ${others.length} more`),
    dim(shown === '' ? '' : `  (${shown}${isNoise ? ', noise' : ''})`),
  ];
}

function showReasons(output: Output, { reasons }: RegressReport): void {
  for (const { why, count, runIds } of reasons.slice(0, MOST_REASONS))
    output.line(
      yellow('undecidable '),
      `${plural(count, 'run')}: ${shortenCell(why, LONGEST)}`,
      dim(`  ${runIds[0] ?? ''}`),
    );
  const rest = reasons.length - MOST_REASONS;
  if (rest > 0) output.line(dim(`and for ${plural(rest, 'more reason')}`));
  if (reasons.length > 0) output.line('');
}
