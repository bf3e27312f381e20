import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { memory } from '../../../stores/memory.ts';
import { DONE, errorOf, makeApp, REFUND, until } from '../../support/server/runs-app.ts';

describe('a run over HTTP', () => {
  test('starts with 201, its address and its view, and is driven until it waits', async () => {
    const { send, rest } = makeApp();
    const response = await send('POST', '/runs', { input: 'go' });
    expect(response.status).toBe(201);
    const { runId } = (await response.json()) as { runId: string };
    expect(response.headers.get('location')).toBe(`/runs/${runId}`);
    expect(await rest(runId)).toMatchObject({
      runId,
      agent: 'desk',
      status: 'waiting',
      state: 'resting.awaitingApproval',
      next: { type: 'interruptForApproval', calls: ['call_0_0'] },
      paused: false,
      turns: 1,
      availableAgent: true,
      driver: null,
      calls: [{ callId: 'call_0_0', name: 'refund', status: 'gated' }],
      settled: { status: 'waiting', approvals: [{ callId: 'call_0_0' }] },
      transcript: [{ role: 'user' }, { type: 'tool_call' }],
    });
  });

  test('takes the run context that its agent requires', async () => {
    const { send, begin, store } = makeApp({
      turns: [DONE],
      agent: { runContext: z.object({ user: z.string() }) },
    });
    const without = await errorOf(await send('POST', '/runs', { input: 'go' }));
    expect(without).toMatchObject({ status: 400, code: 'input-invalid' });
    const { runId } = await begin({ input: 'go', runContext: { user: 'ada' } });
    expect((await store.read(runId))[0]?.event).toMatchObject({ runContext: { user: 'ada' } });
  });

  test('runs an approved call and continues to its answer while no client waits', async () => {
    const { send, begin, rest } = makeApp();
    const { runId, calls } = await begin();
    const approved = await send('POST', `/runs/${runId}/approve`, {
      callId: 'call_0_0',
      digest: calls[0]?.digest,
      input: { orderId: 'A-1', cents: 1 },
      by: 'ada',
    });
    expect(approved.status).toBe(200);
    const end = await rest(runId);
    expect(end).toMatchObject({ status: 'finished', answer: 'Done.', calls: [], state: 'finished' });
    expect(end.settled).toMatchObject({ results: [{ output: { refunded: 1 } }] });
  });

  test("takes a result for a gated call with the digest that was shown, and refuses it with another call's", async () => {
    const { send, begin, rest } = makeApp();
    const { runId, calls } = await begin();
    const answer = (digest?: string) =>
      send('POST', `/runs/${runId}/answer`, { callId: 'call_0_0', output: 'by hand', digest });
    expect(await errorOf(await answer('other'))).toMatchObject({ status: 409, code: 'wrong-digest' });
    expect((await answer(calls[0]?.digest)).status).toBe(200);
    expect((await rest(runId)).settled).toMatchObject({ results: [{ output: 'by hand' }] });
  });

  test('accepts one of two simultaneous decisions, and the error for the other names who decided', async () => {
    const { send, begin, store } = makeApp();
    const { runId } = await begin();
    const responses = await Promise.all([
      send('POST', `/runs/${runId}/approve`, { callId: 'call_0_0', by: 'ada' }),
      send('POST', `/runs/${runId}/reject`, { callId: 'call_0_0', by: 'bob' }),
    ]);
    expect(responses.map(({ status }) => status).sort()).toEqual([200, 409]);
    const decision = (await store.read(runId)).find(({ event }) => event.type === 'approval.decided')?.event;
    const late = responses.find(({ status }) => status === 409);
    expect(late && (await errorOf(late))).toMatchObject({
      code: 'already-decided',
      by: decision?.type === 'approval.decided' ? decision.by : '',
    });
  });

  test('does not run a rejected call, and the model reads the reason', async () => {
    const { send, begin, rest } = makeApp();
    const { runId } = await begin();
    expect((await send('POST', `/runs/${runId}/reject`, { callId: 'call_0_0', reason: 'no' })).status).toBe(
      200,
    );
    const { transcript } = await rest(runId);
    expect(transcript).toContainEqual(expect.objectContaining({ type: 'tool_result', isError: true }));
  });

  test('accepts the result of a client call and the resolution of a call in doubt', async () => {
    const turns = [{ toolCalls: [{ name: 'ask_customer' }, { name: 'charge' }] }, DONE];
    const { send, begin, rest } = makeApp({ turns });
    const { runId, calls } = await begin();
    expect(calls.map(({ status }) => status).sort()).toEqual(['doubted', 'waiting']);
    const answer = { callId: 'call_0_0', output: { yes: true }, by: 'ada' };
    expect((await send('POST', `/runs/${runId}/answer`, answer)).status).toBe(200);
    const resolution = { callId: 'call_0_1', happened: true, output: 'paid' };
    expect((await send('POST', `/runs/${runId}/resolve`, resolution)).status).toBe(200);
    expect((await rest(runId)).settled).toMatchObject({
      status: 'finished',
      results: [{ output: { yes: true } }, { output: 'paid' }],
    });
    expect((await errorOf(await send('POST', `/runs/${runId}/resolve`, resolution))).code).toBe(
      'already-decided',
    );
  });

  test('supersedes calls that wait for approval when it gets a message, if the agent is configured so', async () => {
    const { send, begin, rest } = makeApp({ agent: { onMessage: 'supersede' } });
    const { runId } = await begin();
    expect((await send('POST', `/runs/${runId}/send`, { message: 'never mind', by: 'ada' })).status).toBe(
      200,
    );
    expect(await rest(runId)).toMatchObject({ status: 'finished', answer: 'Done.' });
  });

  test('can be paused, advanced a step at a time, and resumed', async () => {
    const { send, begin, rest, store } = makeApp();
    const { runId } = await begin();
    const paused = await send('POST', `/runs/${runId}/pause`, { by: 'ada' });
    expect(await paused.json()).toMatchObject({ paused: true });
    expect((await store.read(runId)).at(-1)?.event).toMatchObject({ type: 'pause.requested', by: 'ada' });
    expect(await errorOf(await send('POST', `/runs/${runId}/pause`, {}))).toMatchObject({
      code: 'refused',
      status: 409,
    });
    await send('POST', `/runs/${runId}/approve`, { callId: 'call_0_0' });
    await send('POST', `/runs/${runId}/step`);
    const stepped = await until(async () => {
      const view = await rest(runId);
      return view.calls.length === 0 ? view : undefined;
    });
    expect(stepped).toMatchObject({ status: 'waiting', paused: true, turns: 1 });
    await send('POST', `/runs/${runId}/unpause`);
    expect((await rest(runId)).status).toBe('finished');
  });

  test('can be cancelled, and then accepts no more commands', async () => {
    const { send, begin } = makeApp();
    const { runId } = await begin();
    const cancelled = await send('POST', `/runs/${runId}/cancel`, { reason: 'enough', by: 'ada' });
    expect(await cancelled.json()).toMatchObject({
      status: 'cancelled',
      settled: { unsettled: [{ callId: 'call_0_0' }] },
    });
    const late = await errorOf(await send('POST', `/runs/${runId}/send`, { message: 'more' }));
    expect(late).toMatchObject({ status: 409, code: 'run-ended' });
    expect((await send('POST', `/runs/${runId}/resume`)).status).toBe(200);
  });

  test('can continue a run that has ended, and no other', async () => {
    const { begin, send } = makeApp({ turns: [DONE, DONE] });
    const { runId } = await begin();
    expect(await begin({ input: 'more', continues: runId })).toMatchObject({
      continues: runId,
      status: 'finished',
    });
    const waiting = await makeApp().begin();
    expect(waiting.status).toBe('waiting');
    const unknown = await errorOf(await send('POST', '/runs', { input: 'x', continues: waiting.runId }));
    expect(unknown).toMatchObject({ status: 404, code: 'run-unknown' });
  });

  test('is listed newest first, by its status', async () => {
    const { begin, send } = makeApp();
    const first = await begin();
    const second = await begin();
    await send('POST', `/runs/${first.runId}/cancel`);
    const list = async (query: string) =>
      ((await (await send('GET', `/runs${query}`)).json()) as { runs: { runId: string }[] }).runs.map(
        ({ runId }) => runId,
      );
    expect(await list('?status=waiting')).toEqual([second.runId]);
    expect(await list('?status=cancelled')).toEqual([first.runId]);
    expect((await list('?limit=1')).length).toBe(1);
    expect((await list('')).sort()).toEqual([first.runId, second.runId].sort());
  });

  test('whose approval expires is resumed although no client watches it', async () => {
    const { begin, view, store } = makeApp({ turns: [{ toolCalls: [{ name: 'expiring_soon' }] }, DONE] });
    const { runId, status } = await begin();
    expect(status).toBe('waiting');
    const end = await until(async () =>
      (await view(runId)).status === 'finished' ? view(runId) : undefined,
    );
    expect(end.answer).toBe('Done.');
    expect((await store.read(runId)).filter(({ event }) => event.type === 'timer.fired')).toHaveLength(1);
  });
});

