import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import type { Labels } from '../../../protocol/listing/label.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { type Notes, notes } from '../../../tools/notes/index.ts';
import { calls } from '../../support/engine/agents.ts';
import { errorOf, makeApp, type TestApp } from '../../support/server/runs-app.ts';

async function note(store: Store, labels: Labels, path: string, file_text: string): Promise<void> {
  const model = scripted([calls(['memory', { command: 'create', path, file_text }]), { text: 'Noted.' }]);
  const agent = createAgent({ name: 'desk', model, tools: [notes({ by: 'user' })], store });
  expect(await agent.run('Note it.', { labels })).toMatchObject({ status: 'finished' });
}

const read = async (app: TestApp, label: string, headers?: Record<string, string>) => {
  const response = await app.send('GET', `/notes?label=${encodeURIComponent(label)}`, undefined, headers);
  return (await response.json()) as Partial<Notes>;
};

test('the notes of a label are its files by path, with their sizes and the run that keeps them', async () => {
  const store = memory();
  const app = makeApp({ store });
  expect(await read(app, 'user=7')).toEqual({ files: [] });
  await note(store, { user: '7' }, '/memories/b.md', 'Writes in Zürich.');
  await note(store, { user: '7', tenant: 'a' }, '/memories/a.md', 'Prefers tea.');
  await note(store, { user: '8' }, '/memories/c.md', 'Prefers coffee.');
  const [kept] = (await store.list({ agent: 'notes', labels: { user: '7' } })).runs;
  expect(await read(app, 'user=7')).toEqual({
    runId: kept?.runId,
    changedAt: kept?.updatedAt,
    files: [
      { path: '/memories/a.md', bytes: 12, text: 'Prefers tea.' },
      { path: '/memories/b.md', bytes: 18, text: 'Writes in Zürich.' },
    ],
  });
  expect((await app.send('DELETE', `/runs/${kept?.runId}`)).status).toBe(204);
  expect(await read(app, 'user=7')).toEqual({ files: [] });
});

test('a request needs exactly one label', async () => {
  const app = makeApp();
  for (const query of ['', '?label=user', '?label=user%3D7&label=a%3Db', '?label=user%3D7&path=x'])
    expect(await errorOf(await app.send('GET', `/notes${query}`))).toMatchObject({
      status: 400,
      code: 'input-invalid',
    });
});

test('a caller with labels reads only notes that are kept under them', async () => {
  const store = memory();
  const tokens = {
    seven: { token: 'a'.repeat(32), role: 'viewer', labels: { user: '7' } },
    eight: { token: 'b'.repeat(32), role: 'operator', labels: { user: '8' } },
    tenant: { token: 'c'.repeat(32), role: 'operator', labels: { tenant: 'a' } },
    both: { token: 'd'.repeat(32), role: 'approver', labels: { tenant: 'a', user: '7' } },
    requester: { token: 'e'.repeat(32), role: 'requester', labels: { user: '7' } },
    client: { token: 'f'.repeat(32), role: 'client', labels: { user: '7' } },
    all: { token: 'g'.repeat(32), role: 'viewer' },
  } as const;
  await note(store, { user: '7' }, '/memories/a.md', 'Prefers tea.');
  const app = makeApp({ store, tokens });
  const as = (who: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[who].token}` });
  const statuses: Record<string, number> = {};
  for (const who of ['seven', 'eight', 'client', 'all'] as const)
    statuses[who] = (await app.send('GET', '/notes?label=user%3D7', undefined, as(who))).status;
  expect(statuses).toEqual({ seven: 200, eight: 403, client: 403, all: 200 });
  for (const who of ['seven', 'all'] as const)
    expect((await read(app, 'user=7', as(who))).files).toMatchObject([{ text: 'Prefers tea.' }]);
  for (const who of ['tenant', 'both', 'requester'] as const)
    expect(await read(app, 'user=7', as(who))).toEqual({ files: [] });
  expect((await app.send('GET', '/notes?label=user%3D7')).status).toBe(401);
});

test('redacted notes are read as redacted, and an answer is confirmed by its tag', async () => {
  const store = memory();
  const app = makeApp({ store });
  await note(store, { user: '7' }, '/memories/a.md', 'The secret.');
  const first = await app.send('GET', '/notes?label=user%3D7');
  const tag = { 'if-none-match': first.headers.get('etag') ?? '' };
  expect((await app.send('GET', '/notes?label=user%3D7', undefined, tag)).status).toBe(304);
  const { runId = '' } = await read(app, 'user=7');
  await store.redact(runId, { paths: ['/3/text'] });
  const again = await app.send('GET', '/notes?label=user%3D7', undefined, tag);
  expect(again.status).toBe(200);
  expect(await again.json()).toMatchObject({ files: [{ text: expect.stringMatching(/^\[redacted /) }] });
});
