import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AGENTS } from '../../crash/agents.ts';
import { buildWorker } from '../../crash/build-worker.ts';
import { checkScenario } from '../../crash/checks/check-scenario.ts';
import { makeRandom } from '../../crash/plan.ts';
import { prove } from '../../crash/prove.ts';
import type { Job } from '../../crash/scenario.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../../support/sample.ts';

/**
 * A sample that covers every point. `npm run test:all` takes a larger one, `npm run crash` takes all.
 */
const SIZE = TAKES_ALL
  ? { singles: 90, scenarios: 120, controls: 24, moments: 14 }
  : { singles: 10, scenarios: 18, controls: 6, moments: 2 };

const root = mkdtempSync(join(tmpdir(), 'agentchart-kill-'));
let worker = '';

beforeAll(async () => {
  worker = await buildWorker(root);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Works on a run in a child process, which is killed after `killAfterMs`. Returns whether it was killed before its end. */
async function workOn(agent: string, folder: string, killAfterMs?: number): Promise<boolean> {
  const jobs: Job[] = [{ engine: 'chart', agent, folder, kill: null }];
  const child = spawn(process.execPath, [worker, JSON.stringify(jobs)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.on('data', chunk => {
    output += chunk;
  });
  child.stderr.on('data', chunk => {
    errors += chunk;
  });
  const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfterMs);
  const [code, signal] = await once(child, 'close');
  clearTimeout(timer);
  if (signal === null && code !== 0) throw new Error(`the process failed:\n${errors}`);
  return output === '';
}

describe('a process that is killed', () => {
  test('at any fault point, once or twice, loses nothing and repeats nothing unreported; a naive loop does', async () => {
    const proof = await prove({
      worker,
      folder: mkdtempSync(join(root, 'matrix-')),
      lanes: 2,
      seed: SAMPLE_SEED,
      ...SIZE,
    });
    expect(proof.problems).toEqual([]);
    expect(proof.notFired).toBe(0);
    expect(proof.scenarios).toBeGreaterThanOrEqual(SIZE.scenarios);
    expect(proof.doubted).toBeGreaterThan(SIZE.scenarios / 12);
    expect(proof.control.doubles).toBeGreaterThan(0);
  });

  test('at random moments from outside loses nothing and repeats nothing unreported', async () => {
    const random = makeRandom(SAMPLE_SEED);
    const alone = mkdtempSync(join(root, 'alone-'));
    const before = performance.now();
    await workOn('batch', alone);
    let fullMs = performance.now() - before;
    const moments = Array.from({ length: SIZE.moments }, (_, index) => ({
      agent: AGENTS[index % AGENTS.length]?.name ?? '',
      parts: [random(), random()],
    }));
    const faulty: Record<string, string[]> = {};
    let killed = 0;
    const killTwice = async () => {
      for (let next = moments.shift(); next !== undefined; next = moments.shift()) {
        const { agent, parts } = next;
        const folder = mkdtempSync(join(root, 'run-'));
        for (const [nth, part] of parts.entries()) {
          const afterMs = fullMs * (0.4 + part * 0.6);
          if (await workOn(agent, folder, afterMs)) killed += 1;
          // It ended before: the machine is faster now than it was at first.
          else if (nth === 0) fullMs = afterMs;
        }
        await workOn(agent, folder);
        const { lost, doubles } = await checkScenario(folder);
        if (lost.length + doubles.length > 0) faulty[`${agent} ${parts.join(' ')}`] = [...lost, ...doubles];
      }
    };
    await Promise.all([killTwice(), killTwice()]);
    expect(faulty).toEqual({});
    expect(killed).toBeGreaterThan(SIZE.moments / 2 - 1);
  });
});
