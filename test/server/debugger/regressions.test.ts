import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { appendEvidence } from '../../../engine/journal/evidence.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Regression, RegressionSums } from '../../../regress/regression.ts';
import { memory } from '../../../stores/memory.ts';
import { makeNote, NEW_REFUND, playRun } from '../../support/regress/played-runs.ts';
import { DONE, makeApp, makeTools, REFUND, type TestApp } from '../../support/server/runs-app.ts';

type Page = { regressions: Regression[]; next?: string };

const makeDesk = (store: Store) =>
  createAgent({ name: 'desk', model: scripted([REFUND, DONE]), tools: makeTools(), store });

const read = async (app: TestApp, query = '', headers?: Record<string, string>) =>
  (await (await app.send('GET', `/regressions${query}`, undefined, headers)).json()) as Page;

const addUp = async (app: TestApp, query = '', headers?: Record<string, string>) =>
  (await (await app.send('GET', `/regressions/sums${query}`, undefined, headers)).json()) as RegressionSums;

test('a played run is shown with what its note says, under the title of its recording', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const app = makeApp({ store });
  await desk.start('Pay Ada back.', { runId: 'run_a', title: 'The first refund' });
  const note = makeNote('run_a', {
    differences: [NEW_REFUND],
    score: { recorded: 1, candidate: 0 },
    stopped: true,
  });
  const candidate = await playRun(desk, 'Pay Ada back.', note);
  const createdAt = (await store.get(candidate))?.createdAt;
  const { of: runId, ...comparison } = note;
  const title = 'The first refund';
  expect(await read(app)).toEqual({
    regressions: [{ runId, candidate, ...comparison, title, agent: 'desk', createdAt }],
  });
  await store.delete('run_a');
  expect((await read(app)).regressions).toMatchObject([{ runId: 'run_a', title: 'Pay Ada back.' }]);
});

test('pages have each played run of a side once, and those of one recording can be asked for', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const app = makeApp({ store });
  await app.begin();
  const played = new Map<string, string[]>([
    ['candidate', []],
    ['baseline', []],
  ]);
  for (const recorded of ['run_a', 'run_b', 'run_c'])
    for (const side of ['candidate', 'candidate', 'baseline'] as const) {
      const known = played.get(side) ?? [];
      known.unshift(await playRun(desk, 'go', makeNote(recorded, { side, sample: known.length + 1 })));
      played.set(side, known);
    }
  const seen: string[] = [];
  for (let cursor = ''; ; ) {
    const page = await read(app, `?limit=4${cursor}`);
    seen.push(...page.regressions.map(({ candidate }) => candidate));
    if (page.next === undefined) break;
    cursor = `&cursor=${page.next}`;
  }
  expect([...seen].sort()).toEqual([...(played.get('candidate') ?? [])].sort());
  const baselines = (await read(app, '?side=baseline')).regressions;
  expect(baselines.map(({ runId, side }) => `${runId} ${side}`).sort()).toEqual([
    'run_a baseline',
    'run_b baseline',
    'run_c baseline',
  ]);
  const ofB = (await read(app, '?of=run_b&order=asc')).regressions;
  expect(ofB.map(({ runId }) => runId)).toEqual(['run_b', 'run_b']);
  for (const wrong of ['?limit=0', '?limit=201', '?cursor=x', '?side=both', '?sameness=same', '?of='])
    expect((await app.send('GET', `/regressions${wrong}`)).status).toBe(400);
});

test('notes of others, damaged notes and runs without a note are left out, and the others are shown', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const app = makeApp({ store });
  const good = await playRun(desk, 'go', makeNote('run_a'));
  const { sameness: _, ...without } = makeNote('run_a');
  for (const written of ['x', null, [], {}, without, { ...makeNote('run_a'), differences: [{ turn: '1' }] }])
    await playRun(desk, 'go', makeNote('run_a'), { written });
  for (const other of [makeNote('run_b'), makeNote('run_a', { side: 'baseline' })])
    await playRun(desk, 'go', makeNote('run_a'), { written: { ...other } as never });
  const labels = { regress: 'candidate', of: 'run_a', sample: '1' };
  const bare = await desk.start('go', { labels });
  await bare.settled();
  await appendEvidence(store, bare.id, {
    type: 'run.noted',
    at: 1,
    by: 'me',
    note: { ...makeNote('run_a') },
  });
  await playRun(desk, 'go', makeNote('run_a'), { written: { ...makeNote('run_a'), extra: 1 } });
  const { regressions } = await read(app);
  expect(regressions).toHaveLength(2);
  expect(regressions.map(({ candidate }) => candidate)).toContain(good);
  expect(regressions.every(one => !('extra' in one))).toBe(true);
});

