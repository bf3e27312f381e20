import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { toStored } from '../../../machines/snapshot.ts';
import { serveRuns } from '../../../server/serve.ts';
import { errorOf, makeApp } from '../../support/server/runs-app.ts';

const desk = makeApp();
const { runId, seq: last } = await desk.begin();
const get = (path: string, headers = {}) => desk.send('GET', path, undefined, headers);
const seqs = async (query: string) => {
  const body = (await (await get(`/runs/${runId}/entries${query}`)).json()) as {
    entries: { seq: number; runId: string; type: string }[];
    first: number;
    last: number;
  };
  expect(body).toMatchObject({ first: 1, last });
  return body.entries.map(({ seq }) => seq);
};

test('entries are read forward after a seq, and as a tail before one', async () => {
  const all = Array.from({ length: last }, (_, index) => index + 1);
  expect(await seqs('')).toEqual(all);
  expect(await seqs('?after=1&limit=2')).toEqual([2, 3]);
  expect(await seqs('?before=4&limit=2')).toEqual([2, 3]);
  expect(await seqs('?before=&limit=2')).toEqual([last - 1, last]);
  expect(await seqs('?before=2&limit=50')).toEqual([1]);
  expect(await seqs(`?after=${last + 5}`)).toEqual([]);
  for (const query of ['?after=1&before=3', '?limit=0', '?limit=100000', '?after=-1', '?after=x', '?other=1'])
    expect((await errorOf(await get(`/runs/${runId}/entries${query}`))).code).toBe('input-invalid');
});

test('the entries of the API are those of the event stream', async () => {
  const { entries } = (await (await get(`/runs/${runId}/entries`)).json()) as { entries: unknown[] };
  const journal = await desk.store.read(runId);
  expect(entries).toEqual(journal.map(({ seq, event }) => ({ ...event, runId, seq })));
});

test('the state after an entry is the fold of the journal up to it', async () => {
  const at = async (query: string) =>
    (await (await get(`/runs/${runId}/state${query}`)).json()) as {
      seq: number;
      state: { value: unknown; context: { turns: number } };
    };
  expect((await at('?at=1')).state).toMatchObject({ value: { turn: 'planning' }, context: { turns: 0 } });
  const { state } = await loadRun(desk.store, runId);
  expect(await at('')).toEqual({ seq: last, state: JSON.parse(JSON.stringify(toStored(state))) });
  expect((await errorOf(await get(`/runs/${runId}/state?at=${last + 1}`))).code).toBe('input-invalid');
  expect((await errorOf(await get('/runs/run_none/state'))).code).toBe('run-unknown');
  expect((await errorOf(await get('/runs/run_none/entries'))).code).toBe('run-unknown');
});

test('a client that has the answer already gets 304', async () => {
  for (const path of ['/runs', `/runs/${runId}`, `/runs/${runId}/entries`, `/runs/${runId}/state`]) {
    const etag = (await get(path)).headers.get('etag') ?? '';
    expect(etag).toMatch(/^W\/".+"$/);
    const again = await get(path, { 'if-none-match': etag });
    expect([again.status, await again.text()]).toEqual([304, '']);
    expect((await get(path, { 'if-none-match': '"other"' })).status).toBe(200);
  }
});

test('answers are compressed for clients that accept it, and event streams never are', async () => {
  const packed = await get(`/runs/${runId}/entries`, { 'accept-encoding': 'gzip, br' });
  expect(packed.headers.get('content-encoding')).toBe('gzip');
  const text = gunzipSync(Buffer.from(await packed.arrayBuffer())).toString();
  expect(text).toBe(await (await get(`/runs/${runId}/entries`)).text());
  const stream = await get(`/runs/${runId}/events`, { 'accept-encoding': 'gzip' });
  expect(stream.headers.get('content-encoding')).toBeNull();
  await stream.body?.cancel();
});

test('the files of the page are compressed, and a browser that has them loads none again', async () => {
  const js = 'let a = 1;\n'.repeat(1_000);
  const app = makeApp({
    assets: {
      html: '<!doctype html><title>page</title>',
      find: path => {
        if (path === '/assets/page.js') return { body: js, type: 'text/javascript' };
        return path === '/assets/a1b2.css' ? { body: 'a {}', type: 'text/css', immutable: true } : undefined;
      },
    },
  }).app;
  const serving = await serveRuns(app, { host: '127.0.0.1', port: 0 });
  try {
    const script = await fetch(`${serving.url}/assets/page.js`);
    expect(script.headers.get('content-encoding')).toBe('gzip');
    expect(Number(script.headers.get('content-length'))).toBeLessThan(1_000);
    expect(await script.text()).toBe(js);
    const etag = script.headers.get('etag') ?? '';
    const headers = { 'if-none-match': etag };
    expect((await fetch(`${serving.url}/assets/page.js`, { headers })).status).toBe(304);
    const plain = await fetch(`${serving.url}/assets/page.js`, {
      headers: { 'accept-encoding': 'identity' },
    });
    expect([plain.headers.get('content-encoding'), await plain.text()]).toEqual([null, js]);
    const fixed = await fetch(`${serving.url}/assets/a1b2.css`);
    expect(fixed.headers.get('cache-control')).toContain('immutable');
    for (const path of [
      '/',
      '/inbox',
      '/regressions',
      '/runs',
      '/runs/run_1',
      '/compare/a..b',
      '/agents/desk',
    ]) {
      const page = await fetch(serving.url + path, { headers: { accept: 'text/html' } });
      expect([page.headers.get('content-type'), await page.text()]).toEqual([
        'text/html; charset=UTF-8',
        '<!doctype html><title>page</title>',
      ]);
    }
  } finally {
    await serving.close();
  }
});