describe('an invalid request', () => {
  test.each([
    ['GET', '/runs/run_absent', undefined, 404, 'run-unknown'],
    ['GET', '/runs/run_absent/events', undefined, 404, 'run-unknown'],
    ['POST', '/runs/run_absent/approve', { callId: 'x' }, 404, 'run-unknown'],
    ['POST', '/runs/run_absent/pause', {}, 404, 'run-unknown'],
    ['POST', '/runs', { input: 'go', agent: 'nobody' }, 404, 'agent-unknown'],
    ['GET', '/runs?status=sleeping', undefined, 400, 'input-invalid'],
    ['GET', '/runs?limit=0', undefined, 400, 'input-invalid'],
    ['GET', '/runs?limit=1e9', undefined, 400, 'input-invalid'],
    ['GET', '/runs?colour=red', undefined, 400, 'input-invalid'],
    ['GET', '/elsewhere', undefined, 404, 'not-found'],
    ['DELETE', '/runs', undefined, 400, 'input-invalid'],
    ['DELETE', '/agents', undefined, 404, 'not-found'],
    ['POST', '/runs', { input: 'go', limits: { cost: 1 } }, 400, 'agent-invalid'],
  ] as const)('%s %s %j is %i %s', async (method, path, body, status, code) => {
    expect(await errorOf(await makeApp().send(method, path, body))).toMatchObject({ status, code });
  });

  test.each([
    [{ callId: 'call_9_9' }, 404, 'call-unknown'],
    [{ callId: 'call_0_0', digest: 'another' }, 409, 'wrong-digest'],
    [{ callId: 'call_0_0', input: { orderId: 7 } }, 400, 'input-invalid'],
  ])('approve %j is %i %s', async (body, status, code) => {
    const { begin, send } = makeApp();
    const { runId } = await begin();
    expect(await errorOf(await send('POST', `/runs/${runId}/approve`, body))).toMatchObject({ status, code });
  });

  test('an approval after its deadline is refused as expired or because its call is over', async () => {
    const { begin, send } = makeApp({ turns: [{ toolCalls: [{ name: 'expiring' }] }, DONE] });
    const { runId } = await begin();
    const response = await send('POST', `/runs/${runId}/approve`, { callId: 'call_0_0' });
    expect(response.status).toBe(409);
  });

  test('malformed ids are unknown runs', async () => {
    const { send } = makeApp();
    for (const id of ['%00', '%ff', '..%2f..', "'%3B--", 'a'.repeat(5_000), '%F0%9F%92%A9', '%'])
      expect((await send('GET', `/runs/${id}`)).status).toBe(404);
  });
});

