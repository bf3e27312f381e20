import { invalidInput } from '../protocol/error.ts';
import { asSentence, describeUnknown } from '../protocol/options/refuse-unknown.ts';
import { describeCount } from './describe-report.ts';
import type { RegressReport } from './report.ts';
import type { Difference, Figure } from './report-sums.ts';

const WORDS = ['new-calls', 'new-once-calls', 'missing-calls', 'other-effects', 'undecidable'] as const;
const FIGURES = ['cost', 'turns', 'tokens'] as const;
const KNOWN = [...WORDS, ...FIGURES.map(name => `${name}>N%`)];

/** What must not be in a report. `over`: the figure may grow by this share of the recorded one, 0.1 for 10 %. */
export type FailOn = { type: (typeof WORDS)[number] } | { type: (typeof FIGURES)[number]; over: number };

/**
 * Reads conditions from `new-once-calls,missing-calls,other-effects,cost>10%`. Throws `input-invalid` with the known ones.
 */
export function readFailOn(text: string): FailOn[] {
  return text.split(',').map(part => {
    const given = part.trim();
    const word = WORDS.find(one => one === given);
    if (word !== undefined) return { type: word };
    const [, name, percent = ''] = /^([a-z]+) ?> ?(\d{1,6}(?:\.\d{1,6})?) ?%$/.exec(given) ?? [];
    const figure = FIGURES.find(one => one === name);
    if (figure !== undefined) return { type: figure, over: Number(percent) / 100 };
    throw invalidInput(asSentence(`--fail-on: ${describeUnknown('condition', given, KNOWN)}`));
  });
}

/**
 * Why a report fails, each as a sentence; foreign text in it is as it came. Calls count by tool and sample, and fail only if
 * the baseline has fewer of them; so do other effects, by run. A call of which only the input differs is a new one here: it
 * is another side effect. A figure fails by the means of paired runs, unless the baseline's grew as much.
 */
export function failuresOf(report: RegressReport, conditions: readonly FailOn[]): string[] {
  return conditions.flatMap(condition => {
    switch (condition.type) {
      case 'new-calls':
        return findCalls(report, 'new', isNew);
      case 'new-once-calls':
        return findCalls(report, 'new', one => isNew(one) && one.sideEffect === 'once');
      case 'missing-calls':
        return findCalls(report, 'missing', ({ kind }) => kind === 'missing-call');
      case 'other-effects':
        return findOtherEffects(report);
      case 'undecidable':
        return findUndecidable(report);
      default:
        return findGrowth(report, condition);
    }
  });
}

function isNew({ kind }: Difference): boolean {
  return kind === 'new-call' || kind === 'input';
}

function findCalls(
  report: RegressReport,
  what: string,
  holds: (difference: Difference) => boolean,
): string[] {
  const { baseline, compared } = report;
  const countIn = (differences: readonly Difference[]) =>
    differences.reduce((sum, { samples }) => sum + samples.shown, 0);
  const found = Map.groupBy(report.differences.filter(holds), ({ tool = '' }) => tool);
  const noise = Map.groupBy(baseline?.differences.filter(holds) ?? [], ({ tool = '' }) => tool);
  return [...found].flatMap(([tool, differences]) => {
    const [count, others] = [countIn(differences), countIn(noise.get(tool) ?? [])];
    if (baseline !== undefined && others / baseline.compared >= count / compared) return [];
    const [first] = differences.filter(one => one.noise !== true);
    const { runId, detail } = first ?? differences[0] ?? { runId: '', detail: '' };
    const beside = baseline === undefined ? '' : `; the baseline has ${others} in ${baseline.compared}`;
    return [
      `${describeCount(count, `${what} call`)} of ${tool} in ${describeCount(compared, 'played run')}${beside}. The first, of run ${runId}: ${detail}.`,
    ];
  });
}

function findOtherEffects({ otherEffects, runs, undecidable, baseline }: RegressReport): string[] {
  const shareOf = (one: Pick<RegressReport, 'otherEffects' | 'runs' | 'undecidable'>) =>
    one.otherEffects / Math.max(1, one.runs - one.undecidable);
  if (otherEffects === 0) return [];
  if (baseline !== undefined && shareOf(baseline) >= shareOf({ otherEffects, runs, undecidable })) return [];
  const beside =
    baseline === undefined
      ? ''
      : `; in the baseline ${baseline.otherEffects} of ${baseline.runs - baseline.undecidable}`;
  const have = otherEffects === 1 ? 'has' : 'have';
  return [`${otherEffects} of ${describeCount(runs - undecidable, 'run')} ${have} other effects${beside}.`];
}

function findUndecidable({ undecidable, runs, reasons: [first] }: RegressReport): string[] {
  if (undecidable === 0) return [];
  return [`${undecidable} of ${describeCount(runs, 'run')} could not be played: ${first?.why ?? 'unknown'}.`];
}

function findGrowth(
  { paired, baseline }: RegressReport,
  { type, over }: Extract<FailOn, { over: number }>,
): string[] {
  const figure = paired[type];
  const growth = growthOf(figure);
  const others = baseline === undefined ? 0 : growthOf(baseline.paired[type]);
  if (growth <= over + ROUNDING || others >= growth) return [];
  const beside = baseline === undefined ? '' : `; the baseline's by ${percent(others)}`;
  const by = figure.recorded === 0 ? `from 0 to ${figure.candidate}` : `by ${percent(growth)}`;
  return [
    `${TITLES[type]} a run grew ${by}, over ${describeCount(figure.runs, 'run')}${beside}; at most ${percent(over)} was allowed.`,
  ];
}

/** Far less than any share that a person writes. */
const ROUNDING = 1e-9;

const TITLES = { cost: 'The cost of', turns: 'The turns of', tokens: 'The tokens of' };

function growthOf({ recorded, difference }: Figure): number {
  return difference === 0 ? 0 : difference / recorded;
}

function percent(share: number): string {
  return Number.isFinite(share) ? `${Number((share * 100).toFixed(1))} %` : 'any share';
}
