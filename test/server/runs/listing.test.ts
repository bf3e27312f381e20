import { beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { Totals } from '../../../protocol/listing/totals.ts';
import type { RunSummary } from '../../../protocol/run-view.ts';
import { DONE, errorOf, makeApp, REFUND, type TestApp } from '../../support/server/runs-app.ts';

type Folded = {
  rows: { runId: string; subAgents: number; together?: { kind: string; title: string; runs: number } }[];
};

type Page = { runs: RunSummary[]; next?: string };

describe('GET /runs', () => {
  let desk: TestApp;
  const ids: Record<string, string> = {};
  const list = async (query: string): Promise<Page> =>
    (await (await desk.send('GET', `/runs${query}`)).json()) as Page;
  const titles = async (query: string) => (await list(query)).runs.map(({ title }) => title);

  beforeAll(async () => {
    desk = makeApp({ turns: Array.from({ length: 4 }, () => [REFUND, DONE]).flat() });
    for (const [user, tenant] of [
      ['7', 'a'],
      ['8', 'a'],
      ['7', 'b'],
    ]) {
      const title = `Refund ${user}${tenant}`;
      const { runId } = await desk.begin({ input: 'go', labels: { user, tenant }, title });
      ids[title] = runId;
    }
    const { runId } = await desk.begin({ input: 'Hello, desk\nand more', labels: {} });
    ids.plain = runId;
  });

  test('describes each run: title, labels, state, turns, and what it waits for', async () => {
    const { runs } = await list('');
    expect(runs).toHaveLength(4);
    expect(runs[0]).toMatchObject({ runId: ids.plain, title: 'Hello, desk', labels: {}, turns: 1 });
    expect(runs[3]).toMatchObject({
      title: 'Refund 7a',
      labels: { user: '7', tenant: 'a' },
      status: 'waiting',
      state: 'resting.awaitingApproval',
      turns: 1,
      why: expect.stringContaining('needs a decision'),
      waitsFor: [{ type: 'approval', name: 'refund' }],
    });
    const view = await desk.view(ids['Refund 7a'] ?? '');
    expect(view).toMatchObject({ title: 'Refund 7a', labels: { user: '7', tenant: 'a' } });
  });

  test('filters by labels, status, agent, text and time', async () => {
    expect(await titles('?label=user%3D7')).toEqual(['Refund 7b', 'Refund 7a']);
    expect(await titles('?label=user%3D7&label=tenant%3Db')).toEqual(['Refund 7b']);
    expect(await titles('?label=user%3D9')).toEqual([]);
    expect(await titles('?status=waiting&text=REFUND&order=asc')).toEqual([
      'Refund 7a',
      'Refund 8a',
      'Refund 7b',
      'Hello, desk',
    ]);
    expect(await titles('?status=waiting&text=unicorn')).toEqual([]);
    expect(await titles('?agent=other')).toEqual([]);
    expect(await titles(`?since=${Date.now() + 60_000}`)).toEqual([]);
    expect(await titles(`?before=${Date.now() + 60_000}&limit=1`)).toEqual(['Hello, desk']);
  });

  test('is sorted, skipped and folded as asked, and refuses what is out of bounds', async () => {
    expect(await titles('?sort=title&order=asc')).toEqual([
      'Hello, desk',
      'Refund 7a',
      'Refund 7b',
      'Refund 8a',
    ]);
    expect(await titles('?skip=1&limit=2')).toEqual(['Refund 7b', 'Refund 8a']);
    expect(await titles('?folded=true&sort=created')).toHaveLength(4);
    expect(await titles('?doubt=true')).toEqual([]);
    expect((await list('')).runs[0]?.model).toBe('scripted:script');
    expect(await titles('?model=scripted%3Ascript&waiting=false')).toEqual([]);
    expect(await titles('?errorCode=rate-limit')).toEqual([]);
    for (const query of ['?sort=size', '?waiting=true', '?skip=-1', '?skip=1.5', '?folded=yes', '?doubt=1'])
      expect((await desk.send('GET', `/runs${query}`)).status).toBe(400);
  });

  test('has totals by what is asked, of the runs that the caller sees', async () => {
    const totals = async (query: string) =>
      ((await (await desk.send('GET', `/totals${query}`)).json()) as Totals).rows;
    expect(await totals('')).toMatchObject([{ runs: 4, turns: 4, doubts: 0 }]);
    expect(await totals('?by=label:user&by=status&label=tenant%3Da')).toMatchObject([
      { label: '7', status: 'waiting', runs: 1 },
      { label: '8', status: 'waiting', runs: 1 },
    ]);
    expect(await totals('?by=model&every=86400000')).toMatchObject([{ model: 'scripted:script', runs: 4 }]);
    for (const query of ['?by=colour', '?by=label:', '?every=5', '?limit=5', '?by=status&by=status'])
      expect((await desk.send('GET', `/totals${query}`)).status).toBe(400);
  });

  test('says what its folded rows stand for, of the runs that exist', async () => {
    const shop = makeApp({ turns: Array.from({ length: 3 }, () => [REFUND, DONE]).flat() });
    const chosen: string[] = [];
    for (const user of ['7', '7', '8'])
      chosen.push((await shop.begin({ input: 'go', labels: { session: 's', user }, title: user })).runId);
    const [first = '', second = '', other = ''] = chosen;
    const query = [...chosen, 'none'].map(id => `run=${id}`).join('&');
    const { rows } = (await (await shop.send('GET', `/folded?${query}`)).json()) as Folded;
    expect(rows.map(({ runId, subAgents }) => [runId, subAgents])).toEqual([
      [first, 0],
      [second, 0],
      [other, 0],
    ]);
    expect(rows[0]?.together).toMatchObject({
      kind: 'session',
      title: '7',
      latest: { runId: other },
      runs: 3,
    });
    expect((await shop.send('GET', '/folded')).status).toBe(400);
  });

  test('is paged, and the pages together are the whole list', async () => {
    const first = await list('?limit=3&label=tenant%3Da');
    expect(first).toMatchObject({ runs: [{}, {}] });
    expect(first.next).toBeUndefined();
    const page = await list('?limit=3');
    const rest = await list(`?limit=3&cursor=${page.next}`);
    expect([...page.runs, ...rest.runs].map(({ runId }) => runId).toSorted()).toEqual(
      Object.values(ids).toSorted(),
    );
    expect(rest.next).toBeUndefined();
  });

  test('refuses the cursor of another list, and queries that it does not know', async () => {
    const { next } = await list('?limit=1');
    const queries = [
      `status=waiting&cursor=${next}`,
      ...['cursor=x', 'limit=0', 'limit=1001', 'label=user', 'label=', 'label=a%3D1&label=a%3D2'],
      ...['since=yesterday', 'order=newest', 'color=red', 'status=dancing', 'text='],
    ];
    for (const query of queries) {
      const response = await desk.send('GET', `/runs?${query}`);
      expect([query, response.status]).toEqual([query, 400]);
      expect((await errorOf(response)).code).toBe('input-invalid');
    }
  });

  test('is what the OpenAPI document describes', async () => {
    const document = z
      .looseObject({
        paths: z.object({ '/runs': z.looseObject({ get: z.looseObject({ parameters: z.array(z.any()) }) }) }),
        components: z.object({ schemas: z.object({ RunSummary: z.looseObject({ properties: z.any() }) }) }),
      })
      .parse(await (await desk.send('GET', '/openapi.json')).json());
    const parameters = document.paths['/runs'].get.parameters.map(({ name }) => name);
    expect(parameters).toEqual(expect.arrayContaining(['label', 'status', 'limit', 'cursor', 'order']));
    const described = Object.keys(document.components.schemas.RunSummary.properties);
    for (const run of (await list('')).runs)
      expect(described).toEqual(expect.arrayContaining(Object.keys(run)));
  });
});

test.each([
  ['labels that are not strings', { labels: { user: 7 } }],
  ['labels that are no object', { labels: 'user=7' }],
  ['an empty label', { labels: { user: '' } }],
  ['a title of several lines', { title: 'a\nb' }],
])('POST /runs refuses %s and begins no run', async (_, body) => {
  const { send, store } = makeApp();
  const response = await send('POST', '/runs', { input: 'go', ...body });
  expect(response.status).toBe(400);
  expect((await errorOf(response)).code).toBe('input-invalid');
  expect((await store.list()).runs).toEqual([]);
});
