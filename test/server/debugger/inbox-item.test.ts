import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, tool } from '../../../agent/index.ts';
import { callIdOf, type InboxItem, type OpenedItem } from '../../../protocol/run-view.ts';
import { memory } from '../../../stores/memory.ts';
import {
  DONE,
  errorOf,
  makeApp,
  makeTools,
  REFUND,
  type TestApp,
  until,
} from '../../support/server/runs-app.ts';

const CALL = 'call_0_0';

const pay = (orderId: string, cents: number) => ({ name: 'refund', arguments: { orderId, cents } });
const TWO = { text: 'I looked.', toolCalls: [pay('A-1', 4200), pay('A-2', 100)] };

type Headers = Record<string, string>;

async function look(desk: TestApp, runId: string, headers: Headers = {}, callId = CALL): Promise<OpenedItem> {
  const response = await desk.send('GET', `/inbox/${runId}/${callId}`, undefined, headers);
  if (response.status !== 200) throw new Error(await response.text());
  return (await response.json()) as OpenedItem;
}

async function decide(desk: TestApp, runId: string, body: object = {}, command = 'approve'): Promise<void> {
  const answer = await desk.send('POST', `/runs/${runId}/${command}`, { callId: CALL, by: 'Ada', ...body });
  if (answer.status !== 200) throw new Error(await answer.text());
}

const runsOf = (past: readonly { runId: string }[]): string[] => past.map(({ runId }) => runId);

test('an item has the item of the list, what came before it, and what equal calls of other runs returned', async () => {
  const desk = makeApp({ turns: [TWO, DONE] });
  const long = 'x'.repeat(2_000);
  const { runId: first } = await desk.begin({ input: 'go', by: 'Grace' });
  await decide(desk, first);
  await decide(desk, first, { callId: 'call_0_1', reason: 'Too little.' }, 'reject');
  await desk.rest(first);
  const { runId } = await desk.begin({ input: long, by: 'Grace', labels: { team: 'blue' } });
  const { items } = (await (await desk.send('GET', '/inbox')).json()) as { items: InboxItem[] };
  const { item, before, equal, decisions } = await look(desk, runId);
  expect(items[0]).toEqual(item);
  const { turns, tokens, cost, activeMs } = await desk.view(runId);
  expect(item).toMatchObject({
    labels: { team: 'blue' },
    startedBy: 'Grace',
    spent: { turns, tokens, cost, activeMs },
  });
  expect(before).toMatchObject([
    { type: 'user', name: 'Grace', text: long.slice(0, 500), isCut: true },
    { type: 'agent', text: 'I looked.' },
  ]);
  expect(equal).toMatchObject([{ runId: first, callId: CALL, isError: false, text: '{"refunded":4200}' }]);
  expect(decisions).toMatchObject([
    { runId: first, type: 'reject', by: 'Ada', text: 'Too little.', input: { orderId: 'A-2', cents: 100 } },
    { runId: first, type: 'approve', by: 'Ada', text: '', input: { orderId: 'A-1', cents: 4200 } },
  ]);
  await decide(desk, runId, { callId: 'call_0_1', input: { orderId: 'A-1', cents: 4200 } });
  await until(async () => (await desk.view(runId)).calls.length === 1 || undefined);
  const again = await look(desk, runId);
  expect(runsOf(again.equal), 'a call that was edited to be equal').toEqual([runId, first]);
  expect(runsOf(again.decisions)).toEqual([runId, first, first]);
});

test('a call is equal in another run of the thread; what a fork has copied and what regress played do not count', async () => {
  const agents = ['desk', 'annex'].map(
    name => [name, { name, model: scripted([REFUND, DONE, REFUND, DONE]) }] as const,
  );
  const store = memory();
  const refund = tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ orderId: z.string(), cents: z.number() }),
    approval: true,
    run: () => 'paid',
  });
  const desk = makeApp({
    store,
    agents: new Map(
      agents.map(([name, options]) => [name, createAgent({ ...options, tools: [refund], store })]),
    ),
  });
  const { runId: first } = await desk.begin({ input: 'go', agent: 'annex', thread: 't' });
  await decide(desk, first);
  const { seq } = await desk.rest(first);
  const { runId } = await desk.begin({ input: 'go', agent: 'desk', thread: 't' });
  const callId = (await desk.view(runId)).calls[0]?.callId ?? '';
  expect(runsOf((await look(desk, runId, {}, callId)).equal)).toEqual([first]);
  const played = await desk.begin({ input: 'go', agent: 'desk', labels: { regress: 'candidate' } });
  await decide(desk, played.runId);
  const forked = await desk.send('POST', `/runs/${first}/fork`, { at: seq - 1 });
  expect(forked.status).toBe(201);
  expect(runsOf((await look(desk, runId, {}, callId)).equal)).toEqual([first]);
});

