import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { checkScenario, type Findings, findDoubles } from './checks/check-scenario.ts';
import { Outside } from './outside.ts';
import { type CrashPoint, type Job, nameScenario, type Outcome, type Scenario } from './scenario.ts';

/**
 * Runs scenarios in processes that are killed for real.
 *
 * M1 A scenario has a process per kill, and one that continues to its end.
 * M2 The process that ends one scenario starts the next: a kill costs one process start.
 * M3 A scenario counts only if each of its kills fired, at its point, by SIGKILL. A scenario whose points did not
 *    occur starts again, up to `MOST_TRIES` times. A process that fails has lost its run.
 * M4 This process checks the files after the run has ended.
 */

export type Result = {
  scenario: Scenario;
  /** Whether every kill fired. */
  fired: boolean;
  findings: Findings;
  /** The points that its last process passed. */
  passed: readonly CrashPoint[];
  folder: string;
};

export type MatrixOptions = {
  /** The built worker. */
  worker: string;
  /** Each scenario gets a folder in here; it is kept if the scenario has faults, or if `keep` is set. */
  folder: string;
  lanes: number;
  keep?: boolean;
  onResult?(result: Result): void;
};

/** A point that only some runs reach, such as a second renewal of the lease, needs a few. */
const MOST_TRIES = 30;

/** Far longer than any process works, in ms: a process that hangs has lost its run. */
const LONGEST_PROCESS_MS = 60_000;

/** Makes short-lived processes cheaper. */
const FLAGS = ['--single-threaded-gc'];

type Attempt = { scenario: Scenario; folder: string; deaths: number; tries: number };

export class Matrix {
  readonly #options: MatrixOptions;
  #folders = 0;
  processes = 0;

  constructor(options: MatrixOptions) {
    this.#options = options;
  }

  /** Returns the results in the order of the scenarios. */
  async run(scenarios: readonly Scenario[]): Promise<Result[]> {
    const results = new Map<Scenario, Result>();
    const queue = [...scenarios];
    const checks: Promise<void>[] = [];
    const finish = (attempt: Attempt, end: End) => {
      checks.push(
        this.#check(attempt, end).then(result => {
          results.set(attempt.scenario, result);
          this.#options.onResult?.(result);
        }),
      );
    };
    const lane = async () => {
      let current: Attempt | undefined;
      for (;;) {
        const attempts = current === undefined ? [] : [current];
        if (current === undefined || killOf(current) === null) {
          const scenario = queue.shift();
          if (scenario !== undefined) attempts.push(this.#begin(scenario, 1));
        }
        if (attempts.length === 0) return;
        current = await this.#runProcess(attempts, finish);
      }
    };
    await Promise.all(Array.from({ length: this.#options.lanes }, lane));
    await Promise.all(checks);
    return scenarios.flatMap(scenario => results.get(scenario) ?? []);
  }

  #begin(scenario: Scenario, tries: number): Attempt {
    this.#folders += 1;
    const folder = join(this.#options.folder, String(this.#folders));
    mkdirSync(folder);
    return { scenario, folder, deaths: 0, tries };
  }

  /** Works on the attempts one after another until one is killed; returns the killed attempt, which must continue. */
  async #runProcess(
    attempts: readonly Attempt[],
    finish: (attempt: Attempt, end: End) => void,
  ): Promise<Attempt | undefined> {
    const { outcomes, signal, errors } = await this.#spawn(attempts.map(jobOf));
    for (const [place, attempt] of attempts.entries()) {
      const kill = killOf(attempt);
      const outcome = outcomes[place];
      if (outcome !== undefined) {
        if (kill === null) {
          finish(attempt, { fired: true, passed: outcome.passed, status: outcome.status });
          continue;
        }
        if (attempt.tries === MOST_TRIES) {
          finish(attempt, { fired: false, passed: outcome.passed, status: outcome.status });
          continue;
        }
        rmSync(attempt.folder, { recursive: true, force: true });
        return this.#begin(attempt.scenario, attempt.tries + 1);
      }
      if (signal === 'SIGKILL' && kill !== null && countKills(attempt, kill.point) > 0)
        return { ...attempt, deaths: attempt.deaths + 1 };
      finish(attempt, { fired: true, passed: [], status: `${signal ?? 'an error'}: ${errors}` });
      return attempts[place + 1];
    }
    return undefined;
  }

  async #spawn(jobs: readonly Job[]) {
    this.processes += 1;
    const { folder, worker } = this.#options;
    const child = spawn(process.execPath, [...FLAGS, worker, JSON.stringify(jobs)], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NODE_COMPILE_CACHE: join(folder, 'compiled') },
    });
    let output = '';
    let errors = '';
    child.stdout.on('data', chunk => {
      output += chunk;
    });
    child.stderr.on('data', chunk => {
      errors += chunk;
    });
    const timer = setTimeout(() => child.kill('SIGTERM'), LONGEST_PROCESS_MS);
    const [, signal] = await once(child, 'close');
    clearTimeout(timer);
    const outcomes: Outcome[] = output
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line));
    return { outcomes, signal: signal as NodeJS.Signals | null, errors };
  }

  async #check({ scenario, folder }: Attempt, { fired, passed, status }: End): Promise<Result> {
    const naive = scenario.engine === 'naive';
    const found: Findings = naive
      ? { doubles: findDoubles(new Outside(folder).acts), lost: [], doubted: 0 }
      : await checkScenario(folder);
    const lost =
      status === 'finished' ? found.lost : [`the last process ended with ${status}`, ...found.lost];
    const findings = { ...found, lost: fired ? lost : [] };
    const sound = fired && findings.lost.length === 0 && (naive || findings.doubles.length === 0);
    if (sound && this.#options.keep !== true) rmSync(folder, { recursive: true, force: true });
    return { scenario, fired, findings, passed, folder };
  }
}

type End = { fired: boolean; passed: readonly CrashPoint[]; status: string };

function killOf({ scenario, deaths }: Attempt) {
  return scenario.kills[deaths] ?? null;
}

function jobOf(attempt: Attempt): Job {
  const { engine, agent } = attempt.scenario;
  return { engine, agent, folder: attempt.folder, kill: killOf(attempt) };
}

/** The number of recorded kills at `point` beyond those of earlier processes of the scenario. */
function countKills({ scenario, folder, deaths }: Attempt, point: CrashPoint): number {
  const before = scenario.kills.slice(0, deaths).filter(kill => kill.point === point).length;
  const written = new Outside(folder).acknowledged.filter(
    acknowledged => acknowledged.type === 'killed' && acknowledged.point === point,
  );
  return written.length - before;
}

/** The faults of a result, one line each, prefixed with the scenario's name. */
export function describeFaults({ scenario, fired, findings, folder }: Result): string[] {
  const name = nameScenario(scenario);
  if (!fired) return [`${name}: its kill never fired (${folder})`];
  return [...findings.doubles, ...findings.lost].map(fault => `${name}: ${fault} (${folder})`);
}
