import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { tool } from '../../../agent/index.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import { DONE, errorOf, makeApp, REFUND, type TestApp, until } from '../../support/server/runs-app.ts';

const ASK = { text: 'Let me look.', toolCalls: [{ name: 'ask_customer', arguments: {} }] };

const post = async (desk: TestApp, path: string, body: object, headers = {}) =>
  await desk.send('POST', `/runs/${path}`, body, headers);

async function entryOf({ store }: TestApp, runId: string, type: string): Promise<number> {
  return (await store.read(runId)).find(({ event }) => event.type === type)?.seq ?? 0;
}

test('a run is held at a breakpoint, its call edited and continued, and the journal tells it', async () => {
  const desk = makeApp({ turns: [REFUND, DONE] });
  const { runId, calls } = await desk.begin();
  const breakpoints = [
    {
      id: 'large',
      next: 'executeTools',
      tool: 'refund',
      where: { path: 'input.cents', op: '>', value: 1000 },
    },
  ];
  expect((await post(desk, `${runId}/breakpoints`, { breakpoints, by: 'ann' })).status).toBe(200);
  await post(desk, `${runId}/approve`, { callId: calls[0]?.callId });
  const held = await until(async () => {
    const view = await desk.view(runId);
    return view.next?.type === 'pause' ? view : undefined;
  });
  expect(held.next?.why).toContain('large');
  const [call] = held.calls;
  const edited = await post(desk, `${runId}/edit-call`, {
    callId: call?.callId,
    digest: call?.digest,
    input: { orderId: 'A-1', cents: 900 },
    requestId: 'edit-1',
  });
  expect(edited.status).toBe(200);
  await post(desk, `${runId}/breakpoints`, { breakpoints: [] });
  await post(desk, `${runId}/unpause`, {});
  const again = await desk.rest(runId);
  await post(desk, `${runId}/approve`, { callId: again.calls[0]?.callId });
  const end = await until(async () => {
    const view = await desk.view(runId);
    return view.status === 'finished' ? view : undefined;
  });
  expect(end.settled).toMatchObject({ results: [{ output: { refunded: 900 } }] });
  const types = (await desk.store.read(runId)).map(({ event }) => event.type);
  expect(types).toEqual(expect.arrayContaining(['breakpoints.set', 'call.edited']));
});

test('the reply of a held turn is edited: text and calls', async () => {
  const desk = makeApp({ turns: [REFUND, DONE] });
  const { runId } = await desk.begin();
  const calls = [{ name: 'refund', input: { orderId: 'B-2', cents: 1 } }];
  expect((await post(desk, `${runId}/edit-turn`, { text: 'Sure.', calls })).status).toBe(200);
  const view = await desk.rest(runId);
  expect(view.calls).toMatchObject([
    { name: 'refund', input: { orderId: 'B-2', cents: 1 }, status: 'gated' },
  ]);
  expect(JSON.stringify(view.transcript)).toContain('Sure.');
});

test('hostile and wrong breakpoints and edits are refused', async () => {
  const desk = makeApp();
  const { runId, calls } = await desk.begin();
  const { callId } = calls[0] ?? {};
  for (const [name, body] of [
    ['breakpoints', {}],
    ['breakpoints', { breakpoints: [{ next: 'callModel' }] }],
    ['breakpoints', { breakpoints: [{ id: 'a', where: { path: 'constructor', op: '=', value: 1 } }] }],
    ['breakpoints', { breakpoints: Array.from({ length: 51 }, (_, index) => ({ id: `b${index}` })) }],
    ['edit-turn', { turn: 0 }],
    ['edit-turn', { calls: [{ input: {} }] }],
    ['edit-call', { callId }],
    ['edit-call', { callId, input: { orderId: 7 } }],
    ['fork', {}],
    ['fork', { at: 0 }],
    ['fork', { at: 10_000 }],
    ['fork', { at: 1, commands: [{ type: 'explode' }] }],
  ] as const)
    expect([name, (await errorOf(await post(desk, `${runId}/${name}`, body))).code]).toEqual([
      name,
      'input-invalid',
    ]);
});

