import assert from 'node:assert/strict';
import { omitUndefined } from '../../protocol/json.ts';
import type { ListFilter, Progress, RunStatus, Store } from '../../protocol/store.ts';
import { begin, type Checks, listIds, makeProgress, receive, rejectsWith, WAITING } from './check.ts';

type Found = { agent?: string; title?: string; status?: RunStatus; updated?: number } & Partial<Progress>;

/** Runs that were created in this order, a second apart, with an append each. */
async function beginRuns(store: Store, runs: Record<string, Found>): Promise<void> {
  for (const [index, [runId, found]] of Object.entries(runs).entries()) {
    const { agent = 'refunds', title = runId, status = 'finished', updated, ...progress } = found;
    const at = 1000 + index * 1000;
    await store.create(begin(runId, { at, agent: { name: agent }, title }));
    const standing = { status, progress: makeProgress(status, progress) };
    await store.append(runId, { after: 1, input: true }, [receive('x', updated ?? at)], standing);
  }
}

async function allIds(store: Store, filter: ListFilter): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const { runs, next } = await store.list({ ...filter, ...omitUndefined({ cursor }) });
    ids.push(...runs.map(({ runId }) => runId));
    if (next === undefined) return ids;
    cursor = next;
  }
}

const SORTS: readonly (readonly [NonNullable<ListFilter['sort']>, string])[] = [
  ['created', 'abcde'],
  ['updated', 'edcba'],
  ['title', 'bcdae'],
  ['agent', 'abced'],
  ['status', 'ebdac'],
  ['worked', 'aecdb'],
  ['cost', 'cadbe'],
  ['tokens', 'debca'],
];

