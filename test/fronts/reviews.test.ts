import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, type Run, webhook } from '../../agent/index.ts';
import { remoteRun } from '../../fronts/react/index.ts';
import type { OpenReview } from '../../protocol/run-view.ts';
import { createStoryHandler } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';
import { AgUiDesk } from '../support/fronts/ag-ui-desk.ts';
import { closeAfterTests } from '../support/fronts/close-after-tests.ts';
import {
  callDesk,
  currentClient,
  earlierClient,
  type Form,
  mcpServer,
  textOf,
} from '../support/fronts/mcp.ts';
import { makeApp } from '../support/server/runs-app.ts';
import { receiveHooks, SECRET } from '../support/tools/listening/hook-receiver.ts';

const used = closeAfterTests();
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const TURNS = [{ text: 'It costs 5.' }, { text: 'It costs some.' }];
const CHANGED = 'Ask sales.';

/** An agent whose answers people review. */
function makeDesk(more: Partial<Agent['options']> = {}, ask: object = {}): Agent {
  return createAgent({
    name: 'desk',
    store: memory(),
    model: scripted(TURNS),
    guardrails: { answer: () => ({ type: 'ask', reason: 'a price', ...ask }) },
    ...more,
  });
}

const onlyRun = async (agent: Agent): Promise<Run> =>
  await agent.open((await agent.store.list()).runs[0]?.runId ?? '');

async function reviewOf(run: Run): Promise<OpenReview> {
  const settled = await run.settled();
  const [review] = settled.status === 'waiting' ? settled.reviews : [];
  if (review === undefined) throw new Error(`No review: ${settled.status}.`);
  return review;
}

const decisionsOf = async (run: Run) =>
  (await run.source.store.read(run.id)).flatMap(({ event }) =>
    event.type === 'review.decided' ? [{ by: event.by, ...event.decision }] : [],
  );

/** What each front has to leave behind: the first answer sent back with a remark, the second one changed. */
async function expectReviewed(agent: Agent): Promise<void> {
  const run = await onlyRun(agent);
  expect(await run.settled()).toMatchObject({ status: 'finished', text: CHANGED, turns: 2 });
  expect(await decisionsOf(run)).toMatchObject([
    { type: 'reject', reason: 'name no price' },
    { type: 'approve', text: CHANGED },
  ]);
}

describe('AG-UI', () => {
  async function openDesk(agent: Agent, caller?: Partial<Caller>) {
    const desk = await AgUiDesk.open(agent, caller && { authorize: () => caller as Caller });
    closing.push(() => desk.close());
    return desk.client('thread-1');
  }

  test('interrupts for a review, which is sent back and changed; {} and `cancelled` decide nothing', async () => {
    const agent = makeDesk();
    const client = await openDesk(agent);
    await client.say('What does it cost?');
    expect(client.interrupts).toMatchObject([
      {
        reason: 'agentchart:review',
        message: 'Give this answer? a price',
        metadata: { agentchart: { answer: 'It costs 5.' } },
        responseSchema: { properties: { approved: {}, answer: {}, reason: {} } },
      },
    ]);
    expect(client.interrupts[0]).not.toHaveProperty('toolCallId');
    expect(client.state).toMatchObject({ state: 'resting.awaitingReview', status: 'waiting' });
    await client.resume({});
    const [open] = client.interrupts;
    await client.run({ resume: [{ interruptId: open?.id ?? '', status: 'cancelled' }] });
    expect(client.interrupts).toMatchObject([{ id: open?.id }]);
    await client.resume({ approved: false, reason: 'name no price' });
    expect(client.texts).toEqual(['It costs some.']);
    await client.resume({ approved: true, answer: CHANGED });
    expect(client.texts).toEqual([CHANGED]);
    expect(client.state).toMatchObject({ state: 'finished', answer: CHANGED });
    await expectReviewed(agent);
  });

  test('says why an answer cannot take the place of the one under review', async () => {
    const client = await openDesk(makeDesk());
    await client.say('What does it cost?');
    for (const payload of [
      { approved: true, answer: { cents: 5 } },
      { approved: true, input: {} },
      { approved: true, digest: 'another' },
    ]) {
      await client.resume(payload);
      expect(client.of('CUSTOM')).toMatchObject([
        { name: 'agentchart.refused', value: { message: expect.stringMatching(/answer|digest/i) } },
      ]);
      expect(client.interrupts).toHaveLength(1);
    }
  });

  test('tells a customer whom a held answer waits for, without the answer and without an interrupt', async () => {
    const client = await openDesk(makeDesk({ finalAnswer: 'held' }, { by: 'managers' }), { name: 'ann' });
    await client.say('What does it cost?');
    expect(client.interrupts).toEqual([]);
    expect(client.of('CUSTOM')).toMatchObject([
      {
        name: 'agentchart.waiting',
        value: { name: 'answer', waitsFor: 'the decision of a person in the group managers' },
      },
    ]);
    expect(JSON.stringify([client.events, client.agent.messages])).not.toContain('It costs');
  });
});