test('a fork has the journal up to an entry and another decision, and is driven', async () => {
  const desk = makeApp({ turns: [REFUND, DONE] });
  const { runId, calls, seq } = await desk.begin();
  const { callId } = calls[0] ?? {};
  await post(desk, `${runId}/reject`, { callId });
  const body = {
    at: seq,
    commands: [{ type: 'approve', callId, input: { orderId: 'A-1', cents: 2100 } }],
    requestId: 'fork-1',
  };
  const made = await post(desk, `${runId}/fork`, body);
  expect(made.status).toBe(201);
  const fork = (await made.json()) as RunView;
  expect(fork).toMatchObject({ forkOf: { runId, at: seq } });
  expect(made.headers.get('location')).toBe(`/runs/${fork.runId}`);
  const end = await until(async () => {
    const view = await desk.view(fork.runId);
    return view.status === 'finished' ? view : undefined;
  });
  expect(end.settled).toMatchObject({ results: [{ output: { refunded: 2100 } }] });
  const again = await post(desk, `${runId}/fork`, body);
  expect([again.status, ((await again.json()) as RunView).runId]).toEqual([201, fork.runId]);
  const other = await errorOf(await post(desk, `${runId}/fork`, { ...body, at: 1 }));
  expect(other).toMatchObject({ status: 409, code: 'request-reused', details: { fields: ['at'] } });
});

test('a fork whose change is refused is not there', async () => {
  const desk = makeApp({ turns: [ASK, DONE] });
  const { runId, seq } = await desk.begin();
  const commands = [{ type: 'approve', callId: 'call_none' }];
  const refused = await errorOf(await post(desk, `${runId}/fork`, { at: seq, commands }));
  expect(refused).toMatchObject({ code: 'call-unknown', details: { index: 0 } });
  expect((await desk.store.list({ limit: 10 })).runs.map(run => run.runId)).toEqual([runId]);
});

