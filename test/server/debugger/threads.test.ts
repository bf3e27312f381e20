import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { systemHost } from '../../../engine/host/host.ts';
import type { Labels } from '../../../protocol/listing/label.ts';
import { Admission } from '../../../server/access/admission.ts';
import { memory } from '../../../stores/memory.ts';
import { DONE, errorOf, makeApp, REFUND, type TestApp } from '../../support/server/runs-app.ts';

type Read = {
  id: string;
  labels: Labels;
  messages: { role: string }[];
  runs: { runId: string }[];
  open: string | null;
};

const store = () => memory();

function talker(on = store(), turns = [DONE, DONE, DONE]) {
  return createAgent({ name: 'desk', model: scripted(turns), store: on });
}

async function json<Body>(app: TestApp, path: string, headers?: Record<string, string>): Promise<Body> {
  return (await (await app.send('GET', path, undefined, headers)).json()) as Body;
}

const TOKENS = {
  seven: { token: 'a'.repeat(32), role: 'operator', labels: { user: '7' } },
  eight: { token: 'b'.repeat(32), role: 'operator', labels: { user: '8' } },
  viewer: { token: 'c'.repeat(32), role: 'viewer', labels: { user: '7' } },
  all: { token: 'd'.repeat(32), role: 'operator' },
} as const;
const as = (who: keyof typeof TOKENS) => ({ authorization: `Bearer ${TOKENS[who].token}` });

test('POST /runs begins a run in a thread, continues it, and sends to its open run', async () => {
  const app = makeApp({ turns: [DONE, REFUND, DONE] });
  const say = (input: string) => app.begin({ input, thread: 't', labels: { user: '7' } });
  const first = await say('one');
  const second = await say('two');
  expect(second).toMatchObject({ thread: 't', place: 2, continues: first.runId, status: 'waiting' });
  expect((await say('three')).runId).toBe(second.runId);
  const received = (await app.store.read(second.runId)).map(({ event }) => event.type);
  expect(received).toContain('message.received');
  expect((await json<Read>(app, '/threads/t')).open).toBe(second.runId);
  const refused = await app.send('POST', '/runs', { input: 'x', thread: 't', requestId: 'r' });
  expect(await errorOf(refused)).toMatchObject({ status: 400, code: 'input-invalid' });
});

test('a message to the open run of a thread begins no run, so it needs no free place of its token', async () => {
  const token = 'e'.repeat(32);
  const tokens = { ann: { token, role: 'operator', limits: { concurrentRuns: 1 } } } as const;
  const admission = new Admission({ host: systemHost, tokens });
  const app = makeApp({ turns: [{ text: 'One.', delayMs: 2_000 }, DONE], tokens, admission });
  const say = (thread: string) =>
    app.send('POST', '/runs', { input: 'go', thread }, { authorization: `Bearer ${token}` });
  const first = (await (await say('t')).json()) as { runId: string };
  const again = await say('t');
  expect(again.status).toBe(201);
  expect(await again.json()).toMatchObject({ runId: first.runId });
  expect(await errorOf(await say('other'))).toMatchObject({ status: 429 });
});

