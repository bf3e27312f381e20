import assert from 'node:assert/strict';
import { omitUndefined } from '../../protocol/json.ts';
import type { ListFilter, RunRecord, Store } from '../../protocol/store.ts';
import {
  begin,
  type Checks,
  listIds,
  makeProgress,
  RUNNING,
  receive,
  rejectsWith,
  request,
  say,
  WAITING,
} from './check.ts';

async function listPages(store: Store, filter: ListFilter, between = async () => {}): Promise<string[][]> {
  const pages: string[][] = [];
  for (let cursor: string | undefined; ; ) {
    const { runs, next } = await store.list({ ...filter, ...omitUndefined({ cursor }) });
    pages.push(runs.map(({ runId }) => runId));
    if (next === undefined) return pages;
    cursor = next;
    await between();
  }
}

/** Seven runs, `a` to `g` by age, of two users and two agents. */
async function beginSeven(store: Store): Promise<void> {
  for (const [index, runId] of [...'abcdefg'].entries()) {
    const labels = { user: index % 2 === 0 ? '7' : '8', ...(index < 3 && { tenant: 'a' }) };
    const agent = { name: index < 4 ? 'refunds' : 'sales' };
    await store.create(begin(runId, { at: 1000 + index, labels, agent, title: `Order A-${index}` }));
  }
}