describe('MCP', () => {
  test('asks by a form: declined, the answer is sent back with the remark; accepted, it is given as changed', async () => {
    const agent = makeDesk();
    const forms: Form[] = [];
    const client = used(
      await earlierClient(used(mcpServer([agent])), form => {
        forms.push(form);
        if (forms.length === 1) return { action: 'decline', content: { reason: 'name no price' } };
        return { action: 'accept', content: { answer: CHANGED } };
      }),
    );
    expect(textOf(await callDesk(client))).toBe(CHANGED);
    expect(forms.map(({ message }) => message)).toEqual([
      expect.stringContaining('It costs 5.'),
      expect.stringContaining('It costs some.'),
    ]);
    expect(forms[1]?.requestedSchema.properties.answer?.default).toBe('It costs some.');
    await expectReviewed(agent);
  });

  test('asks again with the reason if the answer does not follow the schema', async () => {
    const agent = makeDesk({
      model: scripted([{ text: '{"cents":5}' }]),
      output: z.object({ cents: z.int() }),
    });
    const forms: Form[] = [];
    const client = used(
      await earlierClient(used(mcpServer([agent])), form => {
        forms.push(form);
        return { action: 'accept', content: { answer: forms.length === 1 ? 'five' : '{"cents":6}' } };
      }),
    );
    expect(await callDesk(client)).toMatchObject({ structuredContent: { cents: 6 } });
    expect(forms[1]?.message).toContain('not valid');
  });

  test('leaves a cancelled review to others, and names the commands that decide it', async () => {
    const agent = makeDesk();
    const client = used(await earlierClient(used(mcpServer([agent])), () => ({ action: 'cancel' })));
    const text = textOf(await callDesk(client));
    const run = await onlyRun(agent);
    const { callId } = await reviewOf(run);
    expect(text).toContain(`agentchart approve ${run.id} ${callId} [--answer TEXT]`);
    expect(text).toContain(`agentchart reject ${run.id} ${callId} --reason TEXT`);
    expect(await decisionsOf(run)).toEqual([]);
  });

  test('counts no reply about an answer that was sent back meanwhile', async () => {
    const agent = makeDesk();
    const client = used(await currentClient(used(mcpServer([agent]))));
    const asked = await callDesk(client);
    const [id] = Object.keys(asked.inputRequests ?? {});
    const run = await onlyRun(agent);
    await run.reject(await reviewOf(run), { reason: 'name no price' });
    await run.settled();
    const again = await callDesk(client, asked, { [id ?? '']: { action: 'accept' } });
    expect(again.resultType).toBe('input_required');
    expect(JSON.stringify(again.inputRequests)).toContain('It costs some.');
    expect(await reviewOf(run)).toMatchObject({ answer: 'It costs some.' });
  });
});

