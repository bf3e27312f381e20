/** The figures that an attack counts; each must be 0. */
export const FIGURES = ['lost', 'silent doubles', 'stranded', 'frozen', 'leaked', 'broken'] as const;

/**
 * `lost`: acknowledged, but not in the journal. `silent doubles`: a `once` call that happened twice without a
 * person's forced retry. `stranded`: a run or a call that never comes to rest. `frozen`: a process that was
 * busy for longer than `LONGEST_BLOCK_MS`. `leaked`: a secret or hidden value in the output. `broken`:
 * any other broken promise.
 */
export type Figure = (typeof FIGURES)[number];

export type Finding = { figure: Figure; what: string };

export function found(figure: Figure, what: string): Finding {
  return { figure, what };
}

export function countBy(findings: readonly Finding[]): Record<Figure, number> {
  const counts = { lost: 0, 'silent doubles': 0, stranded: 0, frozen: 0, leaked: 0, broken: 0 };
  for (const { figure } of findings) counts[figure] += 1;
  return counts;
}