describe('a run whose agent is not served', () => {
  async function strangersRun() {
    const store = memory();
    const { runId } = await makeApp({ store }).begin();
    return { ...makeApp({ store, agents: new Map() }), runId };
  }

  test('can be read and listed, and reports that this server cannot drive it', async () => {
    const { view, runId } = await strangersRun();
    expect(await view(runId)).toMatchObject({ status: 'waiting', availableAgent: false });
  });

  test('refuses decisions, messages and resumption', async () => {
    const { send, runId, store } = await strangersRun();
    const before = await store.read(runId);
    const bodies = {
      approve: { callId: 'call_0_0' },
      answer: { callId: 'call_0_0', output: 1 },
      send: { message: 'hello' },
      resume: {},
      step: {},
    };
    for (const [name, body] of Object.entries(bodies)) {
      const error = await errorOf(await send('POST', `/runs/${runId}/${name}`, body));
      expect(error).toMatchObject({ status: 503, code: 'agent-unavailable' });
    }
    expect(await store.read(runId)).toEqual(before);
  });

  test('can be paused and cancelled, and is never claimed', async () => {
    const { send, runId, view, store } = await strangersRun();
    expect((await send('POST', `/runs/${runId}/pause`)).status).toBe(200);
    expect((await send('POST', `/runs/${runId}/cancel`, { by: 'ada' })).status).toBe(200);
    expect((await view(runId)).status).toBe('cancelled');
    const claims = (await store.read(runId)).filter(({ event }) => event.type === 'run.claimed');
    expect(claims).toHaveLength(1);
  });

  test('cannot be started: the error of a server without agents says how to add one', async () => {
    const { send } = await strangersRun();
    const error = await errorOf(await send('POST', '/runs', { input: 'go' }));
    expect(error).toMatchObject({ status: 503, code: 'model-missing' });
    expect(error.message).toContain('AGENTCHART_MODEL');
  });
});