describe('the runs API', () => {
  const tokens = {
    boss: { token: 'the-token-of-boss-000000', role: 'operator' as const },
    mia: { token: 'the-token-of-mia-0000000', role: 'approver' as const, groups: ['managers'] },
    carl: { token: 'the-token-of-carl-000000', role: 'approver' as const, groups: ['sales'] },
    vera: { token: 'the-token-of-vera-000000', role: 'viewer' as const },
  };
  type Answer = { http: number; runId?: string; items?: unknown[] };
  const as = (who: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[who].token}` });

  async function openDesk(ask: object = {}) {
    const guardrails = { answer: () => ({ type: 'ask' as const, reason: 'a price', ...ask }) };
    const app = makeApp({ turns: TURNS, agent: { guardrails }, tokens });
    const send = async (
      who: keyof typeof tokens,
      method: string,
      path: string,
      body?: object,
    ): Promise<Answer> => {
      const response = await app.send(method, path, body, as(who));
      const answer = (await response.json()) as object;
      return { ...answer, http: response.status };
    };
    const { runId } = await send('boss', 'POST', '/runs', { input: 'What does it cost?' });
    const inbox = async (who: keyof typeof tokens) => (await send(who, 'GET', '/inbox')).items ?? [];
    await expect.poll(() => inbox('boss')).toHaveLength(1);
    return { app, send, inbox, path: `/runs/${runId}`, runId: runId ?? '' };
  }

  test('has a review in the inbox and in the run, and takes each decision about it once', async () => {
    const { app, send, inbox, path, runId } = await openDesk();
    const [item] = (await inbox('mia')) as { call: OpenReview; since: number }[];
    const entries = await app.store.read(runId);
    const requested = entries.find(({ event }) => event.type === 'review.requested');
    expect(item).toMatchObject({
      kind: 'review',
      runId,
      rootId: runId,
      since: requested?.event.at,
      call: { kind: 'review', answer: 'It costs 5.', reason: 'a price' },
    });
    expect(await send('vera', 'GET', path)).toMatchObject({
      http: 200,
      state: 'resting.awaitingReview',
      settled: { reviews: [item?.call] },
    });
    const { callId, digest } = item?.call ?? {};
    const first = await send('mia', 'POST', `${path}/reject`, { callId, digest, reason: 'name no price' });
    expect(first.http).toBe(200);
    expect(await send('carl', 'POST', `${path}/approve`, { callId })).toMatchObject({
      http: 409,
      error: { code: 'already-decided', message: expect.stringContaining('mia') },
    });
    await expect.poll(() => inbox('mia')).toMatchObject([{ call: { answer: 'It costs some.' } }]);
    const [next] = (await inbox('mia')) as { call: OpenReview }[];
    const second = { callId: next?.call.callId };
    for (const [command, body, code] of [
      ['approve', { ...second, digest }, 'wrong-digest'],
      ['approve', { ...second, input: {} }, 'input-invalid'],
      ['approve', { ...second, answer: { cents: 5 } }, 'input-invalid'],
      ['approve', { ...second, sticky: true }, 'input-invalid'],
      ['answer', { ...second, output: CHANGED }, 'input-invalid'],
      ['resolve', { ...second, retry: true }, 'input-invalid'],
    ] as const)
      expect(await send('boss', 'POST', `${path}/${command}`, body)).toMatchObject({ error: { code } });
    const changed = await send('mia', 'POST', `${path}/approve`, { ...second, answer: CHANGED });
    expect(changed.http).toBe(200);
    await expect.poll(() => send('vera', 'GET', path)).toMatchObject({ state: 'finished', answer: CHANGED });
    expect(await inbox('mia')).toEqual([]);
  });

  test('takes a decision only of a role that decides, and of whom the review names', async () => {
    const { send, inbox, path } = await openDesk({ by: 'managers' });
    const [item] = (await inbox('carl')) as { call: OpenReview }[];
    expect(item?.call).toMatchObject({ by: ['managers'] });
    const body = { callId: item?.call.callId };
    expect(await send('vera', 'POST', `${path}/approve`, body)).toMatchObject({ http: 403 });
    for (const who of ['carl', 'boss'] as const)
      for (const command of ['approve', 'reject'])
        expect(await send(who, 'POST', `${path}/${command}`, body)).toMatchObject({
          http: 403,
          error: { code: 'not-allowed', message: expect.stringContaining('managers') },
        });
    expect(await send('mia', 'POST', `${path}/approve`, body)).toMatchObject({ http: 200 });
  });
});

test('React has the review apart from the calls, and decides it with the digest that was shown', async () => {
  const guardrails = { answer: () => ({ type: 'ask' as const, reason: 'a price' }) };
  const app = makeApp({ turns: TURNS, agent: { guardrails } });
  const { runId } = await app.begin();
  const fetch: typeof globalThis.fetch = async (url, init) =>
    await app.send(
      init?.method ?? 'GET',
      String(url),
      init?.body ?? undefined,
      Object.fromEntries(new Headers(init?.headers)),
    );
  const run = remoteRun(`/runs/${runId}`, { fetch });
  closing.push(run.subscribe(() => {}));
  const now = () => run.getSnapshot();
  await expect.poll(now).toMatchObject({
    state: 'resting.awaitingReview',
    status: 'waiting',
    calls: [],
    reviews: [{ answer: 'It costs 5.', reason: 'a price' }],
  });
  const [first] = now().reviews;
  expect(await run.reject(first ?? '', { reason: 'name no price' })).toEqual({ accepted: true });
  await expect.poll(now).toMatchObject({ reviews: [{ answer: 'It costs some.' }] });
  expect(await run.approve(first ?? '')).toMatchObject({ accepted: false, code: 'already-decided' });
  const [second] = now().reviews;
  expect(await run.approve({ ...second, digest: first?.digest } as never)).toMatchObject({
    accepted: false,
    code: 'wrong-digest',
  });
  expect(await run.approve(second ?? '', { answer: CHANGED })).toEqual({ accepted: true });
  await expect.poll(now).toMatchObject({ status: 'finished', text: CHANGED, reviews: [] });
});

test('a story asks about a review by its id, and takes one answer to it', async () => {
  const agent = makeDesk();
  const handler = createStoryHandler(agent, { log: () => {} });
  closing.push(() => handler.close());
  const post = async (path: string, body: object) => {
    const request = { method: 'POST', headers: { 'content-type': 'application/json' } };
    const response = await handler(
      new Request(`http://shop.example/story${path}`, { ...request, body: JSON.stringify(body) }),
    );
    const lines = (await response.text())
      .split('\n')
      .flatMap(line => (line === '' ? [] : [JSON.parse(line)]));
    return { status: response.status, lines, of: (type: string) => lines.filter(line => line.type === type) };
  };
  const begun = await post('', { input: 'What does it cost?' });
  const path = `/${begun.of('run')[0]?.runId}`;
  const [asked] = begun.of('review.asked');
  expect(asked).toMatchObject({ open: { kind: 'review', answer: 'It costs 5.', reason: 'a price' } });
  const { id } = asked.open;
  const unfit = await post(path, { answers: [{ id, answer: CHANGED }] });
  expect([unfit.status, JSON.stringify(unfit.lines)]).toEqual([400, expect.stringContaining('approved')]);
  const again = await post(path, { answers: [{ id, approved: false, reason: 'name no price' }] });
  expect(again.of('review.decided')).toMatchObject([{ approved: false, reason: 'name no price' }]);
  expect((await post(path, { answers: [{ id, approved: true }] })).status).toBe(409);
  const next = again.of('review.asked')[0]?.open.id;
  const done = await post(path, { answers: [{ id: next, approved: true, answer: CHANGED }] });
  expect(done.of('review.decided')).toMatchObject([{ approved: true, given: true, edited: true }]);
  expect(done.lines.at(-1)).toMatchObject({ type: 'settled', status: 'finished', text: CHANGED });
  await expectReviewed(agent);
});

