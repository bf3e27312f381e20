import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RestateStore } from '../../hosts/restate/restate-store.ts';
import { makeRestateServices } from '../../hosts/restate/services.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { foldWords, wordsOf } from '../../protocol/listing/words.ts';
import type { JournalRest, ListFilter, Store } from '../../protocol/store.ts';
import { begin, makeProgress, receive, withClock } from '../../stores/conformance/check.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { RestateStandIn } from '../support/restate/restate-stand-in.ts';
import { randomCases } from '../support/sample.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { POSTGRES_BIN, startPostgres } from '../support/stores/postgres-server.ts';
import { storesIn } from '../support/stores/stores-under-test.ts';

/** What the languages of queries, the indexes, the encodings and the rules of cases treat in their own way. */
const PARTS = [
  ...['"', '""', "'", '*', '^', '(', ')', '{', '}', '-', '+', ':', ',', '\\', '\\u0000', '%', '_', '$1', '?'],
  ...[
    'AND',
    ' OR ',
    'NOT',
    'NEAR(',
    'near/2',
    'text:',
    '-text:',
    'rowid',
    '{text}:',
    '::int4',
    'null',
    '1e3',
  ],
  ...['\0', '\x01', '\x7f', '\x85', '\n', '\t', ' ', ' ', '\u00a0', '\u3000', '\u200b', '\ufeff', '\u2028'],
  ...['\ud83d', '\udce6', '\u{1f4e6}', '\u{1f468}\u200d\u{1f469}', '\u{10ffff}', '\ufffd', '\ufffe'],
  ...['e\u0301', '\u00e9', '\u0301', '\u0307', 'İ', 'I', 'i', 'ı', 'ß', 'ẞ', 'SS', 'ΟΔΟΣ', 'ς', 'ﬁ', 'ǅ'],
  ...['a', 'ab', 'abc', 'Order ', 'A-1001', '漢', '漢字', '漢字テ', '1', '10', '[redacted]'],
];

const hostile = fc
  .array(fc.constantFrom(...PARTS), { minLength: 2, maxLength: 10 })
  .map(parts => parts.join(''));

type Command = (store: Store) => Promise<unknown>;

/** Commands about runs with texts of `pool`. */
function commandsWith(pool: readonly string[]): fc.Arbitrary<Command> {
  const text = fc.constantFrom(...pool);
  const printable = text.map(one => one.replaceAll(/[\p{Cc}\p{Cs}]/gu, '') || 'x');
  const long = fc
    .tuple(text, fc.integer({ min: 1, max: 9_000 }))
    .map(([one, times]) => one.repeat(times).slice(0, 20_000));
  const said = fc.oneof({ weight: 6, arbitrary: text }, { weight: 1, arbitrary: long });
  const words = fc.oneof(
    said.map(foldWords),
    fc.array(said, { minLength: 1, maxLength: 3 }).map(texts => wordsOf(texts.map(one => receive(one)))),
  );
  const runId = fc.constantFrom('a', 'b', 'run_c', 'Run "d"');
  const rest = fc.constantFrom<Omit<JournalRest, 'events'>>(
    { status: 'running' },
    { status: 'finished', place: { after: null } },
    { status: 'finished', place: { after: 'a' } },
  );
  const create = fc
    .record({
      id: runId,
      title: text,
      label: printable,
      thread: printable,
      words,
      of: fc.option(runId),
      rest,
    })
    .map(
      ({ id, title, label, thread, words, of, rest }): Command =>
        async store => {
          const origin = of === null ? undefined : await store.get(of);
          const forkOf = origin && { forkOf: { runId: origin.runId, at: 1 } };
          const event = begin(id, { title, thread, labels: { label }, ...forkOf });
          return await store.create(event, undefined, { events: [], words, ...rest });
        },
    );
  const append = fc.record({ id: runId, words, events: fc.integer({ min: 0, max: 2 }) }).map(
    ({ id, words, events }): Command =>
      async store => {
        const { seq: after = 0, redactions = 0 } = (await store.get(id)) ?? {};
        const added = Array.from({ length: events }, () => receive('x'));
        return await store.append(id, { after, redactions, input: true }, added, {
          status: 'running',
          words,
        });
      },
  );
  const redact = fc.record({ id: runId, words, title: fc.option(text), tells: fc.boolean() }).map(
    ({ id, words, title, tells }): Command =>
      async store => {
        const { seq: after = 0, redactions = 0, labels = {} } = (await store.get(id)) ?? {};
        return await store.rewrite(id, {
          ...{ after, redactions, words, blobs: [], state: {}, progress: makeProgress('running') },
          entries: title === null ? [] : [{ seq: 1, event: begin(id, { title, labels }) }],
          ...(tells && { event: { type: 'run.redacted', at: 9000, paths: ['/1'] } }),
          ...{ now: 9000, isDead: () => false },
        });
      },
  );
  const remove = runId.map(
    (id): Command =>
      store =>
        store.delete(id, { now: 9000 }),
  );
  return fc.oneof(create, { weight: 4, arbitrary: append }, redact, remove);
}

