import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { remoteRun } from '../../../fronts/react/remote-run.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import { serveRuns } from '../../../server/serve.ts';
import { memory } from '../../../stores/memory.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { makeGate } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import {
  DONE,
  errorOf,
  makeApp,
  makeTools,
  REFUND,
  type TestApp,
  until,
} from '../../support/server/runs-app.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const ends: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of ends) await end();
});

const countOf = async ({ store }: TestApp, runId: string, type: string) =>
  (await store.read(runId)).filter(({ event }) => event.type === type).length;

test('a message that is sent again under its id is in the run once', async () => {
  const desk = makeApp();
  const { runId } = await desk.begin();
  const body = { message: 'hello', requestId: 'req-1' };
  const answers = await Promise.all([1, 2, 3].map(() => desk.send('POST', `/runs/${runId}/send`, body)));
  answers.push(await desk.send('POST', `/runs/${runId}/send`, body));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(await answers.at(-1)?.json()).toMatchObject({ runId, status: 'waiting' });
  expect(await countOf(desk, runId, 'message.received')).toBe(1);
  await desk.send('POST', `/runs/${runId}/send`, { message: 'hello', requestId: 'req-2' });
  expect(await countOf(desk, runId, 'message.received')).toBe(2);
});

test('an approval whose answer was lost is answered as accepted, by another process too, and after the run has ended', async () => {
  const store = sqlite(`${makeTemporaryFolder('repeated')}/runs.db`);
  ends.push(() => store.close());
  const desk = makeApp({ store });
  const { runId, calls } = await desk.begin();
  const body = { callId: calls[0]?.callId, requestId: 'approve-1' };
  expect((await desk.send('POST', `/runs/${runId}/approve`, body)).status).toBe(200);
  expect((await desk.rest(runId)).status).toBe('finished');
  for (const app of [desk, makeApp({ store })]) {
    const again = await app.send('POST', `/runs/${runId}/approve`, body);
    expect([again.status, await again.json()]).toMatchObject([200, { status: 'finished' }]);
  }
  expect(await countOf(desk, runId, 'approval.decided')).toBe(1);
  const other = await desk.send('POST', `/runs/${runId}/approve`, { callId: calls[0]?.callId });
  expect(await errorOf(other)).toMatchObject({ status: 409, code: 'already-decided' });
});

test.each(['send', 'commands'])(
  'a request that reaches two servers at the same time is carried out once: %s',
  async name => {
    const store = memory();
    const { runId } = await makeApp({ store }).begin();
    const both = Promise.withResolvers<void>();
    let appending = 0;
    const meanwhile = watchStore(store, {
      async beforeAppend(_, events) {
        if (!events.some(({ type }) => type === 'message.received')) return;
        appending += 1;
        if (appending === 2) both.resolve();
        await both.promise;
      },
    });
    const servers = [makeApp({ store: meanwhile }), makeApp({ store: meanwhile })];
    const send = { message: 'hello', requestId: 'req-1' };
    const body = name === 'send' ? send : [{ type: 'send', ...send }];
    const post = (app: TestApp) => app.send('POST', `/runs/${runId}/${name}`, body);
    const answers = await Promise.all(servers.map(post));
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(appending).toBe(2);
    const [desk] = servers as [TestApp];
    expect(await countOf(desk, runId, 'message.received')).toBe(1);
    const other = await desk.send('POST', `/runs/${runId}/pause`, { requestId: 'req-2' });
    expect(other.status).toBe(200);
  },
);

test('a refused command is refused again in the same words, although it would be accepted by now', async () => {
  const desk = makeApp();
  const { runId } = await desk.begin();
  const body = { requestId: 'unpause-1' };
  const first = await errorOf(await desk.send('POST', `/runs/${runId}/unpause`, body));
  expect(first.code).toBe('refused');
  await desk.send('POST', `/runs/${runId}/pause`, {});
  expect(await errorOf(await desk.send('POST', `/runs/${runId}/unpause`, body))).toEqual(first);
  expect((await desk.send('POST', `/runs/${runId}/unpause`, { requestId: 'unpause-2' })).status).toBe(200);
});

test('an id belongs to one command: another with it is refused', async () => {
  const desk = makeApp();
  const { runId, calls } = await desk.begin();
  const { callId } = calls[0] ?? {};
  await desk.send('POST', `/runs/${runId}/reject`, { callId, requestId: 'one' });
  for (const [name, body] of [
    ['approve', { callId, requestId: 'one' }],
    ['send', { message: 'x', requestId: 'one' }],
  ] as const)
    expect(await errorOf(await desk.send('POST', `/runs/${runId}/${name}`, body))).toMatchObject({
      status: 409,
      code: 'request-reused',
    });
  for (const requestId of ['', 'x'.repeat(65), 7])
    expect((await desk.send('POST', `/runs/${runId}/send`, { message: 'x', requestId })).status).toBe(400);
});

