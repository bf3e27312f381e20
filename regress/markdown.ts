import { showSafely } from '../text/show-safely.ts';
import {
  describeKind,
  describeShown,
  describeToolChange,
  groupByRun,
  listFigures,
  listNotes,
} from './describe-report.ts';
import type { RegressReport } from './report.ts';
import type { Difference } from './report-sums.ts';

/** GitHub refuses comments of more than 65,536 characters. */
const MOST_RUNS = 60;
const MOST_OF_RUN = 5;
const MOST_TOOLS = 40;
const MOST_REASONS = 20;

/**
 * A report in GitHub's Markdown, for a pull request. Text from runs stands in code spans, where it can form no table, link,
 * mention or HTML. `failures`: what `failuresOf` says.
 */
export function formatMarkdown(report: RegressReport, failures: readonly string[] = []): string {
  const blocks = [
    `## ${formatTitle(report)}`,
    failures.map(failure => `- ❌ ${codeSpan(failure)}`).join('\n'),
    formatCounts(report),
    formatFigures(report),
    listNotes(report)
      .map(note => `- ${note}`)
      .join('\n'),
    formatTools(report),
    formatDifferences(report),
    formatReasons(report),
  ];
  return `${blocks.filter(block => block !== '').join('\n\n')}\n`;
}

function formatTitle({ runs, otherEffects, undecidable }: RegressReport): string {
  const decided = runs - undecidable;
  if (decided === 0) return 'No recorded run could be compared';
  if (otherEffects === 0) return `All ${decided} recorded runs have the same effects`;
  return `${otherEffects} of ${decided} recorded runs ${otherEffects === 1 ? 'has' : 'have'} other effects`;
}

function formatCounts(report: RegressReport): string {
  const { baseline } = report;
  const row = (name: string, { runs, same, sameEffects, otherEffects, undecidable }: Counted) => [
    name,
    ...[runs, same, sameEffects, otherEffects, undecidable].map(String),
  ];
  return formatTable(
    ['', 'runs', 'same', 'other words', 'other effects', 'undecidable'],
    [row('candidate', report), ...(baseline === undefined ? [] : [row('baseline', baseline)])],
  );
}

type Counted = Pick<RegressReport, 'runs' | 'same' | 'sameEffects' | 'otherEffects' | 'undecidable'>;

function formatFigures({ paired, baseline }: RegressReport): string {
  const others = new Map(listFigures(baseline?.paired ?? {}).map(row => [row.name, row]));
  const rows = listFigures(paired).map(({ name, recorded, candidate, difference, interval, isSure }) => [
    name,
    recorded,
    candidate,
    isSure ? `**${difference}**` : difference,
    interval,
    ...(baseline === undefined ? [] : [others.get(name)?.difference ?? '']),
  ]);
  const beside = baseline === undefined ? [] : ['baseline'];
  if (rows.length === 0) return '';
  return formatTable(['a run', 'recorded', 'candidate', 'difference', '95 % interval', ...beside], rows);
}

function formatTools({ tools, baseline }: RegressReport): string {
  if (tools.length === 0) return '';
  const rows = tools
    .slice(0, MOST_TOOLS)
    .map(change => [codeCell(change.tool), change.sideEffect ?? '', describeToolChange(change, baseline)]);
  return `### By tool\n\n${formatTable(['tool', 'side effect', 'differences'], rows, 0)}${formatRest(tools.length - rows.length, 'tool')}`;
}

function formatDifferences({ differences }: RegressReport): string {
  const groups = groupByRun(differences);
  if (groups.length === 0) return '';
  const rows = groups
    .slice(0, MOST_RUNS)
    .flatMap(group => [
      ...group.slice(0, MOST_OF_RUN).map(formatDifference),
      ...(group.length > MOST_OF_RUN ? [['', '', `… and ${group.length - MOST_OF_RUN} more`]] : []),
    ]);
  const table = formatTable(['run', 'turn', 'difference'], rows, 0);
  return `### By run\n\n${table}${formatRest(groups.length - MOST_RUNS, 'run')}`;
}

function formatDifference(one: Difference, place: number): string[] {
  const shown = describeShown(one);
  const beside = [shown, one.noise === true ? 'noise' : ''].filter(text => text !== '').join(', ');
  const what = `**${describeKind(one)}** ${codeCell(one.detail)}${beside === '' ? '' : ` (${beside})`}`;
  return [place === 0 ? codeCell(one.runId) : '', String(one.turn), what];
}

function formatReasons({ reasons, undecidable }: RegressReport): string {
  if (reasons.length === 0) return '';
  const lines = reasons
    .slice(0, MOST_REASONS)
    .map(({ why, count, runIds: [first = ''] }) => `- ${count}: ${codeSpan(why)}, as ${codeSpan(first)}`);
  const rest = formatRest(reasons.length - lines.length, 'reason');
  return `<details><summary>Undecidable: ${undecidable}</summary>\n\n${lines.join('\n')}${rest}\n\n</details>`;
}

function formatRest(count: number, noun: string): string {
  return count > 0 ? `\n\n… and ${count} more ${noun}${count === 1 ? '' : 's'}.` : '';
}

/** Numbers stand on the right, from the column `left` on; without numbers, all columns are on the left. */
function formatTable(head: readonly string[], rows: readonly (readonly string[])[], left = 1): string {
  const marks = head.map((_, place) => (left === 0 || place < left ? '---' : '---:'));
  return [head, marks, ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n');
}

const LONGEST = 600;

/** A text as a code span on one line, which ends where the text does. */
function codeSpan(text: string): string {
  const line = showSafely(text.slice(0, LONGEST).replace(/\s+/gu, ' ').trim()).toWellFormed();
  const longest = (line.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 0);
  const mark = '`'.repeat(longest + 1);
  const pad = line === '' || line.startsWith('`') || line.endsWith('`') ? ' ' : '';
  return `${mark}${pad}${line}${pad}${mark}`;
}

/** In a table, a bar ends a cell unless an odd number of backslashes stands before it, of which one is not shown. */
function codeCell(text: string): string {
  const [last = '', ...before] = codeSpan(text).split('|').toReversed();
  const escaped = before.map(part => `${part}${hasOddEnd(part) ? '\\\\' : '\\'}|`);
  return [...escaped.toReversed(), last].join('');
}

function hasOddEnd(text: string): boolean {
  let at = text.length;
  while (text[at - 1] === '\\') at -= 1;
  return (text.length - at) % 2 === 1;
}