test('only the end of a journal is read, once, and a note is found behind what was done with the run afterwards', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const reads: number[] = [];
  const readEntries = store.read.bind(store);
  const candidate = await playRun(desk, 'go', makeNote('run_a'));
  store.read = async (...args) => {
    const entries = await readEntries(...args);
    reads.push(entries.length);
    return entries;
  };
  const app = makeApp({ store });
  expect((await read(app)).regressions).toHaveLength(1);
  expect(reads).toEqual([1]);
  await read(app);
  expect(reads).toEqual([1]);
  const seen = { type: 'run.noted', at: 1, by: 'me', note: 'seen' } as const;
  for (let n = 0; n < 60; n += 1) await appendEvidence(store, candidate, seen);
  expect((await read(app)).regressions).toHaveLength(1);
});

test('a played run that is deleted while the list is made is left out', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const kept = await playRun(desk, 'go', makeNote('run_a'));
  const deleted = await playRun(desk, 'go', makeNote('run_b'));
  const app = makeApp({ store });
  const list = store.list.bind(store);
  store.list = async filter => {
    const page = await list(filter);
    if (page.runs.some(({ runId }) => runId === deleted)) await store.delete(deleted);
    return page;
  };
  expect((await read(app)).regressions).toMatchObject([{ candidate: kept }]);
});

test('a journal that is damaged is left out, and a store that fails is an error', async () => {
  const store = memory();
  const desk = makeDesk(store);
  await playRun(desk, 'go', makeNote('run_a'));
  const app = makeApp({ store });
  const readEntries = store.read.bind(store);
  store.read = () => Promise.reject(new Error('The disk is away.'));
  expect((await app.send('GET', '/regressions')).status).toBe(500);
  store.read = readEntries;
  expect((await read(app)).regressions).toHaveLength(1);
  const damaged = await playRun(desk, 'go', makeNote('run_a'));
  store.read = (runId, ...rest) =>
    runId === damaged
      ? Promise.reject(new EngineError('journal-damaged', 'Entry 4 is damaged.'))
      : readEntries(runId, ...rest);
  expect((await read(app)).regressions).toHaveLength(1);
});