test('of many runs only the latest 20 of the agent are read, and 10 calls and decisions are told', async () => {
  const desk = makeApp();
  const runs: string[] = [];
  for (let index = 0; index < 24; index += 1) {
    const { runId } = await desk.begin();
    await decide(desk, runId, { by: 'B'.repeat(60) });
    await desk.rest(runId);
    runs.unshift(runId);
  }
  const { runId } = await desk.begin();
  const read = new Set<string>();
  const readStored = desk.store.read.bind(desk.store);
  desk.store.read = (id, ...rest) => {
    read.add(id);
    return readStored(id, ...rest);
  };
  const { equal, decisions } = await look(desk, runId);
  expect(new Set(runsOf(equal))).toEqual(new Set(runs.slice(0, 10)));
  expect(decisions).toHaveLength(10);
  expect([...read].sort()).toEqual([runId, ...runs.slice(0, 19)].sort());
});

test('of a run only the last 500 entries are read', async () => {
  const waits = { name: 'ask_customer', arguments: {} };
  const lookups = (count: number) => ({
    toolCalls: [...Array.from({ length: count }, () => ({ name: 'lookup', arguments: {} })), waits],
  });
  const lookup = tool({ name: 'lookup', description: 'Looks.', input: z.object({}), run: () => 'seen' });
  for (const [count, told] of [
    [200, 1],
    [260, 0],
  ] as const) {
    const desk = makeApp({
      turns: [REFUND, lookups(count)],
      agent: { tools: [...makeTools(), lookup], limits: { toolCalls: 1_000 } },
    });
    const { runId: first } = await desk.begin();
    await decide(desk, first);
    await desk.rest(first);
    const { runId } = await desk.begin();
    expect((await look(desk, runId)).equal).toHaveLength(told);
  }
});

test('only runs that the caller may read are told of', async () => {
  const tokens = {
    ann: { token: 'the-token-of-ann-0000000', role: 'approver', labels: { tenant: 'a' } },
    bert: { token: 'the-token-of-bert-000000', role: 'approver', labels: { tenant: 'b' } },
    rita: { token: 'the-token-of-rita-000000', role: 'requester' },
    boss: { token: 'the-token-of-boss-000000', role: 'operator' },
  } as const;
  const as = (name: keyof typeof tokens): Headers => ({ authorization: `Bearer ${tokens[name].token}` });
  const desk = makeApp({ tokens, turns: [REFUND, DONE, REFUND, DONE] });
  const start = async (name: 'boss' | 'rita', body: object) => {
    const started = await desk.send('POST', '/runs', { input: 'go', ...body }, as(name));
    const { runId } = (await started.json()) as { runId: string };
    await until(async () => (await desk.store.get(runId))?.status === 'waiting' || undefined);
    const { items } = (await (await desk.send('GET', '/inbox', undefined, as('boss'))).json()) as {
      items: InboxItem[];
    };
    return { runId, callId: items[0] === undefined ? '' : callIdOf(items[0].call) };
  };
  const finish = async (name: 'boss' | 'rita', body: object) => {
    const { runId, callId } = await start(name, body);
    await desk.send('POST', `/runs/${runId}/approve`, { callId }, as('boss'));
    await until(async () => (await desk.store.get(runId))?.status === 'finished' || undefined);
    return runId;
  };
  const [a, b] = [
    await finish('boss', { labels: { tenant: 'a' }, thread: 't' }),
    await finish('boss', { labels: { tenant: 'b' }, thread: 't' }),
  ];
  const mine = await finish('rita', {});
  const open = await start('boss', { labels: { tenant: 'a' }, thread: 't' });
  const openOfRita = await start('rita', {});
  for (const [name, { runId, callId }, runs] of [
    ['ann', open, [a]],
    ['boss', open, [a, b, mine]],
    ['rita', openOfRita, [mine]],
  ] as const) {
    const { equal, decisions } = await look(desk, runId, as(name), callId);
    expect([name, ...runsOf(equal).sort()]).toEqual([name, ...[...runs].sort()]);
    expect([name, ...runsOf(decisions).sort()]).toEqual([name, ...[...runs].sort()]);
  }
  const callOf = async (name: keyof typeof tokens, path: string) =>
    (await desk.send('GET', path, undefined, as(name))).status;
  expect(await callOf('bert', `/inbox/${open.runId}/${open.callId}`)).toBe(404);
  expect(await callOf('rita', `/inbox/${open.runId}/${open.callId}`)).toBe(404);
  expect((await desk.send('GET', `/inbox/${open.runId}/${open.callId}`)).status).toBe(401);
});