test('a decision that was passed on to a sub-agent is recognized where it was sent', async () => {
  const store = memory();
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([REFUND, DONE]),
    tools: makeTools(),
    store,
  });
  const desk = makeApp({
    store,
    turns: [{ toolCalls: [{ name: 'clerk', arguments: { input: 'pay' } }] }, DONE],
    agent: { tools: [clerk.asTool({ name: 'clerk', description: 'Pays.' })] },
  });
  const { runId, settled } = await desk.begin();
  const callId = settled?.status === 'waiting' ? settled.approvals[0]?.callId : undefined;
  const body = { callId, requestId: 'passed-on' };
  expect((await desk.send('POST', `/runs/${runId}/approve`, body)).status).toBe(200);
  expect((await desk.send('POST', `/runs/${runId}/approve`, body)).status).toBe(200);
  const other = await errorOf(await desk.send('POST', `/runs/${runId}/approve`, { ...body, sticky: true }));
  expect(other).toMatchObject({ code: 'request-reused', details: { fields: ['sticky'] } });
  await until(async () => ((await desk.view(runId)).status === 'finished' ? true : undefined));
  expect((await desk.send('POST', `/runs/${runId}/approve`, body)).status).toBe(200);
});

test('remoteRun sends a command again when the connection breaks after the server has taken it', async () => {
  const desk = makeApp();
  const serving = await serveRuns(desk.app, { host: '127.0.0.1', port: 0 });
  ends.push(() => serving.close());
  const { runId } = await desk.begin();
  const lost: string[] = [];
  const proxy = await cutFirstAnswer(serving.port, `/runs/${runId}/send`, async () => {
    lost.push('cut');
    await until(async () => ((await countOf(desk, runId, 'message.received')) > 0 ? true : undefined));
  });
  ends.push(() => proxy.close());
  const { port } = proxy.address() as AddressInfo;
  const run = remoteRun(`http://127.0.0.1:${port}/runs/${runId}`);
  expect(await run.send('hello')).toEqual({ accepted: true });
  expect(lost).toEqual(['cut']);
  expect(await countOf(desk, runId, 'message.received')).toBe(1);
});

/** A proxy that passes the first POST to `path` on, and cuts the client's connection instead of answering it. */
async function cutFirstAnswer(target: number, path: string, committed: () => Promise<void>): Promise<Server> {
  let isFirst = true;
  const proxy = createServer((incoming, outgoing) => {
    const upstream = connect(target, '127.0.0.1', async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const headers = [`Host: 127.0.0.1:${target}`, 'Connection: close', 'Content-Type: application/json'];
      const sent = Buffer.concat(chunks);
      upstream.write(
        `${incoming.method} ${incoming.url} HTTP/1.1\r\n${headers.join('\r\n')}\r\nContent-Length: ${sent.length}\r\n\r\n`,
      );
      upstream.write(sent);
      if (incoming.url === path && isFirst) {
        isFirst = false;
        await committed();
        incoming.socket.destroy();
      } else upstream.pipe(outgoing.socket ?? incoming.socket);
    });
    upstream.on('error', () => incoming.socket.destroy());
  });
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve));
  return proxy;
}

test('a start that is sent again under its id begins one run, also at the same time and in another process', async () => {
  const store = sqlite(`${makeTemporaryFolder('repeated')}/runs.db`);
  ends.push(() => store.close());
  const [desk, other] = [makeApp({ store }), makeApp({ store })];
  const body = { input: 'go', requestId: 'start-1' };
  const answers = await Promise.all([1, 2, 3].map(() => desk.send('POST', '/runs', body)));
  answers.push(await other.send('POST', '/runs', body), await desk.send('POST', '/runs', body));
  expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
  const ids = await Promise.all(answers.map(async answer => ((await answer.json()) as RunView).runId));
  expect(new Set(ids).size).toBe(1);
  await desk.rest(ids[0] ?? '');
  expect((await store.list()).runs).toHaveLength(1);
  const changed = await errorOf(await desk.send('POST', '/runs', { ...body, input: 'stop' }));
  expect([changed.status, changed.code]).toEqual([409, 'request-reused']);
  expect((await desk.send('POST', '/runs', { ...body, requestId: 'start-2' })).status).toBe(201);
  expect((await store.list()).runs).toHaveLength(2);
});

test('a start that waits for its store, and is sent again to another server and to the same, begins one run', async () => {
  const store = memory();
  const [waits, goesOn] = [makeGate(), makeGate()];
  const watched = watchStore(store, {
    before: async method => {
      if (method !== 'create') return;
      waits.open();
      await goesOn.promise;
    },
  });
  const [desk, other] = [makeApp({ store: watched }), makeApp({ store })];
  const body = { input: 'go', requestId: 'start-1' };
  const answers = [desk.send('POST', '/runs', body)];
  await waits.promise;
  expect((await other.send('POST', '/runs', body)).status).toBe(201);
  answers.push(...[1, 2].map(() => desk.send('POST', '/runs', body)));
  // Now the repetitions share the start that waits.
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
  goesOn.open();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  expect(statuses).toEqual([201, 201, 201]);
  expect((await store.list()).runs).toHaveLength(1);
});

test('callers who do not see the same runs do not share the ids of starts', async () => {
  const tokens = {
    one: { token: 'the-token-of-one-0001', role: 'operator', labels: { tenant: 'one' } },
    two: { token: 'the-token-of-two-0002', role: 'operator', labels: { tenant: 'two' } },
  } as const;
  const desk = makeApp({ tokens });
  const start = async ({ token }: { token: string }) => {
    const body = { input: 'go', requestId: 'start-1' };
    const answer = await desk.send('POST', '/runs', body, { authorization: `Bearer ${token}` });
    return ((await answer.json()) as RunView).runId;
  };
  const [one, two] = [await start(tokens.one), await start(tokens.two)];
  expect(one).not.toBe(two);
  expect(await start(tokens.one)).toBe(one);
});
