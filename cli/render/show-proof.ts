import type { RunGroup } from '../../explore/prove-runs.ts';
import { bold, dim, green, type Output, red, yellow } from './output.ts';
import { showPath } from './show-exploration.ts';

const MOST_IDS = 3;

/** A line for each group, and what stops it with the path. `width`: of the column of verdicts. */
export function showProof(output: Output, groups: readonly RunGroup[], width: number): void {
  for (const group of groups) {
    const { verdict, agent, state, calls, count, runs, why, path } = group;
    const what = [state, ...calls].join(', ');
    const ids = runs.slice(0, MOST_IDS).join(', ');
    output.line(
      colorOf(group)(verdict.padEnd(width)),
      bold(`${count} ${count === 1 ? 'run' : 'runs'}`),
      ` of ${agent}, ${what}`,
      dim(`  ${ids}${count > MOST_IDS ? ', …' : ''}`),
    );
    if (why !== undefined) output.line(' '.repeat(width), why);
    if (path !== undefined) showPath(output, path, 1);
  }
}

function colorOf({ verdict, complete }: RunGroup) {
  if (verdict === 'stops') return red;
  return verdict === 'continues' && complete ? green : yellow;
}

/** How many runs continue, migrate and stop. */
export function countVerdicts(groups: readonly RunGroup[]): Record<RunGroup['verdict'], number> {
  const counts = { continues: 0, migrates: 0, stops: 0 };
  for (const { verdict, count } of groups) counts[verdict] += count;
  return counts;
}
