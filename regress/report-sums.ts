import type { SideEffect } from '../protocol/tool.ts';
import type { FoundDifference, Paired, PlayedNote, Sameness } from './played-run.ts';

/** How many samples of a run show a difference, of those that could be compared. */
type Shown = { shown: number; of: number };

/**
 * A difference of a recorded run. Samples that differ in the same way have one: by its kind, tool and field, and for an end
 * by what it is; inputs and turns may differ. `candidate` is the first sample that shows it, which `turn` and `detail`
 * are about.
 */
export type Difference = FoundDifference & {
  runId: string;
  candidate: string;
  samples: Shown;
  /** The baseline's samples of the same run. */
  baseline?: Shown;
  /** The baseline shows it as often. */
  noise?: true;
};

/** The 95 % interval of a mean difference, by Student's t distribution. */
type Interval = { low: number; high: number };

/**
 * Means per run, over the `runs` of which a sample ended by itself: a stopped one has no whole figures. `difference`:
 * candidate − recorded. `interval`: `null` for less than two runs.
 */
export type Figure = Paired & { runs: number; difference: number; interval: Interval | null };

type Counts = { runs: number } & Record<Sameness, number>;

/** What became of a recorded run: how its worst sample compares. `samples` could be compared. */
export type PlayedRun = {
  runId: string;
  sameness: Sameness;
  /** The first sample that compares like this. */
  candidate: string;
  samples: number;
  /** Of an undecidable run. */
  why?: string;
};

/** In how many runs there are differences of each kind at calls of a tool. */
export type ToolChange = {
  tool: string;
  sideEffect?: SideEffect;
  runs: Partial<Record<FoundDifference['kind'], number>>;
};

type SideReport = Counts & {
  /** How many samples could be compared. */
  compared: number;
  /** Totals over these runs, a mean over samples for each run; also of samples that were stopped. */
  cost: Paired;
  turns: Paired;
  tokens: Paired;
  /** As pairs, by which to judge: `score` only if runs have one. */
  paired: { cost: Figure; turns: Figure; tokens: Figure; score?: Figure };
  differences: Difference[];
  tools: ToolChange[];
};

/**
 * How an agent compares with recorded runs. A run counts once, by its worst sample; it is undecidable if none could be
 * compared. Runs and differences are in the order in which their first samples were added. Costs are in the unit of the prices.
 */
export type ReportSums = SideReport & {
  /** All runs were played; `false` after an interruption. */
  complete: boolean;
  /** How often each run was played. */
  samples: number;
  played: PlayedRun[];
  /** Why runs are undecidable, most frequent first. `runIds`: the first 20. */
  reasons: { why: string; count: number; runIds: string[] }[];
  /** What another version of the agent did with the same runs. */
  baseline?: SideReport;
};

const WORSE: readonly Sameness[] = ['undecidable', 'same', 'sameEffects', 'otherEffects'];
const MOST_RUN_IDS = 20;

/**
 * Builds a report from the notes of played runs, of which it keeps sums and differences. `order`: the ids of the recorded
 * runs in the order of the report; by default that in which they are added.
 */
export class ReportAdder {
  readonly #candidate: Side;
  readonly #baseline: Side;

  constructor(order: readonly string[] = []) {
    this.#candidate = new Side(order);
    this.#baseline = new Side(order);
  }