test('a caller with labels sees the played runs that have them, and no title of another tenant', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const tokens = {
    a: { token: 'a'.repeat(32), role: 'viewer', labels: { tenant: 'a' } },
    all: { token: 'c'.repeat(32), role: 'viewer' },
    client: { token: 'd'.repeat(32), role: 'client' },
  } as const;
  const app = makeApp({ store, tokens });
  await desk.start('go', { runId: 'run_a', labels: { tenant: 'b' }, title: 'A secret of b' });
  await playRun(desk, 'Say hello.', makeNote('run_a'), { labels: { tenant: 'a' } });
  await playRun(desk, 'go', makeNote('run_a'), { labels: { tenant: 'b' } });
  const as = (who: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[who].token}` });
  const titles = async (who: keyof typeof tokens) =>
    (await read(app, '', as(who))).regressions.map(({ title }) => title);
  expect(await titles('a')).toEqual(['Say hello.']);
  expect(await titles('all')).toEqual(['A secret of b', 'A secret of b']);
  expect((await read(app, '?label=tenant%3Da', as('all'))).regressions).toHaveLength(1);
  expect((await app.send('GET', '/regressions?label=tenant%3Db', undefined, as('a'))).status).toBe(403);
  expect((await app.send('GET', '/regressions', undefined, as('client'))).status).toBe(403);
  expect((await app.send('GET', '/regressions')).status).toBe(401);
});

const OTHER_INPUT = {
  kind: 'input',
  turn: 1,
  tool: 'lookup',
  detail: 'lookup {"id":2} (was {"id":1})',
} as const;

test('sums are of the recorded runs that match, by their worst samples, and tell what is noise', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const app = makeApp({ store });
  const play = (of: string, changes: Parameters<typeof makeNote>[1]) =>
    playRun(desk, 'go', makeNote(of, changes));
  const cost = (candidate: number) => ({ recorded: 4, candidate });
  const same = await play('run_a', { cost: cost(2) });
  const paid = await play('run_a', { sample: 2, differences: [OTHER_INPUT, NEW_REFUND], cost: cost(4) });
  const noisy = await play('run_b', { differences: [NEW_REFUND, OTHER_INPUT], cost: cost(8) });
  const gone = await play('run_c', { sameness: 'undecidable', why: 'It is gone.' });
  await play('run_b', { side: 'baseline', differences: [{ ...OTHER_INPUT, turn: 2 }] });
  await play('run_a', { side: 'baseline' });

  const all = await addUp(app);
  const { played, ...sums } = all;
  expect(sums).toMatchObject({
    runs: 3,
    says: [
      'cost $4.00 → $5.50, +37.5 % (−756.6 % to +831.6 %)',
      'turns 2.0',
      expect.stringMatching(/^tokens 1,200 → 900, −25\.0 %/),
    ],
    paired: { cost: { runs: 2, recorded: 4, candidate: 5.5, difference: 1.5 } },
    baseline: { runs: 2, differing: 1 },
  });
  expect(sums.paired.cost.interval?.low).toBeCloseTo(1.5 - 12.7062 * 2.5);
  expect(sums.paired).not.toHaveProperty('score');
  expect(new Map(played.map(({ candidate, ...rest }) => [candidate, rest]))).toEqual(
    new Map([
      [same, { worst: 'otherEffects', noise: [] }],
      [paid, { worst: 'otherEffects', noise: [] }],
      [noisy, { worst: 'otherEffects', noise: [1] }],
      [gone, { worst: 'undecidable', noise: [] }],
    ]),
  );

  const only = async (query: string) => {
    const { runs, paired, baseline, played: others } = await addUp(app, query);
    expect(others).toEqual(played);
    return [runs, paired.cost.runs, paired.cost.candidate, baseline?.differing];
  };
  expect(await only('?kind=new-call')).toEqual([2, 2, 6, 0]);
  expect(await only('?kind=input&tool=lookup')).toEqual([2, 2, 6, 1]);
  expect(await only('?kind=input&tool=refund')).toEqual([0, 0, 0, 0]);
  expect(await only('?sameness=undecidable')).toEqual([1, 0, 0, 1]);
  expect(await only('?sameness=same')).toEqual([0, 0, 0, 1]);
  for (const wrong of ['?side=baseline', '?limit=2', '?label=x'])
    expect((await app.send('GET', `/regressions/sums${wrong}`)).status).toBe(400);
});

test('a difference that a sample has more often than the baseline is no noise', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const app = makeApp({ store });
  const again = { ...OTHER_INPUT, turn: 2 };
  await playRun(desk, 'go', makeNote('run_a', { side: 'baseline', differences: [OTHER_INPUT] }));
  const once = await playRun(desk, 'go', makeNote('run_a', { differences: [OTHER_INPUT] }));
  const twice = await playRun(
    desk,
    'go',
    makeNote('run_a', { sample: 2, differences: [OTHER_INPUT, NEW_REFUND, again] }),
  );
  const noise = new Map((await addUp(app)).played.map(one => [one.candidate, one.noise]));
  expect(noise).toEqual(
    new Map([
      [once, [0]],
      [twice, [0]],
    ]),
  );
});

test('sums are of all pages, and without a baseline there is no noise', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const app = makeApp({ store });
  const list = store.list.bind(store);
  store.list = filter => list({ ...filter, limit: 2 });
  for (let n = 0; n < 5; n += 1)
    await playRun(desk, 'go', makeNote(`run_${n}`, { differences: [NEW_REFUND] }));
  const { runs, played, ...sums } = await addUp(app);
  expect([runs, played.length]).toEqual([5, 5]);
  expect(played.every(({ noise }) => noise.length === 0)).toBe(true);
  expect(sums).not.toHaveProperty('baseline');
});

test('a caller with labels gets the sums of the played runs that have them', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const tokens = {
    a: { token: 'a'.repeat(32), role: 'viewer', labels: { tenant: 'a' } },
    client: { token: 'd'.repeat(32), role: 'client' },
  } as const;
  const app = makeApp({ store, tokens });
  const mine = await playRun(desk, 'go', makeNote('run_a'), { labels: { tenant: 'a' } });
  await playRun(desk, 'go', makeNote('run_b'), { labels: { tenant: 'b' } });
  await playRun(desk, 'go', makeNote('run_b', { side: 'baseline' }), { labels: { tenant: 'b' } });
  const as = (who: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[who].token}` });
  const sums = await addUp(app, '', as('a'));
  expect(sums.played.map(({ candidate }) => candidate)).toEqual([mine]);
  expect([sums.runs, sums.baseline]).toEqual([1, undefined]);
  const status = async (query: string, who: keyof typeof tokens) =>
    (await app.send('GET', `/regressions/sums${query}`, undefined, as(who))).status;
  expect(await status('?label=tenant%3Db', 'a')).toBe(403);
  expect(await status('', 'client')).toBe(403);
});

test('a caller whose label is a side gets no sums of the other side', async () => {
  const store = memory();
  const desk = makeDesk(store);
  const token = 'a'.repeat(32);
  const app = makeApp({ store, tokens: { a: { token, role: 'viewer', labels: { regress: 'baseline' } } } });
  await playRun(desk, 'go', makeNote('run_a'));
  const answer = await app.send('GET', '/regressions/sums', undefined, { authorization: `Bearer ${token}` });
  expect(answer.status).toBe(403);
});

test('browsers get the page at its address, and programs the JSON', async () => {
  const assets = { html: '<!doctype html><title>page</title>', find: () => undefined };
  const app = makeApp({ assets });
  const page = await app.send('GET', '/regressions', undefined, { accept: 'text/html' });
  expect([page.headers.get('content-type'), page.headers.get('vary')]).toEqual([
    'text/html; charset=UTF-8',
    expect.stringContaining('Accept'),
  ]);
  expect(await read(app)).toEqual({ regressions: [] });
});
