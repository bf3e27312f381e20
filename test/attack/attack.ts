import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { omitUndefined } from '../../protocol/json.ts';
import type { AttackCase, CaseKind } from './cases/attack-case.ts';
import { CASE_KINDS } from './cases/cases.ts';
import { countBy, FIGURES, type Figure, type Finding } from './cases/finding.ts';
import { type CaseResult, runCase } from './cases/run-case.ts';
import { runCarelessChaos } from './chaos/careless-chaos.ts';
import { Chaos, type ChaosOptions, type ChaosResult } from './chaos/chaos.ts';

export const KINDS = [
  'mcp',
  'providers',
  'gateway',
  'journals',
  'readers',
  'redactions',
  'forks',
  'chaos',
] as const;
export type Kind = (typeof KINDS)[number];

export type AttackOptions = {
  kinds: readonly Kind[];
  seed: number;
  /** The short form: only the quick cases. */
  isShort: boolean;
  /** Selects quick cases of a kind in the short form; all of them by default. The control cases always run. */
  choose?(cases: readonly AttackCase[]): readonly AttackCase[];
  /** Run only the control cases: careless stand-ins. */
  onlyControl?: boolean;
  /** The time limit of a case, in ms. */
  longestMs: number;
  lanes: number;
  /** Creates a PostgreSQL database for each round of chaos. Without it, each round has a SQLite file. */
  makeDatabase?(): Promise<string>;
  /** The time limit overall, in ms: rounds of chaos fill the time that the cases leave. */
  totalMs: number;
  onResult?(result: CaseResult, isControl: boolean): void;
};

export type Report = {
  figures: Record<Figure, number>;
  cases: number;
  chaos: Record<(typeof CHAOS_COUNTS)[number], number>;
  /** The names of the attacks that this machine does not support. */
  skipped: string[];
  /** The longest that any process blocked its event loop, in ms of processor time. */
  busyMs: number;
  seconds: number;
  /** The number of careless stand-ins, and the number of those that the attacks caught. */
  control: { cases: number; caught: number };
  /** The findings, one line each. */
  problems: string[];
};

const CHAOS_COUNTS = ['rounds', 'runs', 'kills', 'stops', 'acts', 'acknowledged'] as const;

/** Rounds of chaos in both forms: the length of the chaos phase, and of a round with recovery, in ms. */
const SHORT_ROUND = { chaosMs: 6_000, servers: 2, drivers: 2, mostRuns: 6 };
const LONG_ROUND = { chaosMs: 30_000, servers: 3, drivers: 3, mostRuns: 30 };
const RECOVERY_MS = 30_000;

type Planned = { kind: CaseKind; attack: AttackCase };