test('a webhook gets each review with what a decision needs, and its decision', async () => {
  const { url, received, close } = await receiveHooks([]);
  closing.push(close);
  const agent = makeDesk();
  closing.push(() => agent.close());
  agent.on(webhook({ url, secret: SECRET, on: ['waiting', 'review.decided', 'finished'] }));
  const run = await agent.start('What does it cost?');
  const first = await reviewOf(run);
  await expect.poll(() => received.length).toBe(1);
  expect(received[0]?.body).toMatchObject({ type: 'run.waiting', data: { runId: run.id, open: [first] } });
  await run.reject(first, { reason: 'name no price' });
  await run.settled();
  await expect.poll(() => received.length).toBe(3);
  const { callId, digest, runId } = await reviewOf(run);
  expect(received.map(({ body }) => body)).toMatchObject([
    {},
    { type: 'review.decided', data: { reviewId: first.callId } },
    { type: 'run.waiting', data: { open: [{ kind: 'review', callId, digest, answer: 'It costs some.' }] } },
  ]);
  const [open] = (received.at(-1)?.body.data.open ?? []) as OpenReview[];
  expect(open).toMatchObject({ callId, digest, runId });
  await run.approve(open ?? '', { answer: CHANGED });
  await expect.poll(() => received.at(-1)?.body.type).toBe('run.finished');
  await expectReviewed(agent);
});
