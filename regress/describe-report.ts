import { formatCost } from '../protocol/listing/cost.ts';
import { formatNumber } from '../protocol/listing/format-number.ts';
import type { RegressReport } from './report.ts';
import type { Difference, Figure, ToolChange } from './report-sums.ts';

/* The words and numbers of a report, for all of its forms. Texts from runs are as they came. */

const KINDS: Readonly<Record<Difference['kind'], string>> = {
  'new-call': 'new call',
  'missing-call': 'missing call',
  input: 'other input',
  decision: 'decision',
  outcome: 'outcome',
  end: 'end',
  output: 'output',
  score: 'score',
};

export function describeKind({ kind }: Pick<Difference, 'kind'>): string {
  return KINDS[kind];
}

export function describeCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** A figure a run. `isSure`: the interval is on one side of 0. */
export type FigureRow = {
  name: string;
  recorded: string;
  candidate: string;
  difference: string;
  interval: string;
  isSure: boolean;
};

const FORMATS: Readonly<Record<string, (value: number) => string>> = {
  cost: formatCost,
  turns: value => value.toFixed(1),
  tokens: value => formatNumber(Math.round(value)),
  score: value => value.toFixed(3),
};

/** The means of pairs of runs. A cost, and tokens, that are 0 on both sides are not known, and left out. */
export function listFigures(paired: Partial<RegressReport['paired']>): FigureRow[] {
  return Object.entries(paired).flatMap(([name, figure]) => {
    const { runs, recorded, candidate } = figure;
    const isUnknown = name !== 'score' && recorded === 0 && candidate === 0;
    return runs === 0 || isUnknown ? [] : [describeFigure(name, figure)];
  });
}

/** A figure in one line; one that is the same on both sides is said once. */
export function sayFigure({ name, recorded, candidate, difference, interval }: FigureRow): string {
  return recorded === candidate
    ? `${name} ${recorded}`
    : `${name} ${recorded} → ${candidate}, ${difference} (${interval})`;
}

function describeFigure(name: string, figure: Figure): FigureRow {
  const { recorded, candidate, difference, interval } = figure;
  const format = FORMATS[name] ?? String;
  const isShare = name !== 'score' && recorded > 0;
  const change = (value: number) => {
    const size = Math.abs(value);
    const text = isShare ? `${((size / recorded) * 100).toFixed(1)} %` : format(size);
    if (value === 0) return text;
    return value < 0 ? `−${text}` : `+${text}`;
  };
  return {
    name,
    recorded: format(recorded),
    candidate: format(candidate),
    difference: change(difference),
    interval: interval === null ? 'unknown' : `${change(interval.low)} to ${change(interval.high)}`,
    isSure: interval !== null && (interval.low > 0 || interval.high < 0),
  };
}

/** `3 of 5 samples`, or `2 of 5 samples, baseline 1 of 5`. Of single samples, only whether the baseline shows it too. */
export function describeShown({ samples, baseline }: Difference): string {
  const isSingle = samples.of === 1 && (baseline?.of ?? 1) === 1;
  if (isSingle) return baseline?.shown === 1 ? 'also in the baseline' : '';
  const own = `${samples.shown} of ${samples.of} samples`;
  return baseline === undefined ? own : `${own}, baseline ${baseline.shown} of ${baseline.of}`;
}

/** `new call in 4 runs, missing call in 1 run`; beside a baseline, `new call in 4 runs (baseline 2)`. */
export function describeToolChange({ tool, runs }: ToolChange, baseline: RegressReport['baseline']): string {
  const others = baseline?.tools.find(one => one.tool === tool)?.runs ?? {};
  return Object.entries(KINDS)
    .flatMap(([name, words]) => {
      const kind = name as Difference['kind'];
      const count = runs[kind];
      const beside = baseline === undefined ? '' : ` (baseline ${others[kind] ?? 0})`;
      return count === undefined ? [] : [`${words} in ${describeCount(count, 'run')}${beside}`];
    })
    .join(', ');
}

/** The differences of each run that has some: those with one that is not noise come first. */
export function groupByRun(differences: readonly Difference[]): [Difference, ...Difference[]][] {
  const groups = [...Map.groupBy(differences, ({ runId }) => runId).values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [[first, ...others] satisfies [Difference, ...Difference[]]],
  );
  const isNoise = (group: readonly Difference[]) => group.every(({ noise }) => noise === true);
  return [...groups.filter(group => !isNoise(group)), ...groups.filter(isNoise)];
}

/** What the numbers do not say by themselves. */
export function listNotes({
  complete,
  paired,
  compared,
  samples,
  runs,
  undecidable,
  tools,
}: RegressReport): string[] {
  const { cost, tokens, turns } = paired;
  const decided = runs - undecidable;
  const isExecutable = (change: ToolChange) => change.sideEffect === 'none' && change.runs['new-call'];
  const executable = turns.runs < decided ? tools.filter(isExecutable).map(({ tool }) => tool) : [];
  return [
    ...(complete ? [] : ['Interrupted: not all runs were played.']),
    ...(samples > 1 ? [`Each run was played ${samples} times and counts by its worst sample.`] : []),
    ...(turns.runs < decided ? [describeStopped(decided, turns.runs)] : []),
    ...(executable.length > 0
      ? [
          `New calls of ${executable.join(', ')} can be executed, as they have no side effects: see --execute.`,
        ]
      : []),
    ...(compared > 0 && cost.recorded > 0 && cost.candidate === 0 && tokens.candidate > 0
      ? ['The candidate has no costs: the agent has no prices for its model.']
      : []),
  ];
}

function describeStopped(decided: number, ended: number): string {
  const stopped = `${describeCount(decided - ended, 'run')} of ${decided} stopped at a call that was not recorded`;
  return ended === 0 ? `${stopped}, so there are no means.` : `${stopped}: the means are over the others.`;
}