  /** `candidate`: the id of the played run, also of a baseline. Each is added once. */
  add(candidate: string, note: PlayedNote): void {
    (note.side === 'baseline' ? this.#baseline : this.#candidate).add(candidate, note);
  }

  /** What is known so far. */
  report({ complete }: { complete: boolean }): ReportSums {
    const [candidate, baseline] = [this.#candidate, this.#baseline];
    const side = candidate.report(baseline);
    return {
      complete,
      samples: Math.max(candidate.samples, baseline.samples),
      ...side,
      played: candidate.listRuns(),
      reasons: candidate.listReasons(),
      ...(baseline.samples > 0 && { baseline: baseline.report() }),
    };
  }
}

const FIGURES = ['cost', 'turns', 'tokens', 'score'] as const;
type FigureName = (typeof FIGURES)[number];

/** Sums over the samples of a run. */
type Sums = Paired & { samples: number };

type Tally = {
  sameness: Sameness;
  /** The first sample that compares like this. */
  worst: string;
  why?: string;
  compared: number;
  /** Over all samples that were compared, and over those that ended by themselves. */
  all: Record<FigureName, Sums>;
  ended: Record<FigureName, Sums>;
  differences: Map<string, FoundDifference & { candidate: string; shown: number }>;
};

/** The candidate, or the baseline. */
class Side {
  samples = 0;
  readonly #runs = new Map<string, Tally>();
  readonly #places: ReadonlyMap<string, number>;

  constructor(order: readonly string[]) {
    this.#places = new Map(order.map((runId, place) => [runId, place]));
  }

  #sorted(): [string, Tally][] {
    const placeOf = ([runId]: readonly [string, Tally]) => this.#places.get(runId) ?? this.#places.size;
    return [...this.#runs].toSorted((one, other) => placeOf(one) - placeOf(other));
  }

  add(candidate: string, note: PlayedNote): void {
    const { of, sample, sameness, why } = note;
    this.samples = Math.max(this.samples, sample);
    const tally = this.#runs.get(of) ?? beginTally(candidate, note);
    this.#runs.set(of, tally);
    if (sameness === 'undecidable') {
      tally.why ??= why ?? 'unknown';
      return;
    }
    if (WORSE.indexOf(sameness) > WORSE.indexOf(tally.sameness)) {
      tally.sameness = sameness;
      tally.worst = candidate;
    }
    tally.compared += 1;
    for (const name of FIGURES) {
      addPair(tally.all[name], note[name]);
      if (note.stopped !== true) addPair(tally.ended[name], note[name]);
    }
    for (const [key, difference] of nameDifferences(note.differences)) {
      const known = tally.differences.get(key) ?? { ...difference, candidate, shown: 0 };
      tally.differences.set(key, { ...known, shown: known.shown + 1 });
    }
  }

  report(baseline?: Side): SideReport {
    const tallies = [...this.#runs.values()];
    const counts = { runs: tallies.length, same: 0, sameEffects: 0, otherEffects: 0, undecidable: 0 };
    for (const { sameness } of tallies) counts[sameness] += 1;
    const total = (name: FigureName) => sumPairs(tallies.flatMap(({ all }) => meanOf(all[name])));
    const paired = (name: FigureName) => figureOf(tallies.flatMap(({ ended }) => meanOf(ended[name])));
    const score = paired('score');
    const differences = this.#sorted().flatMap(([runId, tally]) =>
      listDifferences(runId, tally, baseline?.find(runId)),
    );
    return {
      ...counts,
      compared: tallies.reduce((sum, { compared }) => sum + compared, 0),
      cost: total('cost'),
      turns: total('turns'),
      tokens: total('tokens'),
      paired: {
        cost: paired('cost'),
        turns: paired('turns'),
        tokens: paired('tokens'),
        ...(score.runs > 0 && { score }),
      },
      differences,
      tools: listTools(differences),
    };
  }

  find(runId: string): Tally | undefined {
    return this.#runs.get(runId);
  }

  listRuns(): PlayedRun[] {
    return this.#sorted().map(([runId, { sameness, worst: candidate, compared: samples, why }]) => {
      const isUndecidable = sameness === 'undecidable' && why !== undefined;
      return { runId, sameness, candidate, samples, ...(isUndecidable && { why }) };
    });
  }

  listReasons(): ReportSums['reasons'] {
    const undecidable = this.listRuns().filter(({ sameness }) => sameness === 'undecidable');
    return [...Map.groupBy(undecidable, ({ why = 'unknown' }) => why)]
      .map(([why, runs]) => ({
        why,
        count: runs.length,
        runIds: runs.slice(0, MOST_RUN_IDS).map(({ runId }) => runId),
      }))
      .toSorted((one, other) => other.count - one.count);
  }
}

function beginTally(candidate: string, { sameness }: PlayedNote): Tally {
  const sums = () => ({ recorded: 0, candidate: 0, samples: 0 });
  const figures = () => ({ cost: sums(), turns: sums(), tokens: sums(), score: sums() });
  return {
    sameness,
    worst: candidate,
    compared: 0,
    all: figures(),
    ended: figures(),
    differences: new Map(),
  };
}

