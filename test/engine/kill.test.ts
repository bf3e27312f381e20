import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FaultPoint } from '../../engine/host.ts';
import { loadRun } from '../../engine/load-run.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { eventsOf } from './agents.ts';

const RUN = 'run_killed';
const ONCE: ReadonlySet<string> = new Set(['pay', 'ask', 'refund']);

const root = mkdtempSync(join(tmpdir(), 'agentchart-kill-'));
const fixture = join(root, 'kill-fixture.mjs');

/** In one file a process starts in half the time. */
beforeAll(async () => {
  await build({
    entryPoints: [fileURLToPath(new URL('kill-fixture.ts', import.meta.url))],
    outfile: fixture,
    ...{ bundle: true, platform: 'node', format: 'esm', logLevel: 'error' },
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire('/');" },
  });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

function makeFolder(): string {
  return mkdtempSync(join(root, 'run-'));
}

type Kill = readonly [point: FaultPoint, nth: number];

/** Runs one process to its end; gives the signal it ended by. `killAfterMs` kills it from outside. */
async function runProcess(folder: string, kill?: Kill, killAfterMs?: number): Promise<string | null> {
  const args = [fixture, folder, ...(kill === undefined ? [] : [kill[0], String(kill[1])])];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', chunk => {
    errors += chunk;
  });
  const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfterMs);
  const [code, signal] = await once(child, 'close');
  clearTimeout(timer);
  if (signal === null && code !== 0) throw new Error(`the process failed:\n${errors}`);
  return signal;
}

function linesOf(folder: string, file: string): string[] {
  const path = join(folder, file);
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
}

/** What is wrong with how the run ended; empty when nothing was lost and nothing done twice in silence. */
async function findFaults(folder: string): Promise<string[]> {
  const faults: string[] = [];
  const told = linesOf(folder, 'told');
  if (told.at(-1) !== 'finished') faults.push(`the run ended with ${told.at(-1)}`);
  const store = sqlite(join(folder, 'runs.db'));
  const { transcript } = (await loadRun(store, RUN)).state.context;
  const events = await eventsOf(store, RUN);
  await store.close();
  const trace = linesOf(folder, 'trace').map(line => line.split(' '));
  for (const item of transcript) {
    if (item.type !== 'tool_call') continue;
    const { callId, name } = item;
    const results = transcript.filter(other => other.type === 'tool_result' && other.callId === callId);
    if (results.length !== 1) faults.push(`${callId} has ${results.length} results`);
    const keys = trace.flatMap(([, call, key]) => (call === callId ? [key] : []));
    if (keys.length === 0) faults.push(`${callId} (${name}) never happened`);
    if (new Set(keys).size > 1) faults.push(`${callId} (${name}) has ${keys.length} keys`);
    if (ONCE.has(name) && keys.length > 1) faults.push(`${callId} (${name}) happened ${keys.length} times`);
  }
  for (const line of told) {
    const [word, callId] = line.split(' ');
    if (word !== 'accepted') continue;
    const decisions = events.filter(event => event.type === 'approval.decided' && event.callId === callId);
    if (decisions.length !== 1) faults.push(`${callId} was accepted and has ${decisions.length} decisions`);
  }
  return faults;
}

/** Two at a time: a process is mostly its start. */
async function inPairs<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all([worker(), worker()]);
}

const SCENARIOS: Kill[][] = [
  [['append.before', 1]],
  [['append.before', 4]],
  [['append.after', 1]],
  [['append.after', 4]],
  [['model.before', 1]],
  [['model.after', 2]],
  [['tool.before', 3]],
  [['tool.after', 1]],
  [['report.before', 3]],
  [['input.before', 1]],
  [['input.after', 1]],
  [['claim.before', 1]],
  [['claim.after', 1]],
  [['snapshot.before', 1]],
  [['snapshot.after', 1]],
  [['release.before', 1]],
  [['release.after', 2]],
  [
    ['tool.after', 1],
    ['reconcile.before', 1],
  ],
  [
    ['tool.after', 1],
    ['reconcile.after', 1],
    ['append.after', 1],
  ],
];

describe('a process that is killed', () => {
  test('at any fault point loses nothing and does nothing twice in silence', async () => {
    const faulty: Record<string, string[]> = {};
    const fired = new Set<string>();
    let doubted = 0;
    await inPairs(SCENARIOS, async kills => {
      const folder = makeFolder();
      for (const kill of kills) expect(await runProcess(folder, kill), kill.join(' ')).toBe('SIGKILL');
      expect(await runProcess(folder)).toBeNull();
      const told = linesOf(folder, 'told');
      for (const [point] of kills) {
        expect(told).toContain(`killed ${point}`);
        fired.add(point);
      }
      doubted += told.filter(line => line.startsWith('doubted')).length;
      const faults = await findFaults(folder);
      if (faults.length > 0) faulty[kills.join(' then ')] = faults;
    });
    expect(faulty).toEqual({});
    expect([...fired].sort()).toEqual([...POINTS].sort());
    expect(doubted).toBeGreaterThan(0);
  }, 60_000);

  test('at any moment from outside loses nothing and does nothing twice in silence', async () => {
    let seed = 7;
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
    const moments = Array.from({ length: 12 }, () => [random(), random()]);
    const alone = makeFolder();
    const before = performance.now();
    await runProcess(alone);
    const wholeMs = performance.now() - before;
    const faulty: Record<string, string[]> = {};
    let killed = 0;
    await inPairs(moments, async parts => {
      const folder = makeFolder();
      for (const part of parts) {
        if ((await runProcess(folder, undefined, wholeMs * (0.4 + part * 0.6))) === 'SIGKILL') killed += 1;
      }
      if (linesOf(folder, 'told').at(-1) !== 'finished') await runProcess(folder);
      const faults = await findFaults(folder);
      if (faults.length > 0) faulty[parts.join(' ')] = faults;
    });
    expect(faulty).toEqual({});
    expect(killed).toBeGreaterThan(6);
  }, 60_000);
});

const POINTS: ReadonlySet<FaultPoint> = new Set<FaultPoint>([
  'append.before',
  'append.after',
  'claim.before',
  'claim.after',
  'model.before',
  'model.after',
  'tool.before',
  'tool.after',
  'reconcile.before',
  'reconcile.after',
  'report.before',
  'snapshot.before',
  'snapshot.after',
  'input.before',
  'input.after',
  'release.before',
  'release.after',
]);