export const findChecks: Checks = {
  'a list is sorted by what it names, then by creation, in both directions and over pages': async store => {
    await beginRuns(store, {
      a: { title: 'order', status: 'running', activeMs: 1, cost: 0.2, tokens: 50, updated: 9000 },
      b: { title: 'ARCHIVE', status: 'failed', activeMs: 9, cost: 0.5, tokens: 20, updated: 8000 },
      c: { title: 'archive', status: 'waiting', activeMs: 3, cost: 0.1, tokens: 30, updated: 7000 },
      d: {
        title: 'Boot',
        agent: 'sales',
        status: 'finished',
        activeMs: 4,
        cost: 0.3,
        tokens: 7,
        updated: 6000,
      },
      e: { title: '\u{1f4e6}', status: 'cancelled', activeMs: 2, cost: 1, tokens: 10, updated: 5000 },
    });
    for (const [sort, ids] of SORTS) {
      assert.deepEqual(await listIds(store, { sort, order: 'asc' }), [...ids], sort);
      assert.deepEqual(await listIds(store, { sort }), [...ids].reverse(), sort);
      assert.deepEqual(await allIds(store, { sort, limit: 2 }), [...ids].reverse(), sort);
      assert.deepEqual(await allIds(store, { sort, order: 'asc', limit: 1 }), [...ids], sort);
    }
  },
  'runs without progress are sorted as if they had done nothing': async store => {
    await store.create(begin('a'));
    await beginRuns(store, { b: { cost: 1 } });
    assert.deepEqual(await listIds(store, { sort: 'cost' }), ['b', 'a']);
  },
  'the cursor of a list with another sort is refused': async store => {
    await beginRuns(store, { a: {}, b: {} });
    const { next = '' } = await store.list({ sort: 'cost', limit: 1 });
    assert.equal((await store.list({ sort: 'cost', cursor: next })).runs.length, 1);
    await rejectsWith('input-invalid', store.list({ sort: 'tokens', cursor: next }));
    await rejectsWith('input-invalid', store.list({ cursor: next }));
  },
  'a list skips as many runs as it is asked to, and its pages continue from there': async store => {
    for (let at = 100; at < 120; at += 1) await store.create(begin(`run${at}`, { at }));
    const all = await listIds(store, { limit: 100 });
    assert.deepEqual(await listIds(store, { skip: 3, limit: 4 }), all.slice(3, 7));
    assert.deepEqual(await listIds(store, { skip: 18, limit: 4, order: 'asc' }), ['run118', 'run119']);
    assert.deepEqual(await listIds(store, { skip: 20 }), []);
    assert.deepEqual(await listIds(store, { skip: 1_000_000, limit: 1 }), []);
    const { next = '' } = await store.list({ skip: 5, limit: 5 });
    assert.deepEqual(await listIds(store, { cursor: next, limit: 2 }), all.slice(10, 12));
    await rejectsWith('input-invalid', store.list({ skip: 5, cursor: next }));
    for (const skip of [-1, 0.5, 1_000_001, Number.NaN])
      await rejectsWith('input-invalid', store.list({ skip }));
    for (const other of [{ sort: 'size' }, { folded: false }, { doubt: false }])
      await rejectsWith('input-invalid', store.list(other as object));
  },
  'a folded list has no runs of sub-agents, and of each thread only the latest run': async store => {
    const place = (after: string | null) => ({ events: [], status: 'finished', place: { after } }) as const;
    await store.create(begin('single', { at: 1000 }));
    await store.create(begin('child', { at: 1100, parent: { runId: 'single', callId: 'call' } }));
    await store.create(begin('first', { at: 1200, thread: 't' }), undefined, place(null));
    await store.create(begin('second', { at: 1300, thread: 't' }), undefined, place('first'));
    await store.create(begin('fork', { at: 1400, thread: 't', forkOf: { runId: 'first', at: 1 } }));
    await store.create(begin('other', { at: 1150, thread: 'u' }), undefined, place(null));
    assert.deepEqual(await listIds(store, { folded: true }), ['second', 'other', 'single']);
    assert.deepEqual(await listIds(store, { folded: true, order: 'asc', skip: 1 }), ['other', 'second']);
    assert.deepEqual(await allIds(store, { folded: true, limit: 1 }), ['second', 'other', 'single']);
    assert.deepEqual(await listIds(store, { folded: true, thread: 't' }), ['second']);
    assert.deepEqual(await listIds(store, { folded: true, status: 'running' }), ['single']);
    assert.deepEqual(await listIds(store, { folded: true, latest: true }), ['second', 'other']);
    assert.deepEqual(await listIds(store, { folded: true, parent: 'single' }), []);
  },
  'a folded list has of each session only the newest run with the labels of the filter': async store => {
    const start = (runId: string, at: number, labels: Record<string, string>, more: object = {}) =>
      store.create(begin(runId, { at, labels, ...more }));
    await start('a', 1000, { session: 's', user: '7' });
    await start('b', 2000, { session: 's', user: '8' });
    await start('c', 3000, { session: 's', user: '7', team: 'x' });
    await start('d', 4000, { session: 'other' });
    await start('e', 5000, { user: '7' });
    await start('f', 6000, { session: 's', user: '7' }, { parent: { runId: 'c', callId: 'call' } });
    assert.deepEqual(await listIds(store, { folded: true }), ['e', 'd', 'c']);
    assert.deepEqual(await listIds(store, { folded: true, labels: { user: '8' } }), ['b']);
    assert.deepEqual(await listIds(store, { folded: true, labels: { user: '7' } }), ['e', 'c']);
    assert.deepEqual(await listIds(store, { folded: true, labels: { session: 's' }, sort: 'title' }), ['c']);
    assert.deepEqual(await listIds(store, { folded: true, before: 3000 }), []);
  },
  'a list has only the runs that wait for the decision of a doubt': async store => {
    const waitsFor = (type: 'doubt' | 'approval') => [{ type, callId: 'c', name: 'refund' }];
    await beginRuns(store, {
      a: { status: 'waiting', waitsFor: waitsFor('doubt') },
      b: { status: 'waiting', waitsFor: waitsFor('approval') },
      c: { status: 'cancelled', waitsFor: waitsFor('doubt') },
      d: { status: 'running' },
    });
    assert.deepEqual(await listIds(store, { doubt: true }), ['a']);
    assert.deepEqual(await listIds(store, { doubt: true, status: 'waiting' }), ['a']);
    assert.deepEqual(await listIds(store, { doubt: true, status: 'cancelled' }), []);
  },
  'a list leaves out the runs that wait, and has those of one model and of one error': async store => {
    await beginRuns(store, {
      a: { status: 'waiting', model: 'openai:gpt-5' },
      b: { status: 'failed', model: 'openai:gpt-5', errorCode: 'rate-limit' },
      c: { status: 'failed', model: 'x:"y"', errorCode: 'authentication' },
      d: { status: 'running' },
    });
    assert.deepEqual(await listIds(store, { waiting: false }), ['d', 'c', 'b']);
    assert.deepEqual(await listIds(store, { waiting: false, status: 'waiting' }), []);
    assert.deepEqual(await listIds(store, { model: 'x:"y"' }), ['c']);
    assert.deepEqual(await listIds(store, { model: 'openai:gpt-5' }), ['b', 'a']);
    assert.deepEqual(await listIds(store, { model: 'openai:gpt-5', errorCode: 'rate-limit' }), ['b']);
    assert.deepEqual(await listIds(store, { errorCode: 'other' }), []);
  },
  'a list has the runs of the sub-agents of one run, or of several': async store => {
    for (const [at, parent] of ['', 'a', 'a', 'b', 'c'].entries()) {
      const more = parent === '' ? {} : { parent: { runId: parent, callId: 'call' } };
      await store.create(begin(`run${at}`, { at: 1000 + at, ...more }));
    }
    assert.deepEqual(await listIds(store, { parent: 'a' }), ['run2', 'run1']);
    assert.deepEqual(await listIds(store, { parent: ['b', 'a', 'x'] }), ['run3', 'run2', 'run1']);
    await rejectsWith('input-invalid', store.list({ parent: [] }));
  },
  'a record names the model of its latest turn': async store => {
    await beginRuns(store, { a: { model: 'openai:gpt "5"' } });
    assert.equal((await store.get('a'))?.model, 'openai:gpt "5"');
  },
};