/** Filters with pieces of texts of `pool`, of which one may be in capitals. */
function filtersWith(pool: readonly string[]): fc.Arbitrary<ListFilter> {
  const piece = fc
    .tuple(fc.constantFrom(...pool), fc.nat({ max: 9 }), fc.integer({ min: 1, max: 12 }), fc.boolean())
    .map(([one, from, length, isUpper]) => {
      const cut = one.slice(from, from + length) || one.slice(0, 3);
      return isUpper ? cut.toUpperCase() : cut;
    });
  return fc
    .record({
      pieces: fc.array(piece, { minLength: 1, maxLength: 3 }),
      joint: fc.constantFrom(' ', '\t', '\0', ''),
      order: fc.constantFrom('asc', 'desc'),
      of: fc.constantFrom({}, {}, { latest: true as const }),
    })
    .map(({ pieces, joint, order, of }) => ({ text: pieces.join(joint), order, limit: 3, ...of }));
}

const cases = fc.array(hostile, { minLength: 2, maxLength: 4 }).chain(pool =>
  fc.record({
    commands: fc.array(commandsWith(pool), { minLength: 3, maxLength: 12 }),
    filters: fc.array(filtersWith(pool), { minLength: 10, maxLength: 10 }),
  }),
);

async function search(store: Store, filters: readonly ListFilter[]) {
  const found: { text: string; runIds: string[]; isEnd: boolean; runs: number | undefined }[] = [];
  for (const { text = '', ...page } of filters) {
    const { runs, next } = await store.list({ text, ...page });
    const { rows } = await store.totals({ text, ...omitUndefined({ latest: page.latest }) });
    found.push({
      text,
      runIds: runs.map(({ runId }) => runId),
      isEnd: next === undefined,
      runs: rows[0]?.runs,
    });
  }
  return found;
}

async function outcomeOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'done',
    (error: { code?: unknown }) => error.code ?? error,
  );
}

/** Compares what searches find in a store and in the one in memory, while runs come, change and go. */
async function agree(open: () => Promise<Store>, numRuns: number): Promise<void> {
  let hits = 0;
  await fc.assert(
    fc.asyncProperty(cases, async ({ commands, filters }) => {
      const [one, other] = [memory(), await open()];
      for (const store of [one, other]) for (const id of ['a', 'b']) await store.create(begin(id));
      for (const [at, run] of commands.entries()) {
        expect(await outcomeOf(run(other))).toEqual(await outcomeOf(run(one)));
        const some = filters.slice(at % 10, (at % 10) + 1);
        expect(await search(other, some)).toEqual(await search(one, some));
      }
      const found = await search(one, filters);
      expect(await search(other, filters)).toEqual(found);
      hits += found.filter(({ runIds }) => runIds.length > 0).length;
      await other.close();
    }),
    { numRuns: randomCases(numRuns) },
  );
  // Of ten searches at the end of each case.
  expect(hits).toBeGreaterThan(2 * randomCases(numRuns));
}

test('memory and sqlite find the same runs by any text', async () => {
  await agree(async () => sqlite(makeFile()), 25);
});

test.skipIf(POSTGRES_BIN === undefined)('so do memory and postgres', async () => {
  const server = await startPostgres();
  const { open } = withClock(storesIn(() => ({ url: server.url })));
  await agree(open, 8);
  await server.stop();
});

test('so do memory and restate', async () => {
  const deliveries = { assertTaken() {}, abandon() {}, drive: () => new Promise<null>(() => {}) };
  await agree(async () => {
    const restate = new RestateStandIn();
    restate.serve(() => makeRestateServices(deliveries as never));
    return new RestateStore(restate.calls(), new Map());
  }, 25);
});