test('forks, breakpoints and edits are for operators, and record the name of the token', async () => {
  const tokens = {
    paul: { token: 'the-token-of-paul-000000', role: 'approver' },
    vera: { token: 'the-token-of-vera-000000', role: 'viewer' },
    anna: { token: 'the-token-of-anna-000000', role: 'operator', labels: { tenant: 'a' } },
    boss: { token: 'the-token-of-boss-000000', role: 'operator' },
  } as const;
  const as = (name: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[name].token}` });
  const desk = makeApp({ tokens });
  const started = await desk.send('POST', '/runs', { input: 'go', labels: { tenant: 'b' } }, as('boss'));
  const { runId } = (await started.json()) as RunView;
  for (const [path, body] of [
    ['fork', { at: 1 }],
    ['breakpoints', { breakpoints: [] }],
    ['edit-turn', { text: 'x' }],
    ['edit-call', { callId: 'c', input: {} }],
  ] as const) {
    for (const name of ['paul', 'vera'] as const)
      expect((await post(desk, `${runId}/${path}`, body, as(name))).status).toBe(403);
    expect((await post(desk, `${runId}/${path}`, body, as('anna'))).status).toBe(404);
  }
  await post(desk, `${runId}/breakpoints`, { breakpoints: [], by: 'somebody else' }, as('boss'));
  const set = (await desk.store.read(runId)).find(({ event }) => event.type === 'breakpoints.set');
  expect(set?.event).toMatchObject({ by: 'boss' });
  expect(await entryOf(desk, runId, 'breakpoints.set')).toBeGreaterThan(1);
});

test('a fork replays tools: it asks again, refunds nothing, and names the entry of the result', async () => {
  let refunds = 0;
  const tools = [
    tool({
      name: 'refund',
      description: 'Pays back.',
      input: z.object({ orderId: z.string(), cents: z.number() }),
      approval: true,
      run: ({ cents }) => ({ refunded: cents, number: ++refunds }),
    }),
  ];
  const desk = makeApp({ turns: [REFUND, DONE], agent: { tools } });
  const { runId, calls } = await desk.begin();
  await post(desk, `${runId}/approve`, { callId: calls[0]?.callId });
  await until(async () => ((await desk.view(runId)).status === 'finished' ? true : undefined));
  const at = await entryOf(desk, runId, 'turn.completed');
  const asked = (await (await post(desk, `${runId}/fork`, { at, replayTools: true })).json()) as RunView;
  const { calls: open } = await desk.rest(asked.runId);
  await post(desk, `${asked.runId}/approve`, { callId: open[0]?.callId });
  const ended = await until(async () => {
    const view = await desk.view(asked.runId);
    return view.status === 'finished' ? view : undefined;
  });
  expect(ended.settled).toMatchObject({ results: [{ output: { refunded: 4200, number: 1 } }] });
  expect(refunds).toBe(1);
  const settled = (await desk.store.read(asked.runId)).find(({ event }) => event.type === 'tool.settled');
  expect(settled?.event).toMatchObject({
    played: { runId, seq: await entryOf(desk, runId, 'tool.settled') },
  });
  const started = await entryOf(desk, runId, 'tool.started');
  const resolve = { type: 'resolve', callId: calls[0]?.callId, happened: true, output: { refunded: 1 } };
  const other = await post(desk, `${runId}/fork`, { at: started, replayTools: true, commands: [resolve] });
  expect(other.status).toBe(201);
  const { runId: changed } = (await other.json()) as RunView;
  const view = await desk.rest(changed);
  expect(view.settled).toMatchObject({ status: 'finished', results: [{ output: { refunded: 1 } }] });
  const held = await post(desk, `${runId}/fork`, { at, paused: true });
  expect(await desk.rest(((await held.json()) as RunView).runId)).toMatchObject({ paused: true });
});

/** A model that a run must be forked on. */
const OTHER = Object.assign(scripted([{ text: 'Told by another.' }, { text: 'Told by another.' }]), {
  model: 'other',
});

test('a fork runs on another model that the server offers, with the tools of the original replayed', async () => {
  const desk = makeApp({ agent: { forkModels: [OTHER] } });
  const { runId, calls } = await desk.begin();
  await post(desk, `${runId}/approve`, { callId: calls[0]?.callId });
  await until(async () => ((await desk.view(runId)).status === 'finished' ? true : undefined));
  const agent = (await (await desk.send('GET', '/agents/desk')).json()) as { forkModels: string[] };
  expect(agent.forkModels).toHaveLength(2);
  expect(agent.forkModels[1]).toBe('scripted:other');
  const at = await entryOf(desk, runId, 'tool.started');
  const made = await post(desk, `${runId}/fork`, { at, replayTools: true, model: 'scripted:other' });
  const fork = (await made.json()) as RunView;
  expect(made.status).toBe(201);
  expect((await desk.rest(fork.runId)).answer).toBe('Told by another.');
  const [first, ...rest] = (await desk.store.read(fork.runId)).map(({ event }) => event);
  expect(first).toMatchObject({ config: { forkModel: { provider: 'scripted', model: 'other' } } });
  expect(rest.findLast(event => event.type === 'turn.completed')).toMatchObject({ text: 'Told by another.' });
});

test('a fork on a model that the server does not offer is refused, and none is created', async () => {
  const desk = makeApp({ agent: { forkModels: [OTHER] } });
  const { runId } = await desk.begin();
  for (const model of ['openai:gpt-5', 'constructor', '', 7]) {
    const { code } = await errorOf(await post(desk, `${runId}/fork`, { at: 1, model }));
    expect(code).toBe('input-invalid');
  }
  expect((await desk.store.list({ limit: 10 })).runs).toHaveLength(1);
});

test('a process without the model of a fork leaves the fork as it is', async () => {
  const desk = makeApp({ agent: { forkModels: [OTHER] } });
  const { runId } = await desk.begin();
  const made = await post(desk, `${runId}/fork`, { at: 1, model: 'scripted:other', paused: true });
  const fork = (await made.json()) as RunView;
  const without = makeApp({ store: desk.store });
  await post(without, `${fork.runId}/unpause`, {});
  await until(() => without.log.find(line => line.includes('scripted:other')));
  expect((await desk.store.read(fork.runId)).some(({ event }) => event.type === 'turn.completed')).toBe(
    false,
  );
});