export const totalsChecks: Checks = {
  'totals add up the runs of a filter, in one row or by what is asked': async store => {
    await beginRuns(store, {
      a: { model: 'one:"m"', tokens: 10, cost: 0.5, activeMs: 5, turns: 2, cached: { tokens: 4, of: 8 } },
      b: { model: 'one:"m"', tokens: 20, cost: 0.25, activeMs: 7, turns: 1, cached: { tokens: 1, of: 2 } },
      c: { agent: 'sales', status: 'failed', errorCode: 'limit', tokens: 5, cost: 1, activeMs: 1, turns: 1 },
    });
    await store.create(begin('d', { at: 9000, labels: { team: 'x' } }));
    const none = { turns: 0, tokens: 0, cached: 0, cachedOf: 0, cost: 0, activeMs: 0, doubts: 0 };
    const first = { turns: 3, tokens: 30, cached: 5, cachedOf: 10, cost: 0.75, activeMs: 12, doubts: 0 };
    const sales = { ...none, runs: 1, turns: 1, tokens: 5, cost: 1, activeMs: 1 };
    assert.deepEqual(await store.totals(), {
      rows: [{ ...first, runs: 4, turns: 4, tokens: 35, cost: 1.75, activeMs: 13 }],
    });
    assert.deepEqual(await store.totals({ agent: 'nobody' }), { rows: [{ ...none, runs: 0 }] });
    assert.deepEqual(await store.totals({ agent: 'nobody' }, { by: ['status'] }), { rows: [] });
    assert.deepEqual(await store.totals({}, { by: ['agent', 'status'] }), {
      rows: [
        { agent: 'refunds', status: 'finished', runs: 2, ...first },
        { agent: 'refunds', status: 'running', runs: 1, ...none },
        { agent: 'sales', status: 'failed', ...sales },
      ],
    });
    assert.deepEqual(await store.totals({ agent: 'refunds' }, { by: ['model'] }), {
      rows: [
        { runs: 1, ...none },
        { model: 'one:"m"', runs: 2, ...first },
      ],
    });
    assert.deepEqual((await store.totals({ before: 9000 }, { by: ['errorCode'] })).rows.at(-1), {
      errorCode: 'limit',
      ...sales,
    });
    assert.deepEqual((await store.totals({ since: 9000 }, { by: [{ label: 'team' }] })).rows, [
      { label: 'x', runs: 1, ...none },
    ]);
    assert.deepEqual((await store.totals({ labels: { team: 'x' } })).rows[0]?.runs, 1);
  },
  'totals are grouped by the time of creation, the newest first': async store => {
    await beginRuns(store, { a: {}, b: {}, c: { agent: 'sales' } });
    const { rows } = await store.totals({}, { by: ['agent'], every: 2000 });
    assert.deepEqual(
      rows.map(({ at, agent, runs }) => [at, agent, runs]),
      [
        [2000, 'refunds', 1],
        [2000, 'sales', 1],
        [0, 'refunds', 1],
      ],
    );
  },
  'totals count the runs that wait for the decision of a doubt': async store => {
    const waitsFor: Progress['waitsFor'] = [{ type: 'doubt', callId: 'c', name: 'refund' }];
    await beginRuns(store, { a: { status: 'waiting', waitsFor }, b: { status: 'failed', waitsFor } });
    assert.equal((await store.totals()).rows[0]?.doubts, 1);
  },
  'totals of a folded list count what it lists': async store => {
    await store.create(begin('a'));
    await store.create(begin('b', { parent: { runId: 'a', callId: 'call' } }));
    assert.equal((await store.totals({ folded: true })).rows[0]?.runs, 1);
  },
  'totals by what is unknown, or of a page, are refused': async store => {
    const wrong: [object, object][] = [
      [{ limit: 5 }, {}],
      [{ sort: 'cost' }, {}],
      [{ status: 'dancing' }, {}],
      [{}, { by: ['colour'] }],
      [{}, { by: ['agent', 'agent'] }],
      [{}, { by: [{ label: 'a' }, { label: 'b' }] }],
      [{}, { by: [{ label: '' }] }],
      [{}, { every: 999 }],
      [{}, { every: 1000.5 }],
      [{}, { colour: 1 }],
    ];
    for (const [filter, query] of wrong) await rejectsWith('input-invalid', store.totals(filter, query));
  },
};

