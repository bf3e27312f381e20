import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadRun } from '../../engine/journal/load-run.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import {
  type Environment,
  findFaults,
  makeDrilledAgent,
  makeEnvironment,
  work,
} from '../support/faults/drilled-run.ts';
import { sampled } from '../support/sample.ts';
import { makeFile } from '../support/stores/make-file.ts';

/** The structure of a write-ahead log, in bytes. Source: https://www.sqlite.org/fileformat2.html#walformat */
const LOG_HEADER = 32;
const FRAME_HEADER = 24;
const PAGE = 4096;
const FRAME = FRAME_HEADER + PAGE;

/** An acknowledged write of the run: the length of the log, the journals and the outside world at that time. */
type Mark = { logBytes: number; journals: ReadonlyMap<string, number>; world: Environment };

type Recording = {
  database: string;
  log: Buffer;
  marks: Mark[];
  journals: ReadonlyMap<string, RunEvent[]>;
  endedAt: number;
};

const WRITES = ['create', 'append', 'claim', 'renew', 'release', 'saveSnapshot'] as const;

let recorded: Recording;
beforeAll(async () => {
  recorded = await record();
});

/** Records the drilled run on a database that is not closed, so that everything is in its log. */
async function record(): Promise<Recording> {
  const file = makeFile();
  const inner = sqlite(file);
  const world = makeEnvironment();
  const marks: Mark[] = [];
  const mark = async () => {
    const journals = new Map((await inner.list({ limit: 1000 })).runs.map(({ runId, seq }) => [runId, seq]));
    marks.push({ logBytes: statSync(`${file}-wal`).size, journals, world: structuredClone(world) });
  };
  const store = new Proxy(inner, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      if (!WRITES.some(write => write === name)) return member.bind(target);
      return async (...args: unknown[]) => {
        const result: unknown = await Reflect.apply(member, target, args);
        await mark();
        return result;
      };
    },
  });
  const host = new ManualHost({ name: 'p1_' });
  const settled = await host.settle(work({ agent: makeDrilledAgent(host, store, world) }, store, world));
  expect(await findFaults(inner, world, settled)).toEqual([]);
  await mark();
  const database = makeFile();
  copyFileSync(file, database);
  const log = readFileSync(`${file}-wal`);
  await inner.close();
  return { database, log, marks, journals: await readAll(sqlite(file)), endedAt: host.now() };
}

async function readAll(store: Store): Promise<Map<string, RunEvent[]>> {
  const journals = new Map<string, RunEvent[]>();
  for (const { runId } of (await store.list({ limit: 1000 })).runs) {
    await loadRun(store, runId);
    journals.set(
      runId,
      (await store.read(runId)).map(({ event }) => event),
    );
  }
  return journals;
}

/** The store after a machine lost its unsynced writes. */
function reopen(log: Uint8Array): Store {
  const file = makeFile();
  copyFileSync(recorded.database, file);
  writeFileSync(`${file}-wal`, log);
  return sqlite(file);
}

/** The last write that is completely in the first `bytes` of the log. */
function lastMark(bytes: number): Mark | undefined {
  return recorded.marks.findLast(({ logBytes }) => logBytes <= bytes);
}

/** Expects every write up to the mark, unchanged, and nothing else. */
async function expectUpTo(store: Store, mark: Mark | undefined): Promise<void> {
  const journals = await readAll(store);
  expect(new Map([...journals].map(([runId, events]) => [runId, events.length]))).toEqual(
    mark?.journals ?? new Map(),
  );
  for (const [runId, events] of journals)
    expect(events).toEqual(recorded.journals.get(runId)?.slice(0, events.length));
}

/** Offsets inside a frame at which a log may end. */
const INSIDE = [1, FRAME_HEADER - 1, FRAME_HEADER, FRAME_HEADER + PAGE / 2, FRAME - 1];

function frames(): number[] {
  const count = (recorded.log.length - LOG_HEADER) / FRAME;
  expect(Number.isInteger(count)).toBe(true);
  return Array.from({ length: count }, (_, index) => LOG_HEADER + index * FRAME);
}

describe('a log that lost its tail', () => {
  test('at any frame boundary has every earlier write completely, and nothing of the next', async () => {
    const borders = frames();
    expect(borders.length).toBeGreaterThan(80);
    const seen = new Set<Mark | undefined>();
    for (const border of [...borders, recorded.log.length]) {
      const store = reopen(recorded.log.subarray(0, border));
      const mark = lastMark(border);
      await expectUpTo(store, mark);
      await store.close();
      seen.add(mark);
    }
    expect(seen.size).toBeGreaterThanOrEqual(30);
  });

  test('inside a frame, or followed by garbage, is read as if it ended before that frame', async () => {
    for (const [index, border] of sampled([...frames().entries()], 25)) {
      const inside = border + (INSIDE[index % INSIDE.length] ?? 1);
      const torn = reopen(recorded.log.subarray(0, inside));
      await expectUpTo(torn, lastMark(border));
      await torn.close();
      const garbage = Buffer.alloc(FRAME * 2, index % 2 === 0 ? 0 : 0xa5);
      const followed = reopen(Buffer.concat([recorded.log.subarray(0, border), garbage]));
      await expectUpTo(followed, lastMark(border));
      await followed.close();
    }
  });

  test('or has one flipped bit is read up to a write before it', async () => {
    for (const [index, border] of sampled([...frames().entries()], 40)) {
      const log = Buffer.from(recorded.log);
      const at = border + ((index * 997) % FRAME);
      log.writeUInt8(log.readUInt8(at) ^ (1 << (index % 8)), at);
      const store = reopen(log);
      await expectUpTo(store, lastMark(border));
      await store.close();
    }
  });
});

describe('a run that lost its unacknowledged writes', () => {
  test('continues from all acknowledged writes, and repeats nothing', async () => {
    const { marks, log, endedAt } = recorded;
    for (const [index, mark] of marks.slice(0, -1).entries()) {
      const next = marks[index + 1] ?? mark;
      if (next.logBytes <= mark.logBytes || mark.journals.size === 0) continue;
      const cut = mark.logBytes + FRAME * Math.floor((next.logBytes - mark.logBytes) / FRAME / 2);
      const store = reopen(log.subarray(0, cut));
      await expectUpTo(store, mark);
      const world = {
        acts: structuredClone(next.world.acts),
        acknowledged: structuredClone(mark.world.acknowledged),
      };
      const host = new ManualHost({ now: endedAt + 60_000, name: 'p2_' });
      const settled = await host.settle(work({ agent: makeDrilledAgent(host, store, world) }, store, world));
      expect(await findFaults(store, world, settled), `after write ${index}`).toEqual([]);
      await store.close();
    }
  });
});
