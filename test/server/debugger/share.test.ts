import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { READER } from '../../../access/caller.ts';
import { makeTest } from '../../../cli/commands/export.ts';
import { loadExport } from '../../../cli/commands/inspect.ts';
import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { statePath } from '../../../machines/step.ts';
import type { RunEvent, RunStarted } from '../../../protocol/event.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { PageAssets } from '../../../server/page-assets.ts';
import { errorOf, makeApp, type TestApp } from '../../support/server/runs-app.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const SECRET = 'ann@example.com';
const HOSTILE = `</script><script>alert(1)</script><!--<script> \u2028 ${SECRET}`;
const FILES: Record<string, { body: string; type: string }> = {
  '/assets/offline.js': { body: 'const a = "</script><!-- x";', type: 'text/javascript' },
  '/assets/page.css': { body: 'a { content: "</style>" }', type: 'text/css' },
};
const assets: PageAssets = { html: '<style>p{color:red}</style>', find: path => FILES[path] };

const desk = makeApp({
  assets,
  exportTest: makeTest,
  turns: [
    { text: HOSTILE, toolCalls: [{ name: 'refund', arguments: { orderId: HOSTILE, cents: 4200 } }] },
    { text: HOSTILE },
  ],
});
const started = await desk.begin({ input: HOSTILE, title: `title ${SECRET}`, labels: { user: SECRET } });
const { runId } = started;
const callId = started.calls[0]?.callId;
await desk.send('POST', `/runs/${runId}/approve`, { callId, by: SECRET });
const finished = await desk.rest(runId);

type Shared = { view: RunView; entries: (RunEvent & { seq: number; runId: string })[] };

async function share(
  from: TestApp,
  query = '',
  id = runId,
): Promise<{ html: string; run: Shared; type: string }> {
  const response = await from.send('GET', `/runs/${id}/share${query}`);
  expect(response.status).toBe(200);
  const html = await response.text();
  const [, json = ''] = /<script type="application\/json" id="run">(.*?)<\/script>/s.exec(html) ?? [];
  return { html, run: JSON.parse(json), type: response.headers.get('content-disposition') ?? '' };
}

