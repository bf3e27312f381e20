import { AGENTS } from './agents.ts';
import type { CrashAgent } from './crash-agent.ts';
import { planCensus, planNext, sample } from './plan.ts';
import { describeFaults, Matrix, type MatrixOptions, type Result } from './run-matrix.ts';
import { type CrashPoint, POINTS, type Scenario } from './scenario.ts';

export type ProofOptions = MatrixOptions & {
  /** By default all: some alone need not pass every point, or be in doubt. */
  agents?: readonly CrashAgent[];
  /** The number of single kills; all of them by default. */
  singles?: number;
  /** The total number of scenarios without the control: those beyond single kills are double kills. */
  scenarios: number;
  /** The number of single kills of the naive engine; all of them by default. */
  controls?: number;
  seed: number;
  /** Points that no run of the store under test passes. */
  unreached?: readonly CrashPoint[];
  /** Whether a kill that does not fire is no problem: the order of the points differs from run to run. */
  mayMiss?: boolean;
  onPhase?(phase: string, scenarios: number): void;
};

export type Tally = { scenarios: number; lost: number; doubles: number; doubted: number; notFired: number };

export type Proof = Tally & {
  processes: number;
  seconds: number;
  control: Pick<Tally, 'scenarios' | 'doubles'>;
  /** Why the proof fails; empty if it holds. */
  problems: string[];
};

/**
 * Kills runs at every point they pass, and again during recovery; then does the same to the naive
 * engine, which must fail.
 */
export async function prove(options: ProofOptions): Promise<Proof> {
  const startedAt = performance.now();
  const { agents = AGENTS, seed, singles, scenarios, controls, onPhase } = options;
  const isWhole = agents === AGENTS;
  const matrix = new Matrix(options);
  const run = async (phase: string, planned: readonly Scenario[]) => {
    onPhase?.(phase, planned.length);
    return await matrix.run(planned);
  };
  const census = await run('no kill', planCensus('chart', agents));
  const allSingles = planNext(census);
  const once = await run('one kill', sample(allSingles, singles ?? allSingles.length, seed));
  const fired = once.filter(result => result.fired);
  const tried = fired.flatMap(({ scenario }) => scenario.kills.map(kill => kill.point));
  const doubles = Math.max(1, scenarios - once.length);
  const twice = await run('two kills', sample(planNext(fired), doubles, seed, tried));
  const naiveCensus = await run('naive, no kill', planCensus('naive', agents));
  const naive = planNext(naiveCensus);
  const control = await run('naive, one kill', sample(naive, controls ?? naive.length, seed));
  const killed = [...once, ...twice];
  const controlTally = tallyOf(control);
  return {
    ...tallyOf(killed),
    processes: matrix.processes,
    seconds: (performance.now() - startedAt) / 1000,
    control: { scenarios: controlTally.scenarios, doubles: controlTally.doubles },
    problems: [
      ...[...census, ...killed]
        .filter(result => !isMissed(result) || options.mayMiss !== true)
        .flatMap(describeFaults),
      ...naiveCensus.flatMap(describeFaults),
      ...control.filter(({ findings }) => findings.lost.length > 0).flatMap(describeFaults),
      ...(isWhole ? findUntried(killed, options.unreached) : []).map(
        point => `${point}: no process was killed there`,
      ),
      ...(controlTally.doubles > 0 ? [] : ['the naive engine did nothing twice: this matrix proves nothing']),
      ...(!isWhole || killed.some(({ findings }) => findings.doubted > 0)
        ? []
        : ['no call was ever in doubt: this matrix does not hit calls while they run']),
    ],
  };
}

/** Whether nothing is wrong but that a kill did not fire. */
function isMissed({ fired, findings }: Result): boolean {
  return !fired && findings.lost.length === 0 && findings.doubles.length === 0;
}

export function tallyOf(results: readonly Result[]): Tally {
  const fired = results.filter(result => result.fired);
  return {
    scenarios: fired.length,
    lost: fired.filter(({ findings }) => findings.lost.length > 0).length,
    doubles: fired.filter(({ findings }) => findings.doubles.length > 0).length,
    doubted: fired.filter(({ findings }) => findings.doubted > 0).length,
    notFired: results.length - fired.length,
  };
}

function findUntried(results: readonly Result[], unreached: readonly CrashPoint[] = []): CrashPoint[] {
  const tried = new Set(
    results.flatMap(({ fired, scenario }) => (fired ? scenario.kills.map(kill => kill.point) : [])),
  );
  return POINTS.filter(point => !tried.has(point) && !unreached.includes(point));
}