test('text filters apply to the transcript and the answer that clients get', async () => {
  const hush = () => ({ push: (text: string) => text.replaceAll('secret', '******'), end: () => '' });
  const { begin } = makeApp({ turns: [{ text: 'the secret' }], agent: { textFilters: [hush] } });
  const view = await begin();
  expect(view.answer).toBe('the ******');
  expect(JSON.stringify(view)).not.toContain('secret');
});

test('the agent list has descriptions, models and tools', async () => {
  const { send } = makeApp({ agent: { description: 'Refunds orders.' } });
  expect(await (await send('GET', '/agents')).json()).toEqual({
    agents: [
      {
        name: 'desk',
        description: 'Refunds orders.',
        models: [{ provider: 'scripted', model: expect.any(String) }],
        tools: 5,
      },
    ],
  });
});

test('a failing store is a 503 for the client and does not end the server', async () => {
  const { begin, send, store } = makeApp({ turns: [REFUND] });
  const { runId } = await begin();
  await store.close();
  expect(await errorOf(await send('GET', `/runs/${runId}`))).toMatchObject({
    status: 503,
    code: 'store-unavailable',
  });
  expect((await send('GET', '/healthz')).status).toBe(200);
});

describe('several commands in one request', () => {
  const TWO = { toolCalls: [...(REFUND.toolCalls ?? []), ...(REFUND.toolCalls ?? [])] };

  test('are applied together, and the run continues', async () => {
    const { send, begin, rest, store } = makeApp({ turns: [TWO, DONE] });
    const { runId } = await begin();
    const response = await send('POST', `/runs/${runId}/commands`, [
      { type: 'approve', callId: 'call_0_0', by: 'ada' },
      { type: 'reject', callId: 'call_0_1', reason: 'once is enough', by: 'ada' },
    ]);
    expect(response.status).toBe(200);
    expect(await rest(runId)).toMatchObject({ status: 'finished', answer: 'Done.' });
    const decided = (await store.read(runId)).filter(({ event }) => event.type === 'approval.decided');
    expect(decided[1]?.seq).toBe((decided[0]?.seq ?? 0) + 1);
  });

  test('are all refused when one is refused, and the error names it', async () => {
    const { send, begin, store } = makeApp({ turns: [TWO, DONE] });
    const { runId } = await begin();
    const before = (await store.read(runId)).length;
    const commands = [
      { type: 'approve', callId: 'call_0_0' },
      { type: 'resolve', callId: 'call_0_1', retry: true },
    ];
    expect(await errorOf(await send('POST', `/runs/${runId}/commands`, commands))).toMatchObject({
      status: 409,
      code: 'call-not-open',
      details: { index: 1 },
    });
    expect(await store.read(runId)).toHaveLength(before);
  });

  test('are limited in number and to known types', async () => {
    const { send, begin } = makeApp({ turns: [TWO, DONE] });
    const { runId } = await begin();
    const many = Array.from({ length: 101 }, () => ({ type: 'pause' }));
    for (const body of [[], many, [{ type: 'explode' }], [{ type: 'approve' }], { type: 'pause' }])
      expect(await errorOf(await send('POST', `/runs/${runId}/commands`, body))).toMatchObject({
        status: 400,
        code: 'input-invalid',
      });
  });
});