test('GET /threads lists each thread once, by its latest run, and GET /threads/ID reads one', async () => {
  const agent = talker();
  const app = makeApp({ store: agent.store });
  for (const [input, thread, labels] of [
    ['one', 'a', { user: '7' }],
    ['two', 'a', { user: '7' }],
    ['hello', 'a', { user: '8' }],
    ['other', 'b', { user: '7' }],
  ] as const)
    await agent.run(input, { thread, labels });
  await agent.run('alone', { labels: { user: '7' } });
  const { threads } = await json<{ threads: { id: string; labels: Labels; latest: { title: string } }[] }>(
    app,
    '/threads?label=user%3D7',
  );
  expect(threads.map(({ id, labels, latest }) => [id, labels, latest.title]).toSorted()).toEqual([
    ['a', { user: '7' }, 'two'],
    ['b', { user: '7' }, 'other'],
  ]);
  const page = await json<{ threads: unknown[]; next: string }>(app, '/threads?limit=2');
  expect(page.threads).toHaveLength(2);
  expect(
    (await json<{ threads: unknown[] }>(app, `/threads?limit=2&cursor=${page.next}`)).threads,
  ).toHaveLength(1);
  const read = await json<Read>(app, '/threads/a?label=user%3D7');
  expect(read).toMatchObject({ id: 'a', labels: { user: '7' }, open: null, totals: { runs: 2, turns: 2 } });
  expect(read.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  expect(read.runs).toMatchObject([{ place: 1 }, { place: 2, thread: 'a' }]);
  expect((await json<Read>(app, '/threads/b')).labels).toEqual({ user: '7' });
  expect(await errorOf(await app.send('GET', '/threads/a'))).toMatchObject({
    status: 400,
    code: 'input-invalid',
  });
  expect((await app.send('GET', '/threads/none')).status).toBe(404);
  expect((await json<{ runs: unknown[] }>(app, '/runs?thread=a')).runs).toHaveLength(3);
});

test('GET /threads?text= lists the threads of the caller of which any run has the words', async () => {
  const agent = talker(store(), [DONE, DONE, DONE, DONE]);
  const app = makeApp({ store: agent.store, tokens: TOKENS });
  for (const [input, thread, labels] of [
    ['Where is the blue parcel?', 'a', { user: '7' }],
    ['thanks', 'a', { user: '7' }],
    ['the blue parcel again', 'a', { user: '8' }],
    ['a red parcel', 'b', { user: '7' }],
  ] as const)
    await agent.run(input, { thread, labels });
  const found = async (text: string, who: keyof typeof TOKENS) => {
    const path = `/threads?text=${encodeURIComponent(text)}`;
    const { threads } = await json<{ threads: { id: string; labels: Labels; latest: { title: string } }[] }>(
      app,
      path,
      as(who),
    );
    return threads.map(({ id, labels, latest }) => `${id} ${labels.user} ${latest.title}`).toSorted();
  };
  expect(await found('BLUE parcel', 'seven')).toEqual(['a 7 thanks']);
  expect(await found('blue', 'eight')).toEqual(['a 8 the blue parcel again']);
  expect(await found('blue', 'all')).toEqual(['a 7 thanks', 'a 8 the blue parcel again']);
  expect(await found('red', 'eight')).toEqual([]);
  expect(await found('is', 'viewer')).toEqual(['a 7 thanks']);
});

test('GET /threads/ID filters the texts of each agent with its own filters', async () => {
  const on = store();
  const textFilters = [() => ({ push: (text: string) => text.replace('secret', '…'), end: () => '' })];
  const model = scripted([{ text: 'A secret.' }, { text: 'A secret.' }]);
  const desk = createAgent({ name: 'desk', model, store: on, textFilters });
  const other = createAgent({ name: 'other', model, store: on });
  await desk.run('one', { thread: 'a' });
  await other.run('two', { thread: 'a' });
  const textsIn = async (agents: (typeof desk)[]) => {
    const app = makeApp({ store: on, agents: new Map(agents.map(agent => [agent.name, agent])) });
    const { messages } = await json<Read>(app, '/threads/a');
    return JSON.stringify(messages).match(/A [^"]*/g);
  };
  expect(await textsIn([desk, other])).toEqual(['A ….', 'A secret.']);
  expect(await textsIn([other])).toEqual(['A secret.']);
});

test('a token with labels reads and deletes only its own threads, and a viewer deletes none', async () => {
  const agent = talker();
  await agent.run('one', { thread: 'a', labels: { user: '7' } });
  await agent.run('hello', { thread: 'a', labels: { user: '8' } });
  const app = makeApp({ store: agent.store, tokens: TOKENS });
  const ofEight = await json<Read>(app, '/threads/a', as('eight'));
  expect(ofEight.labels).toEqual({ user: '8' });
  expect((await json<{ threads: unknown[] }>(app, '/threads', as('seven'))).threads).toHaveLength(1);
  const remove = async (who: keyof typeof TOKENS, query = '') =>
    await app.send('DELETE', `/threads/a${query}`, undefined, as(who));
  expect((await remove('viewer')).status).toBe(403);
  expect((await remove('seven', '?label=user%3D8')).status).toBe(403);
  expect(await (await remove('eight')).json()).toEqual({ deleted: ofEight.runs.map(({ runId }) => runId) });
  expect(await (await remove('eight')).json()).toEqual({ deleted: [] });
  expect((await app.send('GET', '/threads/a', undefined, as('eight'))).status).toBe(404);
  expect((await json<Read>(app, '/threads/a', as('seven'))).runs).toHaveLength(1);
  expect((await json<Read>(app, '/threads/a', as('all'))).labels).toEqual({ user: '7' });
  expect(await (await remove('all', '?label=user%3D7')).json()).toMatchObject({
    deleted: [expect.any(String)],
  });
  expect((await agent.store.list()).runs).toEqual([]);
});