test('a shared run has the course of the run and none of its contents', async () => {
  const { html, run, type } = await share(desk);
  expect(type).toBe(`attachment; filename="${runId}.html"`);
  expect(html).not.toContain(SECRET);
  expect(html).not.toContain('alert');
  const journal = await desk.store.read(runId);
  expect(run.entries.map(({ seq, type: kind, at }) => [seq, kind, at])).toEqual(
    journal.map(({ seq, event }) => [seq, event.type, event.at]),
  );
  const digests = (events: readonly object[]) => JSON.stringify(events).match(/"digest":"[^"]+"/g);
  expect(digests(run.entries)).toEqual(digests(journal));
  const [first, ...rest] = run.entries;
  let state = beginFold(first as unknown as RunStarted);
  for (const { seq, runId: _, ...event } of rest)
    state = foldEntry(state, { seq, event: event as RunEvent }, runId);
  expect(statePath(state)).toBe('finished');
  expect(run.view).toMatchObject({ runId, status: 'finished', title: '', driver: null, turns: 2 });
  expect(run.view.labels).toEqual({ user: expect.stringMatching(/^\[redacted sha256:/) });
});

test('a run held by a condition on an input is shared with its course, without the value and the path', async () => {
  const secret = 'ann.secret';
  // No digest, id or time contains it by chance: they have no dot.
  const limit = 5_001.0625;
  const refund = (orderId: string, cents: number) => ({
    toolCalls: [{ name: 'refund', arguments: { orderId, cents } }],
  });
  const held = makeApp({
    assets,
    turns: [refund('first', 1), refund(secret, 2), refund('third', 7_000), { text: 'Done.' }],
  });
  const { runId: id, calls } = await held.begin();
  const before = 'interruptForApproval';
  const breakpoints = [
    { id: 'text', next: before, where: { path: 'input.orderId', op: '=', value: secret } },
    { id: 'number', next: before, where: { path: 'input.cents', op: '>', value: limit } },
  ];
  const command = async (name: string, body: object) =>
    expect((await held.send('POST', `/runs/${id}/${name}`, body)).status).toBe(200);
  await command('breakpoints', { breakpoints });
  await command('approve', { callId: calls[0]?.callId });
  expect((await held.rest(id)).next).toMatchObject({ type: 'pause', breakpoint: 'text' });
  const { html, run } = await share(held, '', id);
  expect(run.view).toMatchObject({ status: 'waiting', next: { type: 'pause', breakpoint: 'text' } });
  for (const content of [secret, 'orderId', String(limit)]) expect(html).not.toContain(content);
  await command('unpause', {});
  await command('approve', { callId: (await held.rest(id)).calls[0]?.callId });
  expect((await held.rest(id)).next).toMatchObject({ type: 'pause', breakpoint: 'number' });
  const later = await share(held, '', id);
  expect(later.run.view.next).toMatchObject({ type: 'pause', breakpoint: 'number' });
});

test('with its contents, hostile text cannot leave the element that holds the run', async () => {
  const { html, run } = await share(desk, '?contents=shown');
  expect(run.view.answer).toBe(HOSTILE);
  expect(run.view.title).toBe(finished.title);
  expect(html.match(/<script/g)).toHaveLength(2);
  expect(html.match(/<\/script>/g)).toHaveLength(2);
  expect(html.match(/<\/style>/g)).toHaveLength(1);
  expect(html).toContain('<style>p{color:red}a { content');
  expect(html).not.toContain('<!--');
  expect(JSON.stringify(run)).not.toContain('"launch"');
});

test('a share runs no script but its own', async () => {
  const { html } = await share(desk);
  const [, policy = ''] = /Content-Security-Policy" content="([^"]+)"/.exec(html) ?? [];
  expect(policy).toContain("default-src 'none'");
  expect(policy).toMatch(/script-src 'sha256-[^']+';/);
  expect(policy).not.toContain('unsafe');
});

test('the export is the one of the command line, and can be read again', async () => {
  const response = await desk.send('GET', `/runs/${runId}/export`);
  expect(response.headers.get('content-disposition')).toBe(`attachment; filename="${runId}.json"`);
  const file = `${makeTemporaryFolder('share')}/run.json`;
  writeFileSync(file, await response.text());
  const loaded = await loadExport(file);
  expect(loaded).toEqual({ store: loaded.store, runId });
  expect(await loaded.store.read(runId)).toEqual(
    (await desk.store.read(runId)).map(({ seq, event }) => ({ seq, event })),
  );
  expect(await loaded.store.get(runId)).toMatchObject({ status: 'finished', title: finished.title });
  writeFileSync(file, readFileSync(file, 'utf8').replace('4200', '4201'));
  expect((await loadExport(file)).problem).toContain('entry ');
});

test('an inspected run can be read in full, and takes no command', async () => {
  const app = makeApp({ store: desk.store, anyone: READER, assets });
  expect(await (await app.send('GET', '/me')).json()).toMatchObject({ role: 'viewer' });
  expect((await app.send('GET', `/runs/${runId}`)).status).toBe(200);
  expect((await app.send('GET', `/runs/${runId}/entries`)).status).toBe(200);
  expect((await share(app)).run.view.runId).toBe(runId);
  for (const [method, path, body] of [
    ['POST', '/runs', { input: 'go' }],
    ['POST', `/runs/${runId}/cancel`, {}],
    ['POST', '/runs/bulk', { runs: [runId], command: { type: 'cancel' } }],
    ['DELETE', `/runs/${runId}`, undefined],
  ] as const)
    expect((await errorOf(await app.send(method, path, body))).code).toBe('forbidden');
});

test('a run is exported as a test that replays it', async () => {
  const response = await desk.send('GET', `/runs/${runId}/export?as=test`);
  const source = await response.text();
  expect([response.status, source]).toEqual([200, expect.stringContaining("from 'agentchart/testing'")]);
  expect(response.headers.get('content-disposition')).toBe(`attachment; filename="${runId}.test.ts"`);
  expect(source).toContain(`replays to the same outcome`);
  const without = makeApp({ store: desk.store });
  expect((await errorOf(await without.send('GET', `/runs/${runId}/export?as=test`))).code).toBe('not-found');
  for (const path of ['export?as=x', 'share?contents=all', 'export?other=1'])
    expect((await errorOf(await desk.send('GET', `/runs/${runId}/${path}`))).code).toBe('input-invalid');
});
