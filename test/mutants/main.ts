import { parseArgs } from 'node:util';
import { messageOf } from '../../protocol/error.ts';
import { CopiedCheckout, type Outcome } from './copied-checkout.ts';
import { EQUIVALENTS } from './equivalents.ts';
import { ImportGraph, isBeside, mirrors } from './find-tests.ts';
import type { Mutant } from './mutate.ts';
import { chooseMutants, isEquivalent, listMutants, roomOf } from './rooms.ts';

const HELP = `Changes one place of the engine, the stores, the chart or the access rules at a time, and runs the tests:
a mutant that no test catches survives.

  nice npm run mutants -- [--count N] [--seed N] [--json]
  nice npm run mutants -- --only N,N… [--seed N]  some of them again, by their numbers
  nice npm run mutants -- --only FILE             all mutants of a file

  --count N    how many mutants (default 100)
  --seed N     selects them (default 1)
  --near       only the tests of the folder that mirrors the file's
  --json       print a line of JSON at the end

A copy of the checkout is changed, never the checkout itself. First the tests of the folder that mirrors the file's
run, then those beside it, and all others that load the file, until one fails: of each, the quick ones first. Exits 1 if fewer than 95 % are caught.`;

const { values: options } = parseArgs({
  options: {
    count: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    near: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

/** The least share of mutants that tests catch. */
const LEAST_CAUGHT = 0.95;

/** A test file that takes less without a change is quick. */
const QUICK_MS = 1_000;

/** What loads these starts programs or a browser, and is left out: it takes long. */
const STARTERS = [
  'test/support/built.ts',
  'test/support/visualizer/browser.ts',
  'test/crash/build-worker.ts',
];

/** A run of tests takes at most this long, and this many times what its files take without a change. */
const LIMIT = { ms: 30_000, times: 3 };

type Numbered = { number: number; mutant: Mutant };

function readCount(name: 'count' | 'seed'): number {
  const value = Number(options[name]);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name}: expected a whole number above 0, and got "${options[name]}".`);
}

/** The mutants that the options name. */
function selectMutants(): Numbered[] {
  const { only } = options;
  const numbers = only?.split(',').map(Number);
  const isFile = only !== undefined && (numbers ?? []).includes(Number.NaN);
  if (isFile) roomOf(only);
  const mutants = isFile
    ? listMutants(only).filter(mutant => !isEquivalent(mutant, EQUIVALENTS))
    : chooseMutants(readCount('count'), readCount('seed'), EQUIVALENTS);
  const numbered = mutants.map((mutant, index) => ({ number: index + 1, mutant }));
  const selected = isFile ? numbered : numbered.filter(({ number }) => numbers?.includes(number) ?? true);
  if (selected.length > 0) return selected;
  throw new Error(
    `--only: expected a file with code, or a number up to ${numbered.length}, and got "${only}".`,
  );
}

/** Runs tests against mutants. */
class Trials {
  readonly #checkout: CopiedCheckout;
  readonly #imports = new ImportGraph();
  readonly #leftOut: Set<string>;
  readonly #ms = new Map<string, number>();

  constructor(checkout: CopiedCheckout) {
    this.#checkout = checkout;
    this.#leftOut = new Set(STARTERS.flatMap(file => this.#imports.whatLoads(file)));
  }

  /** Tries a mutant on the nearest tests, then on more until one fails. */
  async try(mutant: Mutant): Promise<Outcome> {
    for (const tests of this.#stagesOf(mutant.file)) {
      const sound = await this.#soundOf(tests);
      const { quick = [], long = [] } = Object.groupBy(sound, test =>
        this.#msOf(test) < QUICK_MS ? 'quick' : 'long',
      );
      for (const part of [quick, long].filter(({ length }) => length > 0)) {
        const outcome = await this.#run(mutant, part);
        if (outcome.type !== 'passed') return outcome;
      }
    }
    return { type: 'passed' };
  }

  /** A failure counts if the file fails alone too: on a busy machine, a test may run out of time. */
  async #run(mutant: Mutant, tests: readonly string[]): Promise<Outcome> {
    const usual = tests.reduce((sum, test) => sum + this.#msOf(test), 0);
    const limitMs = LIMIT.ms + LIMIT.times * usual;
    const outcome = await this.#checkout.runMutated(mutant.file, mutant.source, tests, limitMs);
    if (outcome.type !== 'failed' || outcome.file === null || tests.length === 1) return outcome;
    const again = await this.#run(mutant, [outcome.file]);
    if (again.type !== 'passed') return again;
    const others = tests.filter(test => test !== outcome.file);
    return await this.#run(mutant, others);
  }

  #stagesOf(file: string): string[][] {
    const room = roomOf(file);
    const tests = this.#imports
      .whatLoads(file)
      .filter(test => test.endsWith('.test.ts') && !this.#leftOut.has(test));
    const near = tests.filter(test => mirrors(room, test));
    if (options.near) return [near];
    const wider = tests.filter(test => isBeside(room, test) && !near.includes(test));
    const others = tests.filter(test => !near.includes(test) && !wider.includes(test));
    return [near, wider, others];
  }

  #msOf(test: string): number {
    return this.#ms.get(test) ?? Number.NaN;
  }

  /** The tests that pass without a change. Each runs once for that. */
  async #soundOf(tests: readonly string[]): Promise<string[]> {
    const untimed = tests.filter(test => !this.#ms.has(test));
    if (untimed.length > 0) {
      for (const { file, ms, passed } of await this.#checkout.time(untimed)) {
        this.#ms.set(file, passed ? ms : Number.NaN);
        if (!passed) console.error(`${file} fails without a change, and is left out.`);
      }
    }
    return tests.filter(test => !Number.isNaN(this.#msOf(test)));
  }
}

function describe({ number, mutant: { file, line, operator } }: Numbered, outcome: Outcome): string {
  const became = { passed: 'SURVIVED', failed: 'caught', 'timed-out': 'timed out' }[outcome.type];
  const by = outcome.type === 'failed' ? `  by ${outcome.file ?? 'vitest'}: ${outcome.test}` : '';
  return `${number} ${became.padEnd(9)} ${file}:${line} ${operator}${by}`;
}

async function main(): Promise<void> {
  const selected = selectMutants();
  const checkout = new CopiedCheckout();
  const survivors: Numbered[] = [];
  let timedOut = 0;
  try {
    const trials = new Trials(checkout);
    for (const one of selected) {
      const outcome = await trials.try(one.mutant);
      console.error(describe(one, outcome));
      if (outcome.type === 'passed') survivors.push(one);
      if (outcome.type === 'timed-out') timedOut += 1;
    }
  } finally {
    checkout.remove();
  }
  for (const { number, mutant } of survivors)
    console.log(
      `${number} ${mutant.file}:${mutant.line} ${mutant.operator}\n  - ${mutant.from}\n  + ${mutant.to}`,
    );
  const caught = selected.length - survivors.length;
  const listed = survivors.map(({ number, mutant: { source, ...rest } }) => ({ number, ...rest }));
  if (options.json)
    console.log(JSON.stringify({ mutants: selected.length, caught, timedOut, survivors: listed }));
  else
    console.log(
      `mutants ${selected.length}, caught ${caught} (${timedOut} timed out), survived ${survivors.length}`,
    );
  if (caught < selected.length * LEAST_CAUGHT) process.exitCode = 1;
}

try {
  if (options.help) console.log(HELP);
  else await main();
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 1;
}
