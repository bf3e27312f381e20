import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonValue } from '../../protocol/json.ts';
import type { TotalsQuery } from '../../protocol/listing/totals.ts';
import type { ListFilter, RunStatus, Store } from '../../protocol/store.ts';
import {
  begin,
  makeProgress,
  receive,
  request,
  say,
  settleAll,
  withClock,
} from '../../stores/conformance/check.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { randomCases } from '../support/sample.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { POSTGRES_BIN, startPostgres } from '../support/stores/postgres-server.ts';
import { storesIn } from '../support/stores/stores-under-test.ts';

type Command = (store: Store) => Promise<unknown>;

const runId = fc.constantFrom('a', 'b', 'c');
const owner = fc.constantFrom('one', 'two');
const now = fc.integer({ min: 0, max: 5000 });
const epoch = fc.integer({ min: 0, max: 4 });
const seq = fc.integer({ min: -1, max: 12 });
const status = fc.constantFrom<RunStatus>('running', 'waiting', 'finished', 'failed', 'cancelled');
const itemId = fc.constantFrom('i1', 'i2', 'i3');
const anyText = fc.string({ unit: 'binary', maxLength: 12 });
const events = fc.array(
  fc.oneof(
    fc.tuple(anyText, now).map(([text, at]) => receive(text, at)),
    itemId.map(id => ({ type: 'message.received' as const, at: 1, items: [say('x', id)] })),
  ),
  { maxLength: 3 },
);

const title = fc.constantFrom('Order', 'order', 'Zoo', '\u{1f4e6} box', '\uff21');
const labels = fc.record({ session: runId, user: owner }, { requiredKeys: [] });
const filter: fc.Arbitrary<ListFilter> = fc.record(
  {
    status,
    limit: seq,
    labels,
    skip: fc.integer({ min: 0, max: 2 }),
    sort: fc.constantFrom('created', 'updated', 'title', 'agent', 'status', 'worked', 'cost', 'tokens'),
    order: fc.constantFrom('asc', 'desc'),
    folded: fc.constant(true),
    latest: fc.constant(true),
    waiting: fc.constant(false),
    parent: runId,
    thread: fc.constant('t'),
  },
  { requiredKeys: [] },
);
const start = fc.record(
  { title, labels, thread: fc.constant('t'), parent: runId.map(runId => ({ runId, callId: 'call' })) },
  { requiredKeys: [] },
);
const progress = fc
  .record({ cost: now, tokens: now, activeMs: now, model: fc.constantFrom('a:b', 'a:"c') })
  .map(told => makeProgress('some', told));

const totalsQuery: fc.Arbitrary<TotalsQuery> = fc.record(
  {
    by: fc.uniqueArray(
      fc.constantFrom('status' as const, 'agent' as const, 'model' as const, { label: 'user' }),
    ),
    every: fc.constant(1000),
  },
  { requiredKeys: [] },
);

const command: fc.Arbitrary<Command> = fc.oneof(
  fc
    .record({
      id: runId,
      at: now,
      by: owner,
      claimed: fc.boolean(),
      older: fc.option(runId),
      start,
      rest: fc.option(
        fc.record(
          { events, status, progress, place: fc.constant({ after: null }) },
          { requiredKeys: ['events', 'status'] },
        ),
        { nil: undefined },
      ),
    })
    .map(({ id, at, by, claimed, older, start, rest }) => (store: Store) => {
      const event = begin(id, { at, ...start, ...(older !== null && { continues: older }) });
      return store.create(event, claimed ? request(by, { now: at }) : undefined, rest);
    }),
  {
    weight: 4,
    arbitrary: fc
      .record({
        id: runId,
        back: fc.constantFrom(0, 0, 0, 1),
        epoch: fc.option(epoch),
        events,
        status,
        progress,
      })
      .map(({ id, back, epoch, events, status, progress }) => async (store: Store) => {
        const after = ((await store.get(id))?.seq ?? 0) - back;
        const guard = epoch === null ? { after, input: true as const } : { after, epoch };
        return store.append(id, guard, events, { status, progress });
      }),
  },
  fc.record({ id: runId, by: owner, now, dead: fc.option(owner) }).map(
    ({ id, by, now, dead }) =>
      (store: Store) =>
        store.claim(id, request(by, { now, isDead: ({ id }) => id === dead })),
  ),
  fc.tuple(runId, epoch, now).map(
    ([id, epoch, now]) =>
      (store: Store) =>
        store.renew([{ runId: id, epoch }], { now, leaseMs: 1000 }),
  ),
  fc.tuple(runId, epoch).map(
    ([id, epoch]) =>
      (store: Store) =>
        store.release(id, epoch),
  ),
  fc.tuple(runId, seq).map(
    ([id, seq]) =>
      (store: Store) =>
        store.saveSnapshot(id, { seq, state: { seq } }),
  ),
  runId.map(id => (store: Store) => store.loadSnapshot(id)),
  fc.tuple(runId, seq).map(
    ([id, after]) =>
      (store: Store) =>
        store.read(id, after),
  ),
  filter.map(filter => (store: Store) => store.list(filter)),
  fc.tuple(filter, totalsQuery).map(
    ([{ limit, skip, sort, order, ...filter }, query]) =>
      (store: Store) =>
        store.totals(filter, query),
  ),
  runId.map(id => (store: Store) => store.chain(id)),
  fc.tuple(now, now).map(([now, reserveMs]) => async (store: Store) => {
    const taken = await store.takeWork?.({ agents: [{ name: 'refunds' }], limit: 9, now, reserveMs });
    // Runs that were touched at one time have no order.
    return taken?.map(({ runId }) => runId).sort();
  }),
);

async function observe(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    value => ({ value }),
    // A memory store without any run says more about an unknown one.
    ({ code, details, message }) => (code === 'run-unknown' ? { code, details } : { code, details, message }),
  );
}

/** Compares a store with the one in memory. */
async function agree(open: () => Promise<Store>, numRuns: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 40 }), async commands => {
      const [one, other] = [memory(), await open()];
      for (const run of commands) expect(await observe(run(other))).toEqual(await observe(run(one)));
      expect(await other.list()).toEqual(await one.list());
      for (const { runId } of (await one.list()).runs)
        expect(await other.read(runId)).toEqual(await one.read(runId));
      await other.close();
    }),
    { numRuns: randomCases(numRuns) },
  );
}

test('memory and sqlite answer every sequence of calls alike, and end with the same runs', async () => {
  await agree(async () => sqlite(makeFile()), 20);
});

test.skipIf(POSTGRES_BIN === undefined)('so do memory and postgres', async () => {
  const server = await startPostgres();
  const { open } = withClock(storesIn(() => ({ url: server.url })));
  await agree(open, 6);
  await server.stop();
});

test('any JSON in an event is returned equal, including the order of keys', async () => {
  const store = sqlite(makeFile());
  await store.create(begin('a'));
  let after = 1;
  const json = fc.json({ stringUnit: 'binary', maxDepth: 4 }).map((text): JsonValue => JSON.parse(text));
  await fc.assert(
    fc.asyncProperty(json, anyText, async (output, callId) => {
      const event = settleAll(callId, output);
      await store.append('a', { after, epoch: 0 }, [event], { status: 'running' });
      const [entry] = await store.read('a', after);
      after += 1;
      expect(entry?.event).toEqual(event);
      expect(JSON.stringify(entry?.event)).toBe(JSON.stringify(event));
    }),
    { numRuns: 100 },
  );
  await store.close();
});
