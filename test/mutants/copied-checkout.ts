import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

/** What became of some test files. `file`: that of the first test that failed, if it was a test. */
export type Outcome =
  | { type: 'passed' }
  | { type: 'failed'; file: string | null; test: string }
  | { type: 'timed-out' };

/** How long a test file took, in ms, and whether it passed. */
export type Timing = { file: string; ms: number; passed: boolean };

type Report = {
  testResults: {
    name: string;
    status: 'passed' | 'failed';
    startTime: number;
    endTime: number;
    assertionResults: { status: string; fullName: string }[];
  }[];
};

type Ended = Report & { ended: Outcome['type'] };

/** A test that hangs because of a mutant fails after this time. */
const TEST_TIMEOUT_MS = 20_000;

/** A copy of the checkout, with changes that are not committed yet, in which files are mutated and tests run. */
export class CopiedCheckout {
  readonly #folder = mkdtempSync(join(tmpdir(), 'agentchart-mutants-'));
  readonly #root = join(this.#folder, 'checkout');
  readonly #temporary = join(this.#folder, 'tmp');
  #running: ChildProcess | undefined;

  constructor() {
    const files = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], { encoding: 'utf8' });
    for (const file of files.split('\0').filter(Boolean)) cpSync(file, join(this.#root, file));
    // Not the folder itself: what Node and Vite cache there belongs to this copy.
    mkdirSync(join(this.#root, 'node_modules'));
    for (const name of readdirSync('node_modules'))
      if (name === '.bin' || !name.startsWith('.'))
        symlinkSync(join(process.cwd(), 'node_modules', name), join(this.#root, 'node_modules', name));
    mkdirSync(this.#temporary);
    // Servers in tests may have another user, as PostgreSQL does.
    chmodSync(this.#folder, 0o755);
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      process.once(signal, () => {
        this.remove();
        process.exit(1);
      });
  }

  /** Runs the tests with `source` in place of the file, until one fails or `limitMs` have passed. */
  async runMutated(
    file: string,
    source: string,
    tests: readonly string[],
    limitMs: number,
  ): Promise<Outcome> {
    const original = readFileSync(join(this.#root, file), 'utf8');
    writeFileSync(join(this.#root, file), source);
    try {
      const { ended, testResults } = await this.#run(['--bail', '1', ...tests], limitMs);
      if (ended !== 'failed') return { type: ended };
      const failed = testResults.flatMap(({ name, status, assertionResults }) => {
        const test = assertionResults.find(assertion => assertion.status === 'failed')?.fullName;
        return status === 'failed' ? [{ name, test }] : [];
      });
      // Files that did not begin because another failed are reported as failed too, without a test.
      const first = failed.find(({ test }) => test !== undefined) ?? failed[0];
      if (first === undefined) return { type: 'failed', file: null, test: 'an error outside of the tests' };
      return { type: 'failed', file: relative(this.#root, first.name), test: first.test ?? 'does not load' };
    } finally {
      writeFileSync(join(this.#root, file), original);
    }
  }

  /** Runs the tests without a change. */
  async time(tests: readonly string[]): Promise<Timing[]> {
    const { testResults } = await this.#run(tests, Number.POSITIVE_INFINITY);
    return testResults.map(({ name, startTime, endTime, status }) => ({
      file: relative(this.#root, name),
      ms: endTime - startTime,
      passed: status === 'passed',
    }));
  }

  /** Ends tests that still run, and removes the copy. */
  remove(): void {
    this.#endRunning();
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  get #vitest(): string {
    return join(this.#root, 'node_modules/vitest/vitest.mjs');
  }

  #endRunning(): void {
    if (this.#running?.pid !== undefined) process.kill(-this.#running.pid, 'SIGKILL');
    this.#running = undefined;
  }

  async #run(args: readonly string[], limitMs: number): Promise<Ended> {
    const output = join(this.#folder, 'report.json');
    rmSync(output, { force: true });
    const timeouts = ['--testTimeout', String(TEST_TIMEOUT_MS), '--hookTimeout', String(TEST_TIMEOUT_MS)];
    const reporters = ['--reporter', 'json', '--outputFile', output];
    const child = spawn(process.execPath, [this.#vitest, 'run', ...timeouts, ...reporters, ...args], {
      cwd: this.#root,
      env: { ...process.env, TMPDIR: this.#temporary },
      stdio: 'ignore',
      detached: true,
    });
    this.#running = child;
    const { promise, resolve, reject } = Promise.withResolvers<Outcome['type']>();
    child.on('error', reject);
    child.on('exit', code => resolve(code === 0 ? 'passed' : 'failed'));
    const timer = Number.isFinite(limitMs) ? setTimeout(() => resolve('timed-out'), limitMs) : undefined;
    const ended = await promise;
    clearTimeout(timer);
    if (ended !== 'timed-out') this.#running = undefined;
    this.#endRunning();
    // A mutant may end the process of the tests before its report is written.
    const report: Report = existsSync(output)
      ? JSON.parse(readFileSync(output, 'utf8'))
      : { testResults: [] };
    return { ...report, ended };
  }
}
