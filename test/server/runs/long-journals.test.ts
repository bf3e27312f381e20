import { beforeAll, describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import { systemHost } from '../../../engine/host/host.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { Page, Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { TAKES_ALL } from '../../support/sample.ts';
import { PacedModel } from '../../support/server/paced-model.ts';
import { countTo, DONE, idsOf, makeApp, parseEvents, type TestApp } from '../../support/server/runs-app.ts';

const ENTRIES = TAKES_ALL ? 50_000 : 10_000;

/** The journal reads that a store served. */
type Counted = { store: Store; entries: number; largest: number; reads: number };

function countReads(inner: Store): Counted {
  const read = inner.read.bind(inner);
  const counted = { store: inner, entries: 0, largest: 0, reads: 0 };
  inner.read = async (runId: string, after?: number, page?: Page) => {
    const entries = await read(runId, after, page);
    counted.reads += 1;
    counted.entries += entries.length;
    counted.largest = Math.max(counted.largest, entries.length);
    return entries;
  };
  return counted;
}

function resetCount(counted: Counted): void {
  Object.assign(counted, { entries: 0, largest: 0, reads: 0 });
}

/** A finished run with a journal of this length: notes after its end. */
async function lengthen(store: Store, runId: string, length: number): Promise<void> {
  const at = systemHost.now();
  let seq = (await store.get(runId))?.seq ?? 0;
  const status = (await store.get(runId))?.status ?? 'finished';
  while (seq < length) {
    const count = Math.min(1_000, length - seq);
    const notes = countTo(count).map(
      (n): RunEvent => ({ type: 'run.noted', at, by: 'test', note: `${seq + n} ${'x'.repeat(100)}` }),
    );
    const result = await store.append(runId, { after: seq, input: true }, notes, { status });
    if (result.type !== 'appended') throw new Error(result.type);
    seq = result.seq;
  }
}

async function readAll<T>(items: AsyncIterable<T>): Promise<T[]> {
  const read: T[] = [];
  for await (const item of items) read.push(item);
  return read;
}

async function readStream(response: Response): Promise<string> {
  return await response.text();
}

describe(`a journal of ${ENTRIES.toLocaleString('en')} entries`, () => {
  const counted = countReads(memory());
  let desk: TestApp;
  let runId: string;

  beforeAll(async () => {
    desk = makeApp({ turns: [DONE], store: counted.store });
    runId = (await desk.begin()).runId;
    await lengthen(counted.store, runId, ENTRIES);
  });

  test('is read once, in pages, for a client of its events, and each entry is sent', async () => {
    resetCount(counted);
    const events = parseEvents(await readStream(await desk.send('GET', `/runs/${runId}/events`)));
    expect(idsOf(events)).toEqual(countTo(ENTRIES));
    expect(events.at(-1)?.event).toBe('end');
    // One read folds the run, one sends it.
    expect(counted.entries).toBeLessThan(2.05 * ENTRIES);
    expect(counted.largest).toBeLessThanOrEqual(256);
    expect(counted.reads).toBeLessThan((3 * ENTRIES) / 256);
  });

  test('is read in pages for its view, for run.events() and for the fold', async () => {
    const opened = await createAgent({ name: 'desk', store: counted.store }).open(runId);
    const reads: [string, () => Promise<unknown>][] = [
      ['view', () => desk.view(runId)],
      ['fold', () => loadRun(counted.store, runId)],
      ['run.events()', async () => expect((await readAll(opened.events())).length).toBe(ENTRIES)],
    ];
    for (const [what, read] of reads) {
      resetCount(counted);
      await read();
      expect(counted.entries, what).toBeLessThan(1.05 * ENTRIES);
      expect(counted.largest, what).toBeLessThanOrEqual(256);
    }
  });

  test('leaves the event loop free between two pages', async () => {
    let turns = 0;
    let isReading = true;
    const look = () => {
      turns += 1;
      if (isReading) setImmediate(look);
    };
    setImmediate(look);
    resetCount(counted);
    await readStream(await desk.send('GET', `/runs/${runId}/events`));
    isReading = false;
    expect(turns).toBeGreaterThan(counted.reads / 2);
  });
});

test('a lease is renewed while five clients read a long journal', async () => {
  const leaseMs = 1_000;
  const counted = countReads(memory());
  const renew = counted.store.renew.bind(counted.store);
  let isReading = false;
  let renewals = 0;
  let refused = 0;
  // Time advances 100 ms per page read, so a lease lasts for 10 of the hundred pages, which the clients share.
  let clock = systemHost.now();
  const host = { ...systemHost, leaseMs, now: () => clock, monotonic: () => clock };
  const timers = new Set<{ at: number; fire: () => void }>();
  host.setTimer = (ms, fire) => {
    const timer = { at: clock + ms, fire };
    timers.add(timer);
    return () => void timers.delete(timer);
  };
  const pass = (ms: number) => {
    clock += ms;
    for (const timer of [...timers]) if (timer.at <= clock && timers.delete(timer)) timer.fire();
  };
  const read = counted.store.read;
  counted.store.read = async (...asked) => {
    const entries = await read(...asked);
    if (isReading && entries.length > 0) setImmediate(() => pass(100));
    return entries;
  };
  counted.store.renew = async (...asked) => {
    const lost = await renew(...asked);
    if (isReading) renewals += 1;
    refused += lost.length;
    return lost;
  };
  const model = new PacedModel(['gate', 'Done.']);
  const desk = makeApp({ model, store: counted.store, host, agent: { host } });
  const long = await makeApp({ turns: [DONE], store: counted.store }).begin();
  await lengthen(counted.store, long.runId, ENTRIES);
  const begun = (await (await desk.send('POST', '/runs', { input: 'go' })).json()) as RunView;
  await model.reached;
  isReading = true;
  const texts = await Promise.all(
    countTo(5).map(async () => readStream(await desk.send('GET', `/runs/${long.runId}/events`))),
  );
  isReading = false;
  for (const text of texts) expect(idsOf(parseEvents(text)).length).toBe(ENTRIES);
  expect(refused).toBe(0);
  expect(renewals).toBeGreaterThan(5);
  const record = await counted.store.get(begun.runId);
  expect(record?.leaseUntil).toBeGreaterThan(clock);
  model.open();
});