async function note(store: Store, runId: string, words: string): Promise<void> {
  const { seq: after = 0, redactions = 0 } = (await store.get(runId)) ?? {};
  const standing = { status: 'running', words } as const;
  await store.append(runId, { after, redactions, input: true }, [receive('x')], standing);
}

export const textChecks: Checks = {
  'a run is found by parts of its id, thread, title, labels and words, all of them': async store => {
    const labels = { team: 'Überland', user: 'u-77' };
    const words = 'please refund \u{1f4e6}parcel 漢字テキスト of café';
    const rest = { events: [], status: 'running', words } as const;
    await store.create(
      begin('run_abc123', { labels, title: 'Order A-1001', thread: 'chat-9' }),
      undefined,
      rest,
    );
    await store.create(begin('run_other', { at: 2000, title: 'Refund "50 %_" ΟΔΟΣ İzmir' }));
    await note(store, 'run_other', "it's late near( the * end");
    const both = ['run_other', 'run_abc123'];
    for (const [text, found] of [
      ['ABC12', ['run_abc123']],
      ['run_', both],
      ['a-1001', ['run_abc123']],
      ['chat-9', ['run_abc123']],
      ['team=überland', ['run_abc123']],
      ['U-77 parcel  refund', ['run_abc123']],
      ['refund', both],
      ['refund order', ['run_abc123']],
      ['字テキ', ['run_abc123']],
      ['\u{1f4e6}', ['run_abc123']],
      ['afé of', ['run_abc123']],
      ['"50 %_"', ['run_other']],
      ["it's near( *", ['run_other']],
      ['οδοσ', ['run_other']],
      ['ΟΔΟΣ IZMIR', ['run_other']],
      ['late\u0000end', ['run_other']],
      ['fund" %_', []],
      ['nowhere', []],
      ['refund nowhere', []],
      ['\ud800', []],
      [' \t', both],
    ] as const)
      assert.deepEqual(await listIds(store, { text }), found, text);
    assert.deepEqual(await listIds(store, { text: 'refund', labels: { user: 'u-77' } }), ['run_abc123']);
    assert.deepEqual(await listIds(store, { text: 'run_', order: 'asc', limit: 1 }), ['run_abc123']);
    assert.equal((await store.totals({ text: 'refund order' })).rows[0]?.runs, 1);
  },
  'the words of the latest commits are found, up to 16,384 characters': async store => {
    await store.create(begin('a'), undefined, { events: [], status: 'running', words: 'earliest' });
    const fill = (letter: string) => letter.repeat(8_000);
    await note(store, 'a', 'second');
    await note(store, 'a', fill('x'));
    assert.deepEqual(await listIds(store, { text: 'earliest second xxxx' }), ['a']);
    await note(store, 'a', fill('y'));
    await note(store, 'a', fill('z'));
    assert.deepEqual(await listIds(store, { text: 'yyyy zzzz' }), ['a']);
    for (const text of ['earliest', 'second', 'xxxx'])
      assert.deepEqual(await listIds(store, { text }), [], text);
    await note(store, 'a', `${'w'.repeat(16_384)} beyond`);
    assert.deepEqual(await listIds(store, { text: 'wwww' }), ['a']);
    assert.deepEqual(await listIds(store, { text: 'beyond' }), []);
    await note(store, 'a', `${'v'.repeat(16_383)}\u{1f4e6}`);
    assert.deepEqual(await listIds(store, { text: 'vvvv' }), ['a']);
    for (const text of ['wwww', '\ufffd', '\ud83d'])
      assert.deepEqual(await listIds(store, { text }), [], text);
  },
  'an append without entries adds no words, and the run keeps those it has': async store => {
    await store.create(begin('a'));
    await note(store, 'a', 'earlier');
    const standing = { status: 'waiting', words: 'later' } as const;
    await store.append('a', { after: 2, input: true }, [], standing);
    assert.deepEqual(await listIds(store, { text: 'earlier' }), ['a']);
    assert.deepEqual(await listIds(store, { text: 'later' }), []);
  },
  'a list of threads has those with a run that has all the words': async store => {
    let at = 1000;
    const start = async (runId: string, words: string, more: object, place?: { after: string | null }) => {
      at += 1000;
      const rest = { events: [], status: 'finished', words, ...(place && { place }) } as const;
      await store.create(begin(runId, { at, thread: 't', title: 'x', ...more }), undefined, rest);
    };
    const seven = { labels: { user: '7' } };
    await start('old', 'the blue parcel', seven, { after: null });
    await start('new', 'a red 箱', seven, { after: 'old' });
    await start('fork', 'green', { ...seven, forkOf: { runId: 'old', at: 1 } });
    await start('foreign', 'a blue parcel', { labels: { user: '8' } }, { after: null });
    await start('other', 'yellow parcel', { ...seven, thread: 'u' }, { after: null });
    await store.create(begin('single', seven), undefined, {
      ...WAITING,
      events: [],
      words: 'the blue parcel',
    });
    for (const [text, found] of [
      ['parcel', ['other', 'new']],
      ['parcel BLUE', ['new']],
      ['箱', ['new']],
      ['lu', ['new']],
      ['blue red', []],
      ['green', []],
    ] as const)
      assert.deepEqual(await listIds(store, { text, latest: true, labels: { user: '7' } }), found, text);
    assert.deepEqual(await listIds(store, { text: 'blue', latest: true }), ['foreign', 'new']);
    const thread = { id: 't', ...seven };
    assert.deepEqual(await listIds(store, { text: 'blue', latest: true, thread }), ['new']);
    assert.deepEqual(await listIds(store, { text: 'yellow', latest: true, thread }), []);
    const first = await store.list({ text: 'blue', latest: true, limit: 1 });
    const second = await store.list({ text: 'blue', latest: true, cursor: first.next ?? '' });
    assert.deepEqual(
      [first, second].flatMap(({ runs }) => runs.map(({ runId }) => runId)),
      ['foreign', 'new'],
    );
    assert.equal((await store.totals({ text: 'blue', latest: true })).rows[0]?.runs, 2);
  },
  'a redaction replaces the words of a run, and a deleted run is not found': async store => {
    const rest = { events: [receive('secret')], status: 'waiting', words: 'the secret word' } as const;
    await store.create(begin('a', { title: 'Secret title' }), undefined, rest);
    await store.create(begin('b', { at: 2000 }), undefined, rest);
    assert.deepEqual(await listIds(store, { text: 'secret' }), ['b', 'a']);
    const redaction = {
      blobs: [],
      state: {},
      progress: makeProgress('waiting'),
      now: 5000,
      isDead: () => false,
    };
    const first = { seq: 1, event: begin('a', { title: 'Other title' }) };
    const more = { after: 2, redactions: 0, words: 'the [redacted] word', entries: [first] };
    await store.rewrite('a', { ...redaction, ...more });
    assert.deepEqual(await listIds(store, { text: 'secret' }), ['b']);
    assert.deepEqual(await listIds(store, { text: 'other redacted word' }), ['a']);
    await store.rewrite('a', { ...redaction, after: 2, redactions: 1, entries: [first] });
    assert.deepEqual(await listIds(store, { text: 'redacted' }), []);
    await store.delete('b', { now: 5000 });
    assert.deepEqual(await listIds(store, { text: 'secret' }), []);
  },
};