export const listChecks: Checks = {
  'runs are listed newest first, and by id if created at the same time': async store => {
    for (const [runId, at] of [
      ['b', 2000],
      ['old', 1000],
      ['c', 2000],
      ['new', 3000],
    ] as const) {
      await store.create(begin(runId, { at }));
    }
    await store.append('old', { after: 1, input: true }, [receive('x', 9000)], RUNNING);
    assert.deepEqual(await listIds(store), ['new', 'c', 'b', 'old']);
    assert.deepEqual(await listIds(store, { order: 'asc' }), ['old', 'b', 'c', 'new']);
    assert.deepEqual((await store.list()).runs[0], await store.get('new'));
  },
  'a record has the title, the labels, the origin and the latest progress of its run': async store => {
    const labels = { user: '7', 'cost centre': 'Ä "4" \\ 5' };
    const parent = { runId: 'p"1', callId: 'call\u0000' };
    const forkOf = { runId: 'f', at: 3 };
    const rest = { events: [], status: 'running', progress: makeProgress('turn.planning') } as const;
    await store.create(begin('a', { labels, parent, forkOf, title: 'Refund "A-1" \\ ü' }), undefined, rest);
    const known = { labels, parent, forkOf, title: 'Refund "A-1" \\ ü' };
    const pick = ({ labels, parent, forkOf, title }: RunRecord) => ({ labels, parent, forkOf, title });
    const [first] = (await store.list()).runs;
    assert.deepEqual(first && pick(first), known);
    assert.equal(first?.state, 'turn.planning');
    const progress = makeProgress('finished', {
      why: 'the model answered',
      turns: 3,
      tokens: 900,
      cost: 0.25,
      activeMs: 12,
      endedAt: 2000,
      incomplete: { reason: 'length' },
      errorCode: 'none',
      waitsFor: [{ type: 'approval', callId: 'c', name: 'refund' }],
    });
    await store.append('a', { after: 1, input: true }, [receive('x')], { status: 'finished', progress });
    const { runs } = await store.list({ status: 'finished' });
    assert.deepEqual(runs, [await store.get('a')]);
    assert.deepEqual(runs[0] && { ...runs[0], ...progress, ...known }, runs[0]);
    await store.append('a', { after: 2, input: true }, [receive('y')], { status: 'finished' });
    await store.claim('a', request('one'));
    assert.equal((await store.get('a'))?.turns, 3);
  },
  'a run without a title has the first line of its input, and one without labels has none': async store => {
    await store.create(begin('a', { input: [say('\n  Refund order A-1,\r\nplease')] }));
    await store.create(begin('b', { at: 2000, input: [say('x'.repeat(300))] }));
    await store.create(begin('c', { at: 3000, input: [] }));
    const { runs } = await store.list({ order: 'asc' });
    const titles = runs.map(({ title }) => title);
    assert.deepEqual(titles, ['Refund order A-1,', `${'x'.repeat(199)}…`, '']);
    assert.deepEqual([runs[0]?.labels, runs[0]?.state, runs[0]?.turns], [{}, 'running', 0]);
  },
  'a list can be filtered by status, agent, labels, parent and time, together': async store => {
    await beginSeven(store);
    for (const runId of ['b', 'c', 'f'])
      await store.append(runId, { after: 1, input: true }, [receive('x')], WAITING);
    await store.create(begin('child', { at: 500, parent: { runId: 'a', callId: 'call' } }));
    assert.deepEqual(await listIds(store, { status: 'waiting' }), ['f', 'c', 'b']);
    assert.deepEqual(await listIds(store, { status: 'finished' }), []);
    assert.deepEqual(await listIds(store, { agent: 'sales' }), ['g', 'f', 'e']);
    assert.deepEqual(await listIds(store, { labels: { user: '7' } }), ['g', 'e', 'c', 'a']);
    assert.deepEqual(await listIds(store, { labels: { user: '7', tenant: 'a' } }), ['c', 'a']);
    assert.deepEqual(await listIds(store, { labels: { user: 'a' } }), []);
    assert.deepEqual(await listIds(store, { labels: {} }), [...'gfedcba', 'child']);
    assert.deepEqual(await listIds(store, { parent: 'a' }), ['child']);
    assert.deepEqual(await listIds(store, { since: 1002, before: 1005 }), ['e', 'd', 'c']);
    const filter = { status: 'waiting', labels: { user: '8' }, agent: 'refunds', since: 1001 } as const;
    assert.deepEqual(await listIds(store, filter), ['b']);
    assert.deepEqual(await listIds(store, { ...filter, before: 1001 }), []);
  },
  'a list can be searched for a part of the title, in upper or lower case': async store => {
    const titles = ['Refund A-1', 'Ärger with 100 % "refunds"', 'Sale_2'];
    for (const [at, title] of titles.entries()) await store.create(begin(`run${at}`, { at, title }));
    assert.deepEqual(await listIds(store, { text: 'REFUND' }), ['run1', 'run0']);
    assert.deepEqual(await listIds(store, { text: 'ärger' }), ['run1']);
    assert.deepEqual(await listIds(store, { text: '% "' }), ['run1']);
    assert.deepEqual(await listIds(store, { text: '_' }), ['run2']);
    assert.deepEqual(await listIds(store, { text: '\\' }), []);
  },
  'a list has 50 runs unless limited, and pages continue to its end': async store => {
    for (let at = 100; at < 155; at += 1) await store.create(begin(`run${at}`, { at }));
    const { runs, next } = await store.list();
    assert.equal(runs.length, 50);
    assert.ok(next !== undefined);
    assert.deepEqual(await listIds(store, { cursor: next, limit: 2 }), ['run104', 'run103']);
    const all = await listIds(store, { limit: 1000 });
    for (const limit of [7, 11, 54, 55]) {
      const pages = await listPages(store, { limit });
      assert.deepEqual(pages.flat(), all);
      assert.equal(pages.length, Math.ceil(55 / limit));
    }
    const oldest = await listPages(store, { limit: 20, order: 'asc', before: 130 });
    assert.deepEqual(oldest.flat(), all.toReversed().slice(0, 30));
  },
  'pages neither repeat nor miss a run while others are created, changed and deleted': async store => {
    for (const runId of 'abcdefgh') await store.create(begin(runId, { labels: { user: '7' } }));
    let added = 0;
    const pages = await listPages(store, { limit: 2, labels: { user: '7' } }, async () => {
      added += 1;
      await store.create(begin(`new${added}`, { at: 2000 + added, labels: { user: '7' } }));
      const { seq = 0 } = (await store.get('a')) ?? {};
      await store.append('a', { after: seq, input: true }, [receive('x')], WAITING);
      if (added === 1) for (const runId of ['h', 'e']) await store.delete(runId);
    });
    assert.deepEqual(pages.flat(), [...'hgfdcba']);
  },
  'the cursor of a list with another filter or order is refused, and so is any other text': async store => {
    await beginSeven(store);
    const filter = { labels: { user: '7' }, status: 'running' } as const;
    const { next = '' } = await store.list({ ...filter, limit: 1 });
    assert.deepEqual(await listIds(store, { status: 'running', labels: { user: '7' }, cursor: next }), [
      ...'eca',
    ]);
    const others: ListFilter[] = [
      { ...filter, labels: { user: '8' } },
      { ...filter, labels: { user: '7', tenant: 'a' } },
      { ...filter, order: 'asc' },
      { ...filter, since: 1 },
      { ...filter, text: 'order' },
      { labels: { user: '7' } },
      { status: 'running' },
      {},
    ];
    for (const other of others) await rejectsWith('input-invalid', store.list({ ...other, cursor: next }));
    for (const cursor of ['', '1', 'a', next.slice(1), next.slice(0, -4), btoa('[1,2]'), '\ud800'])
      await rejectsWith('input-invalid', store.list({ ...filter, cursor }));
  },
  'a filter out of bounds is refused, not narrowed': async store => {
    const invalid = [
      ...[0, -1, 1.5, 1001, Number.NaN].map(limit => ({ limit })),
      ...['since', 'before'].map(time => ({ [time]: Number.NaN })),
      ...[{ user: 7 }, ['user'], 'user=7', { user: '' }].map(labels => ({ labels })),
      ...[{ status: 'dancing' }, { order: 'newest' }, { text: '' }, { text: 'x'.repeat(201) }, { colour: 1 }],
    ];
    for (const filter of invalid) await rejectsWith('input-invalid', store.list(filter as ListFilter));
  },
  'a run with labels or a title out of bounds is not created': async store => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`name${index}`, 'value']));
    const invalid: unknown[] = [
      ...[many(17), { user: 7 }, { user: null }, { user: '' }, { '': '7' }, { 'a=b': '7' }],
      ...[{ ['n'.repeat(65)]: '7' }, { user: 'v'.repeat(257) }, { user: 'a\nb' }, { 'a\u0000': '7' }],
      ...[{ user: '\ud800' }, ['7'], '7', null],
    ];
    for (const labels of invalid)
      await rejectsWith('input-invalid', store.create(begin('a', { labels } as object)));
    for (const title of ['', 'a\nb', 'x'.repeat(201), 7])
      await rejectsWith('input-invalid', store.create(begin('a', { title } as object)));
    assert.deepEqual((await store.list()).runs, []);
    const labels = { ...many(14), ['n'.repeat(64)]: 'v'.repeat(256), constructor: '__proto__' };
    await store.create(begin('a', { labels }));
    assert.deepEqual((await store.list({ labels })).runs[0]?.labels, labels);
  },
  'runs are counted by status': async store => {
    if (store.count === undefined) return;
    await store.create(begin('a'));
    await store.create(begin('b'));
    await store.append('b', { after: 1, input: true }, [receive('2')], WAITING);
    const counts = { running: 1, waiting: 1, finished: 0, failed: 0, cancelled: 0 };
    assert.deepEqual(await store.count(), counts);
  },
  'a deleted run is in no list, and a run with its id has only its own labels': async store => {
    await store.create(begin('a', { labels: { user: '7' } }));
    await store.delete('a', { now: 5000 });
    await store.create(begin('a', { labels: { tenant: 'b' } }));
    assert.deepEqual(await listIds(store, { labels: { user: '7' } }), []);
    assert.deepEqual((await store.get('a'))?.labels, { tenant: 'b' });
  },
  'a redaction of the first entry replaces the title, and every redaction the progress': async store => {
    const secret = makeProgress('resting.paused', { why: 'secret' });
    const rest = { events: [receive('two')], status: 'waiting', progress: secret } as const;
    await store.create(begin('a', { input: [say('secret')] }), undefined, rest);
    assert.deepEqual(await listIds(store, { text: 'secret' }), ['a']);
    const progress = makeProgress('resting.paused', { why: 'gone' });
    const redaction = { after: 2, redactions: 0, blobs: [], state: {}, progress };
    const at = { now: 5000, isDead: () => false };
    await store.rewrite('a', { ...redaction, ...at, entries: [{ seq: 2, event: receive('gone') }] });
    const [kept] = (await store.list()).runs;
    assert.deepEqual([kept?.title, kept?.why], ['secret', 'gone']);
    const first = { seq: 1, event: begin('a', { input: [say('gone')] }) };
    await store.rewrite('a', { ...redaction, ...at, redactions: 1, entries: [first] });
    assert.equal((await store.get('a'))?.title, 'gone');
    assert.deepEqual(await listIds(store, { text: 'secret' }), []);
  },
};

export const lastingListChecks: Checks = {
  'lists and their cursors survive reopening the store': async (store, { reopen }) => {
    await beginSeven(store);
    const progress = makeProgress('finished', { endedAt: 2000 });
    await store.append('g', { after: 1, input: true }, [receive('x')], { status: 'finished', progress });
    const { runs, next } = await store.list({ labels: { user: '7' }, limit: 1 });
    const later = await reopen();
    assert.deepEqual((await later.list({ labels: { user: '7' }, limit: 1 })).runs, runs);
    assert.deepEqual(await listIds(later, { labels: { user: '7' }, ...omitUndefined({ cursor: next }) }), [
      ...'eca',
    ]);
  },
};
