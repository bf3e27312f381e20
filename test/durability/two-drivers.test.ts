import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { loadRun } from '../../engine/journal/load-run.ts';
import type { Settled } from '../../engine/log/settled.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { BundledFixture } from '../support/durability/bundled-fixture.ts';
import { eventsOf } from '../support/engine/agents.ts';
import { sampled } from '../support/sample.ts';

const fixture = new BundledFixture('two-drivers-fixture');
const RUN = 'run_shared';
const CALL = 'call_0_0';
const KEY = `${RUN}:1:${CALL}`;

/** The stopped process has a short lease, which expires soon; the other has a long lease, which it keeps. */
const [SHORT_MS, LONG_MS] = [500, 30_000];

const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

/** A process of the fixture. */
class Driver {
  readonly child: ChildProcess;
  readonly #folder: string;
  readonly #name: string;
  readonly #ended: Promise<unknown[]>;
  #errors = '';

  constructor(folder: string, name: string, tool: string, leaseMs: number, stop = '') {
    this.#folder = folder;
    this.#name = name;
    const args = [fixture.file, folder, name, tool, String(leaseMs), stop];
    this.child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.child.stderr?.on('data', chunk => {
      this.#errors += chunk;
    });
    this.#ended = once(this.child, 'close');
    children.add(this.child);
  }