function addPair(sums: Sums, pair: Paired | undefined): void {
  if (pair === undefined) return;
  sums.recorded += pair.recorded;
  sums.candidate += pair.candidate;
  sums.samples += 1;
}

function meanOf({ recorded, candidate, samples }: Sums): Paired[] {
  return samples === 0 ? [] : [{ recorded: recorded / samples, candidate: candidate / samples }];
}

function sumPairs(pairs: readonly Paired[]): Paired {
  const sum = { recorded: 0, candidate: 0 };
  for (const { recorded, candidate } of pairs) {
    sum.recorded += recorded;
    sum.candidate += candidate;
  }
  return sum;
}

/** The differences of a run to one candidate by name: the same kind of change has the same name in each, its repetitions others. */
export function nameDifferences<Found extends FoundDifference>(
  differences: readonly Found[],
): [name: string, difference: Found][] {
  const seen = new Map<string, number>();
  return differences.map(difference => {
    const { kind, tool, field, detail } = difference;
    const identity = JSON.stringify([kind, tool, field, kind === 'end' && detail]);
    const place = seen.get(identity) ?? 0;
    seen.set(identity, place + 1);
    return [`${place} ${identity}`, difference];
  });
}

function listDifferences(
  runId: string,
  { differences, compared }: Tally,
  baseline: Tally | undefined,
): Difference[] {
  return [...differences].map(([key, { candidate, shown, ...found }]) => {
    const one = { ...found, runId, candidate, samples: { shown, of: compared } };
    if (baseline === undefined || baseline.compared === 0) return one;
    const other = { shown: baseline.differences.get(key)?.shown ?? 0, of: baseline.compared };
    const isNoise = other.shown / other.of >= shown / compared;
    return { ...one, baseline: other, ...(isNoise && { noise: true as const }) };
  });
}

function listTools(differences: readonly Difference[]): ToolChange[] {
  const tools = new Map<string, ToolChange & { seen: Set<string> }>();
  for (const { kind, tool, sideEffect, runId } of differences) {
    if (tool === undefined) continue;
    const change = tools.get(tool) ?? {
      tool,
      ...(sideEffect && { sideEffect }),
      runs: {},
      seen: new Set<string>(),
    };
    tools.set(tool, change);
    const key = `${kind} ${runId}`;
    if (change.seen.has(key)) continue;
    change.seen.add(key);
    change.runs[kind] = (change.runs[kind] ?? 0) + 1;
  }
  return [...tools.values()].map(({ seen, ...change }) => change);
}

/** The figure of runs, of which each is one pair. */
export function figureOf(pairs: readonly Paired[]): Figure {
  const runs = pairs.length;
  if (runs === 0) return { recorded: 0, candidate: 0, runs, difference: 0, interval: null };
  const sum = sumPairs(pairs);
  const [recorded, candidate] = [sum.recorded / runs, sum.candidate / runs];
  const difference = candidate - recorded;
  if (runs === 1) return { recorded, candidate, runs, difference, interval: null };
  const squares = pairs.reduce(
    (total, pair) => total + (pair.candidate - pair.recorded - difference) ** 2,
    0,
  );
  const half = quantileOfT(runs - 1) * Math.sqrt(squares / (runs - 1) / runs);
  return {
    recorded,
    candidate,
    runs,
    difference,
    interval: { low: difference - half, high: difference + half },
  };
}

/** The 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom. */
const T_QUANTILES = [
  12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216, 2.22814, 2.20099, 2.17881,
  2.16037, 2.14479, 2.13145, 2.11991, 2.10982, 2.10092, 2.09302, 2.08596, 2.07961, 2.07387, 2.06866, 2.0639,
  2.05954, 2.05553, 2.05183, 2.04841, 2.04523, 2.04227,
];

/** From 31 degrees on, the first terms of its expansion around the normal distribution: right to four digits. */
function quantileOfT(degrees: number): number {
  const z = 1.959964;
  return (
    T_QUANTILES[degrees - 1] ??
    z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2)
  );
}