/** Runs the attacks of the given kinds. Each kind's careless stand-in must be caught. */
export async function runAttacks(options: AttackOptions): Promise<Report> {
  const startedAt = performance.now();
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-attack-'));
  const results: CaseResult[] = [];
  const controls: CaseResult[] = [];
  const rounds: ChaosResult[] = [];
  const untried: string[] = [];
  try {
    const queue = await planCases(options);
    const round = options.kinds.includes('chaos') ? LONG_ROUND.chaosMs + RECOVERY_MS : 0;
    const isInTime = () => options.isShort || performance.now() - startedAt < options.totalMs - round;
    const lane = async () => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        if (!isInTime()) {
          untried.push(`${next.kind}/${next.attack.name}: no time was left, give it more --minutes`);
          continue;
        }
        const { kind, attack } = next;
        const isControl = attack.control === true;
        const result = await runCase(kind, attack, { ...options, folder });
        (isControl ? controls : results).push(result);
        options.onResult?.(result, isControl);
      }
    };
    await Promise.all(Array.from({ length: options.lanes }, lane));
    if (options.kinds.includes('chaos')) {
      controls.push(await runChaosControl(folder, options));
      const left = () => options.totalMs - (performance.now() - startedAt);
      const shape = options.isShort ? SHORT_ROUND : LONG_ROUND;
      while (options.onlyControl !== true && mayBegin(rounds.length, shape, left(), options.isShort)) {
        const place = join(folder, `chaos-${rounds.length}`);
        const seed = options.seed * 100 + rounds.length;
        const database = await options.makeDatabase?.();
        const round = await new Chaos({
          ...shape,
          folder: place,
          seed,
          ...omitUndefined({ database }),
        }).run();
        rounds.push(round);
        const result = { name: `chaos/round ${rounds.length} (seed ${seed})`, ...round };
        results.push(result);
        options.onResult?.(result, false);
        rmSync(place, { recursive: true, force: true, maxRetries: 5 });
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  return describe({ results, controls, rounds, untried }, (performance.now() - startedAt) / 1_000);
}

/** Whether a round may start: the first always, another only if there is time to recover from it. */
function mayBegin(
  rounds: number,
  { chaosMs }: Pick<ChaosOptions, 'chaosMs'>,
  leftMs: number,
  isShort: boolean,
): boolean {
  return rounds === 0 || (!isShort && leftMs > chaosMs + RECOVERY_MS);
}

/** Caught only if the careless loop loses writes, doubles calls and is stranded. */
async function runChaosControl(folder: string, { onResult }: AttackOptions): Promise<CaseResult> {
  const found = await runCarelessChaos(join(folder, 'careless'));
  const { lost, stranded, 'silent doubles': doubles } = countBy(found);
  const isCaught = lost > 0 && stranded > 0 && doubles > 0;
  const result = { name: 'chaos/a careless loop', findings: isCaught ? found : [], busyMs: 0 };
  onResult?.(result, true);
  return result;
}

async function planCases({ kinds, isShort, choose, onlyControl }: AttackOptions): Promise<Planned[]> {
  const planned: Planned[] = [];
  for (const kind of kinds) {
    if (kind === 'chaos') continue;
    const cases = await CASE_KINDS[kind]();
    const quick = cases.filter(attack => attack.short === true && attack.control !== true);
    const left = new Set(choose === undefined ? [] : quick.filter(attack => !choose(quick).includes(attack)));
    for (const attack of cases.filter(each => !left.has(each))) {
      const isWanted = onlyControl === true ? attack.control === true : !isShort || attack.short === true;
      if (isWanted) planned.push({ kind, attack });
    }
  }
  return planned;
}

type Outcome = {
  results: readonly CaseResult[];
  controls: readonly CaseResult[];
  rounds: readonly ChaosResult[];
  untried: readonly string[];
};

function describe({ results, controls, rounds, untried }: Outcome, seconds: number): Report {
  const findings: Finding[] = results.flatMap(result => result.findings);
  const missed = controls.filter(control => control.findings.length === 0);
  return {
    figures: countBy(findings),
    cases: results.length,
    chaos: sumUp(rounds),
    skipped: [...new Set(rounds.flatMap(({ skipped }) => skipped))],
    busyMs: Math.max(0, ...results.map(({ busyMs }) => busyMs)),
    seconds,
    control: { cases: controls.length, caught: controls.length - missed.length },
    problems: [
      ...untried,
      ...results.flatMap(({ name, findings: found }) =>
        found.map(({ figure, what }) => `${figure}: ${name}: ${what}`),
      ),
      ...missed.map(({ name }) => `${name} was not caught: this attack proves nothing`),
    ],
  };
}

function sumUp(rounds: readonly ChaosResult[]): Report['chaos'] {
  const sums = { rounds: rounds.length, runs: 0, kills: 0, stops: 0, acts: 0, acknowledged: 0 };
  for (const round of rounds)
    for (const count of ['runs', 'kills', 'stops', 'acts', 'acknowledged'] as const)
      sums[count] += round[count];
  return sums;
}

export function hasProblems({ figures, problems }: Report): boolean {
  return problems.length > 0 || FIGURES.some(figure => figures[figure] > 0);
}