test('what was redacted is in no answer, also not in that about a sub-agent that waits', async () => {
  const store = memory();
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([REFUND, DONE]),
    tools: [
      tool({
        name: 'refund',
        description: 'Pays back.',
        input: z.object({ orderId: z.string(), cents: z.number() }),
        approval: true,
        run: () => 'secret result',
      }),
    ],
    store,
  });
  const turns = [{ toolCalls: [{ name: 'clerk', arguments: { input: 'pay' } }] }, DONE];
  const desk = makeApp({
    store,
    turns,
    agent: { tools: [clerk.asTool({ name: 'clerk', description: 'Pays.' })] },
  });
  const inbox = async () =>
    ((await (await desk.send('GET', '/inbox')).json()) as { items: InboxItem[] }).items;
  await desk.begin({ input: 'go', title: 'first' });
  const [before] = await inbox();
  await decide(desk, before?.runId ?? '', { by: 'Secret Ada' });
  await desk.rest(before?.rootId ?? '');
  const { runId: root } = await desk.begin({ input: 'go', title: 'secret title', by: 'Secret Grace' });
  const [item] = await inbox();
  const { runId = '', rootId } = item ?? {};
  expect(rootId).toBe(root);
  const told = async () => JSON.stringify([await inbox(), await look(desk, runId)]);
  for (const secret of ['secret result', 'Secret Ada', 'secret title', 'Secret Grace'])
    expect(await told()).toContain(secret);
  const entries = await store.read(before?.runId ?? '');
  const seqOf = (type: string) => entries.find(({ event }) => event.type === type)?.seq;
  const paths = [`/${seqOf('tool.settled')}/output`, `/${seqOf('approval.decided')}/by`];
  await store.redact(before?.runId ?? '', { paths });
  await store.redact(root, { paths: ['/1/title', '/1/by'] });
  expect((await told()).match(/secret [rt]|Secret [AG]/g)).toBeNull();
});

test('a run, or what it does not wait for, is not found', async () => {
  const desk = makeApp();
  const { runId } = await desk.begin();
  expect((await desk.send('GET', '/inbox/run_none/call_0_0')).status).toBe(404);
  expect(await errorOf(await desk.send('GET', `/inbox/${runId}/call_9`))).toMatchObject({
    status: 404,
    code: 'not-found',
  });
  await decide(desk, runId);
  await desk.rest(runId);
  expect((await desk.send('GET', `/inbox/${runId}/${CALL}`)).status).toBe(404);
});

test('the first page says how many items all pages have', async () => {
  const many = { toolCalls: Array.from({ length: 23 }, (_, index) => pay('A-1', index)) };
  const desk = makeApp({ turns: [many, DONE] });
  for (let index = 0; index < 3; index += 1) await desk.begin();
  const read = async (query: string) =>
    (await (await desk.send('GET', `/inbox?${query}`)).json()) as { waiting?: number; next?: string };
  expect((await read('limit=9')).waiting).toBe(69);
  const first = await read('limit=1');
  expect(first.waiting).toBe(69);
  expect((await read(`limit=1&cursor=${first.next}`)).waiting).toBeUndefined();
  expect((await read('label=none=1')).waiting).toBe(0);
});