  /** The lines it reported, in order. */
  get words(): string[] {
    return linesOf(this.#folder, 'told')
      .filter(line => line.startsWith(`${this.#name} `))
      .map(line => line.slice(this.#name.length + 1));
  }

  async says(beginning: string): Promise<void> {
    while (!this.words.some(line => line.startsWith(beginning))) {
      const { exitCode, signalCode } = this.child;
      if (exitCode !== null || signalCode !== null)
        throw new Error(`it ended without "${beginning}":\n${this.#errors}`);
      await delay(5);
    }
  }

  wake(): void {
    this.child.kill('SIGCONT');
  }

  async settled(): Promise<Settled> {
    const [code] = await this.#ended;
    children.delete(this.child);
    if (code !== 0) throw new Error(`the process failed:\n${this.#errors}`);
    const line = this.words.find(word => word.startsWith('settled '));
    return JSON.parse(line?.slice('settled '.length) ?? 'null');
  }
}

function linesOf(folder: string, file: string): string[] {
  const path = join(folder, file);
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
}

/** The events and the transcript of the run, which must fold. */
async function readRun(folder: string) {
  const store = sqlite(join(folder, 'runs.db'));
  const events = await eventsOf(store, RUN);
  const { state } = await loadRun(store, RUN);
  await store.close();
  return { events, transcript: state.context.transcript };
}

type Outcome = {
  /** The processes that acted, in order. */
  acted: string[];
  keys: string[];
  one: Settled;
  two: Settled;
  told: string[];
  types: string[];
  results: unknown[];
};

/** The first process stops, the second takes over and settles, and the first wakes. */
async function stopAndWake(tool: string, stop: string): Promise<Outcome> {
  const folder = fixture.makeFolder();
  const first = new Driver(folder, 'one', tool, SHORT_MS, stop);
  await first.says(`stopped at ${stop}`);
  const second = new Driver(folder, 'two', tool, LONG_MS);
  const two = await second.settled();
  first.wake();
  const one = await first.settled();
  const trace = linesOf(folder, 'trace').map(line => line.split(' '));
  const { events, transcript } = await readRun(folder);
  return {
    acted: trace.map(([name = '']) => name),
    keys: trace.map(([, , key = '']) => key),
    one,
    two,
    told: first.words,
    types: events.map(({ type }) => type),
    results: transcript.flatMap(item => (item.type === 'tool_result' ? [item.output] : [])),
  };
}

function expectTakenOver({ one, two, told }: Outcome): void {
  expect(one).toEqual(two);
  const claims = told.filter(line => line.startsWith('saw epoch '));
  expect(claims.length).toBeGreaterThan(1);
  expect(claims.at(-1)).toMatch(/"replaces":".+:\d+@/);
}

/** Expects `count` claims before the end. A follower may claim the run after its end, and then journals nothing. */
function expectClaims(events: readonly RunEvent[], count: number): void {
  const places = events.flatMap(({ type }, place) => (type === 'run.claimed' ? [place] : []));
  const ended = events.findLastIndex(({ type }) => type === 'turn.completed');
  expect(places.filter(place => place < ended)).toHaveLength(count);
  expect(events.slice(ended + 1).every(({ type }) => type === 'run.claimed')).toBe(true);
}

describe('two processes on one run', () => {
  test('one drives and the other follows, and both report the same end', async () => {
    const folder = fixture.makeFolder();
    const first = new Driver(folder, 'one', 'hold', LONG_MS);
    await first.says('holds');
    const second = new Driver(folder, 'two', 'hold', LONG_MS);
    await second.says('is at it');
    writeFileSync(join(folder, 'go'), '');
    const [one, two] = await Promise.all([first.settled(), second.settled()]);
    expect(one).toMatchObject({ status: 'finished', text: 'done by one' });
    expect(two).toEqual(one);
    expect(linesOf(folder, 'trace')).toEqual([`one ${CALL} ${KEY}`]);
    const { events } = await readRun(folder);
    expectClaims(events, 1);
  });

  test('resuming after a third process died: one of them drives, and both report the same end', async () => {
    const folder = fixture.makeFolder();
    const dead = new Driver(folder, 'dead', 'put', LONG_MS, 'in-tool');
    await dead.says('stopped');
    dead.child.kill('SIGKILL');
    await once(dead.child, 'close');
    const drivers = ['one', 'two'].map(name => new Driver(folder, name, 'put', LONG_MS));
    const [one, two] = await Promise.all(drivers.map(driver => driver.settled()));
    expect(one).toMatchObject({ status: 'finished', text: expect.stringMatching(/^done by (one|two)$/) });
    expect(two).toEqual(one);
    expect(linesOf(folder, 'trace')).toHaveLength(1);
    const { events } = await readRun(folder);
    expectClaims(events, 2);
  });

  test('one wakes while the other works: it reports nothing, follows, and reports the same end', async () => {
    const folder = fixture.makeFolder();
    const first = new Driver(folder, 'one', 'hold', SHORT_MS, 'after-start');
    await first.says('stopped');
    const second = new Driver(folder, 'two', 'hold', LONG_MS);
    await second.says('holds');
    first.wake();
    await first.says('saw epoch 2');
    writeFileSync(join(folder, 'go'), '');
    const [one, two] = await Promise.all([first.settled(), second.settled()]);
    expect(two).toMatchObject({ status: 'finished', text: 'done by two' });
    expect(one).toEqual(two);
    expect(first.words).not.toContain('holds');
    expect(linesOf(folder, 'trace')).toEqual([`two ${CALL} ${KEY}`]);
  });
});

type Row = [
  stop: string,
  tool: string,
  expected: { acted: string[]; status: Settled['status']; late?: true },
];

/** Stops that are harmless: after the takeover, the store refuses the first process's next request. */
const EXCLUDED: Row[] = [
  ['model.before 1', 'put', { acted: ['two'], status: 'finished' }],
  ['model.after 1', 'put', { acted: ['two'], status: 'finished' }],
  ['model.after 2', 'pay', { acted: ['one'], status: 'finished' }],
  ['before-start', 'put', { acted: ['two'], status: 'finished' }],
  ['before-start', 'pay', { acted: ['two'], status: 'finished' }],
  ['after-start', 'put', { acted: ['two'], status: 'finished' }],
  ['after-start', 'pay', { acted: [], status: 'waiting' }],
  ['after-start', 'ask', { acted: [], status: 'waiting' }],
  ['acted', 'pay', { acted: ['one'], status: 'waiting', late: true }],
  ['acted', 'ask', { acted: ['one'], status: 'finished', late: true }],
  ['before-result', 'pay', { acted: ['one'], status: 'waiting', late: true }],
  ['before-result', 'ask', { acted: ['one'], status: 'finished', late: true }],
  ['after-result', 'pay', { acted: ['one'], status: 'finished' }],
];

/** Stops after the last check: nothing can stop the first process's call any more. */
const NOT_EXCLUDED: Row[] = [
  ['tool.before', 'put', { acted: ['two', 'one'], status: 'finished' }],
  ['tool.before', 'pay', { acted: ['one'], status: 'waiting', late: true }],
  ['tool.before', 'ask', { acted: ['one'], status: 'waiting', late: true }],
  ['in-tool', 'put', { acted: ['two', 'one'], status: 'finished' }],
  ['acted', 'put', { acted: ['one', 'two'], status: 'finished' }],
];

describe('a process that is stopped past its lease and woken', () => {
  test.concurrent.each(sampled(EXCLUDED, 4))(
    'at %s of %s: its report is refused, and nothing is doubled',
    async (stop, tool, expected) => {
      const outcome = await stopAndWake(tool, stop);
      expectTakenOver(outcome);
      expect(outcome.acted).toEqual(expected.acted);
      expectEnd(outcome, expected);
    },
  );

  test.concurrent.each(sampled(NOT_EXCLUDED, 2))(
    'at %s of %s, between the check and the end of the call: a second execution has the same key',
    async (stop, tool, expected) => {
      const outcome = await stopAndWake(tool, stop);
      expectTakenOver(outcome);
      expect(outcome.acted).toEqual(expected.acted);
      expect(new Set(outcome.keys)).toEqual(new Set([KEY]));
      expectEnd(outcome, expected);
    },
  );
});

function expectEnd({ two, types, results }: Outcome, expected: Row[2]): void {
  expect(two.status).toBe(expected.status);
  expect(types.filter(type => type === 'tool.settled').length).toBeLessThanOrEqual(1);
  expect(types.includes('tool.late')).toBe(expected.late === true);
  if (two.status === 'finished') {
    expect(two.text).toBe('done by two');
    expect(results).toHaveLength(1);
  } else expect(two).toMatchObject({ doubts: [{ callId: CALL }] });
}
