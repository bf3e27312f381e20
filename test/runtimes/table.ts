import type { Outcome } from './program/outcome.ts';

/** A runtime's name, and what came of its checks or why it was skipped. */
export type Column = { name: string; outcome: Outcome };

/** Formats the outcomes as a table in Markdown: a row for each check, a column for each runtime. */
export function formatTable(columns: readonly Column[]): string {
  const checks = [...new Set(columns.flatMap(({ outcome }) => Object.keys(outcome)))];
  const rows = checks.map(check => [check, ...columns.map(({ outcome }) => cellOf(outcome[check]))]);
  const lines = [['', ...columns.map(({ name }) => name)], ['---', ...columns.map(() => '---')], ...rows];
  return lines.map(cells => `| ${cells.join(' | ')} |`).join('\n');
}

function cellOf(result: string | undefined): string {
  if (result === undefined) return '–';
  return result === 'ok' ? 'yes' : 'fails';
}

/** The checks that failed, with their errors. */
export function listFailures(columns: readonly Column[]): string[] {
  return columns.flatMap(({ name, outcome }) =>
    Object.entries(outcome)
      .filter(([, result]) => result !== 'ok')
      .map(([check, result]) => `${name}: ${check}\n${result}`),
  );
}
