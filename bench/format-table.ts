import { median } from './statistics.ts';
import type { Metrics } from './workload.ts';

/**
 * A column of medians over repetitions. `ratio` and `added` compare with the contender `to` (default: the first) in
 * the same repetition, before the median is taken; the column is omitted if `to` was not measured. `aims` are the
 * targets by contender, printed after the figure. `budgets` are limits by contender, printed with whether the figure holds
 * them; those of a column with `scaledBy` are for a repetition in which that metric is `at`, and grow with it.
 */
export type Column = {
  label: string;
  metric: string;
  as?: 'value' | 'ratio' | 'added';
  to?: string;
  digits?: number;
  aims?: Readonly<Record<string, string>>;
  budgets?: Readonly<Record<string, number>>;
  scaledBy?: { metric: string; at: number };
};

/** The repetitions of each contender, in the order of the table. */
export type Samples = readonly { contender: string; repetitions: readonly Metrics[] }[];

/** Returns a title, a header and a line per contender, with right-aligned figures. */
export function formatTable(title: string, allColumns: readonly Column[], samples: Samples): string {
  const table = tabulate(allColumns, samples);
  const widths = (table[0] ?? []).map((_, index) => Math.max(...table.map(line => line[index]?.length ?? 0)));
  const text = table.map(line =>
    line
      .map((cell, index) => (index === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[index] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
  return [title, ...text.map(line => `  ${line}`)].join('\n');
}

/** Returns the cells of a header and of a line per contender. */
export function tabulate(allColumns: readonly Column[], samples: Samples): string[][] {
  const columns = allColumns.filter(column => referenceOf(column, samples) !== undefined);
  const head = ['', ...columns.map(({ label }) => label)];
  const lines = samples.map(({ contender }) => [
    contender,
    ...columns.map(column => formatCell(column, contender, samples)),
  ]);
  return [head, ...lines];
}

/** Returns the column's median for a contender; `undefined` if it was not measured. */
function summarize(column: Column, contender: string, samples: Samples): number | undefined {
  const own = samples.find(sample => sample.contender === contender)?.repetitions ?? [];
  const first = referenceOf(column, samples)?.repetitions ?? [];
  const values = own.flatMap((metrics, index) => {
    const value = metrics[column.metric];
    const reference = first[index]?.[column.metric];
    if (value === undefined) return [];
    if (column.as === undefined || column.as === 'value') return [value];
    if (reference === undefined) return [];
    return [column.as === 'ratio' ? value / reference : value - reference];
  });
  return values.length === 0 ? undefined : median(values);
}

function referenceOf({ to }: Column, samples: Samples): Samples[number] | undefined {
  return to === undefined ? samples[0] : samples.find(({ contender }) => contender === to);
}

function formatCell(column: Column, contender: string, samples: Samples): string {
  const value = summarize(column, contender, samples);
  if (value === undefined) return '–';
  const aim = column.aims?.[contender];
  const show = (number: number) =>
    number.toLocaleString('en-US', {
      minimumFractionDigits: column.digits ?? 0,
      maximumFractionDigits: column.digits ?? 0,
    });
  const signed = column.as === 'added' && value >= 0 ? `+${show(value)}` : show(value);
  const figure = `${signed}${column.as === 'ratio' ? '×' : ''}`;
  const budget = scaleBudget(column, contender, samples);
  if (budget !== undefined)
    return `${figure} (≤ ${show(budget)}: ${value <= budget ? 'holds' : 'DOES NOT HOLD'})`;
  return `${figure}${aim === undefined ? '' : ` (aim ${aim})`}`;
}

function scaleBudget({ budgets, scaledBy }: Column, contender: string, samples: Samples): number | undefined {
  const budget = budgets?.[contender];
  if (budget === undefined || scaledBy === undefined) return budget;
  const scale = summarize({ label: '', metric: scaledBy.metric }, contender, samples);
  return scale === undefined ? budget : (budget * scale) / scaledBy.at;
}
