import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { BundledFixture } from '../support/durability/bundled-fixture.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../support/sample.ts';

const fixture = new BundledFixture('background-fixture');
const KILLS = TAKES_ALL ? 100 : 6;
const TOP = 'run_top';

/** Numbers from 0 to 1 that are the same in each run of the test. */
function* randomNumbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

/** Returns whether the process was killed; otherwise the run has settled. */
async function killAfter(folder: string, ms: number): Promise<boolean> {
  const child = spawn(process.execPath, [fixture.file, folder], { stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = once(child, 'exit');
  await Promise.race([ended, delay(ms)]);
  child.kill('SIGKILL');
  const [code] = await ended;
  if (code !== null) expect(code).toBe(0);
  return code === null;
}

async function findFaults(folder: string): Promise<string[]> {
  const faults: string[] = [];
  const bought = readFileSync(join(folder, 'bought'), 'utf8').split('\n').filter(Boolean);
  if (bought.length !== 3 || new Set(bought).size !== 3) faults.push(`bought ${bought.join(', ')}`);
  const store = sqlite(join(folder, 'runs.db'));
  const { runs } = await store.list();
  if (runs.length !== 4) faults.push(`${runs.length} runs`);
  for (const { runId, status } of runs) {
    if (status !== 'finished') faults.push(`${runId} is ${status}`);
    if (!(await replayRun(store, runId)).equal) faults.push(`${runId} does not replay`);
  }
  const read = (await store.read(TOP)).flatMap(({ event }) =>
    event.type === 'message.received' ? [event.from?.callId ?? 'a person'] : [],
  );
  if (read.toSorted().join() !== 'a person,call_0_0,call_0_1,call_0_2') faults.push(`read ${read.join()}`);
  await store.close();
  return faults;
}

test(
  'an agent that researches in the background, killed at random, buys nothing twice and reads each outcome once',
  async () => {
    const random = randomNumbers(SAMPLE_SEED);
    for (let kills = 0; kills < KILLS; ) {
      const folder = fixture.makeFolder();
      // Each life of a run is longer than the one before, so that it ends on a slow machine too.
      for (let lives = 0; await killAfter(folder, 80 + 400 * random.next().value + 50 * lives); lives += 1)
        kills += 1;
      expect(await findFaults(folder), `after ${kills} kills`).toEqual([]);
    }
  },
  TAKES_ALL ? 600_000 : 60_000,
);
