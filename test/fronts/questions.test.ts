import type { Task } from '@a2a-js/sdk';
import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, type Run, webhook } from '../../agent/index.ts';
import { remoteRun } from '../../fronts/react/index.ts';
import { EngineError } from '../../protocol/error.ts';
import type { InboxItem, OpenQuestion, RunView } from '../../protocol/run-view.ts';
import type { Tool } from '../../protocol/tool.ts';
import { createStoryHandler } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';
import type { Ask } from '../../tools/ask.ts';
import { tool } from '../../tools/tool.ts';
import { calls, resultsIn } from '../support/engine/agents.ts';
import { a2aClient, a2aServer, seen, sending } from '../support/fronts/a2a.ts';
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

type Prepare = (given: { ask: Ask }) => unknown;

const TURNS = [calls('book'), { text: 'Done.' }];

/** Two questions at once: a number, and a text that only finance may give. */
const askBoth: Prepare = ({ ask }) =>
  Promise.all([
    ask({ key: 'people', message: 'How many?', schema: z.int().positive() }),
    ask({ key: 'account', message: 'Which account?', schema: z.string(), by: 'finance' }),
  ]);

const askHow: Prepare = ({ ask }) => ask({ key: 'people', message: 'How many?', schema: z.int().positive() });

function makeBooking(prepare: Prepare): Tool {
  return tool({
    name: 'book',
    description: 'Books a table.',
    input: z.object({}),
    prepare,
    run: (_, { prepared }) => ({ booked: prepared }),
  }) as Tool;
}

function makeDesk(prepare = askHow, more: Partial<Agent['options']> = {}): Agent {
  const model = scripted(TURNS);
  return createAgent({ name: 'desk', store: memory(), model, tools: [makeBooking(prepare)], ...more });
}

const onlyRun = async (agent: Agent): Promise<Run> =>
  await agent.open((await agent.store.list()).runs[0]?.runId ?? '');

async function expectBooked(agent: Agent, booked: unknown): Promise<void> {
  expect(await (await onlyRun(agent)).settled()).toMatchObject({
    status: 'finished',
    results: [{ output: { booked } }],
  });
}

/** A tool server that needs a person to sign in. */
const crm = {
  name: 'crm',
  connect: async () => {
    throw new EngineError('sign-in-needed', 'Sign in.', { server: 'crm' });
  },
  close: async () => {},
};

describe('AG-UI', () => {
  async function openDesk(agent: Agent, caller?: object) {
    const desk = await AgUiDesk.open(agent, caller && { authorize: () => caller as never });
    closing.push(() => desk.close());
    return desk.client('thread-1');
  }

  test('interrupts with the schema of the answers, and is resumed with them', async () => {
    const agent = makeDesk();
    const client = await openDesk(agent, { name: 'ann' });
    await client.say('A table.');
    expect(client.interrupts).toMatchObject([
      {
        reason: 'input_required',
        message: 'How many?',
        toolCallId: 'call_0_0',
        responseSchema: {
          properties: {
            answers: {
              properties: { people: { type: 'integer', description: 'How many?' } },
              additionalProperties: false,
            },
          },
        },
        metadata: { agentchart: { name: 'book', questions: [{ key: 'people' }] } },
      },
    ]);
    expect(client.state).toMatchObject({ state: 'resting.awaitingAnswers', status: 'waiting' });
    await client.resume({ answers: { people: 4 } });
    expect([client.interrupts, client.texts]).toEqual([[], ['Done.']]);
    await expectBooked(agent, 4);
    const [answered] = (await agent.store.read((await onlyRun(agent)).id)).flatMap(({ event }) =>
      event.type === 'question.answered' ? [event] : [],
    );
    expect(answered).toMatchObject({ by: 'ann' });
  });

  test('ends again with what is left, and with why an answer does not fit', async () => {
    const agent = makeDesk(({ ask }) =>
      Promise.all(['a', 'b'].map(key => ask({ key, message: `${key}?`, schema: z.string().min(2) }))),
    );
    const client = await openDesk(agent);
    await client.say('A table.');
    await client.resume({});
    expect(client.interrupts).toMatchObject([{ message: 'a?\nb?' }]);
    await client.resume({ answers: { a: 'x' } });
    expect(client.of('CUSTOM')).toMatchObject([
      {
        name: 'agentchart.refused',
        value: { code: 'input-invalid', message: expect.stringContaining('"a"') },
      },
    ]);
    await client.resume({ answers: { b: 'bee' } });
    expect(client.interrupts).toMatchObject([{ message: 'a?' }]);
    await client.resume({ answers: { a: 'ace' } });
    await expectBooked(agent, ['ace', 'bee']);
  });

  test('a cancelled interrupt declines, as does { approved: false } with its reason', async () => {
    for (const entry of [
      { status: 'cancelled' as const },
      { status: 'resolved' as const, payload: { approved: false, reason: 'no table' } },
    ]) {
      const agent = makeDesk();
      const client = await openDesk(agent);
      await client.say('A table.');
      await client.run({ resume: [{ interruptId: client.interrupts[0]?.id ?? '', ...entry }] });
      const { context } = await onlyRun(agent);
      expect(resultsIn(context.transcript).call_0_0).toMatch(
        entry.status === 'cancelled' ? /was declined\.$/ : /was declined: no table$/,
      );
    }
  });

  test('an answer to an interrupt about an earlier question counts for no other', async () => {
    let people = 2;
    const agent = makeDesk(({ ask }) => ask({ key: 'ok', message: `For ${people}?`, schema: z.boolean() }));
    const client = await openDesk(agent);
    await client.say('A table.');
    people = 200;
    const run = await onlyRun(agent);
    await run.answer('call_0_0', { answers: { ok: true } });
    await run.settled();
    await client.resume({ answers: { ok: true } });
    expect(client.of('CUSTOM')).toMatchObject([{ value: { code: 'already-decided' } }]);
    expect(client.interrupts).toMatchObject([{ message: 'For 200?' }]);
    await client.resume({ answers: { ok: false } });
    await expectBooked(agent, false);
  });

  test('shows a caller its own questions, and whom the call waits for once there are none', async () => {
    const agent = makeDesk(askBoth);
    const client = await openDesk(agent, { name: 'ann' });
    await client.say('A table.');
    expect(client.interrupts).toMatchObject([{ message: 'How many?' }]);
    await client.resume({ answers: { people: 2 } });
    expect(client.interrupts).toEqual([]);
    expect(client.of('CUSTOM')).toMatchObject([
      {
        name: 'agentchart.waiting',
        value: { name: 'book', waitsFor: 'the answer of a person in the group finance' },
      },
    ]);
  });
});

describe('MCP', () => {
  const askTable: Prepare = ({ ask }) =>
    ask({
      key: 'table',
      message: 'Which table?',
      schema: z.object({ people: z.int().positive(), area: z.enum(['garden', 'hall']).optional() }),
    });

  test('one question for an object is its form, and is asked again with why an answer does not fit', async () => {
    const agent = makeDesk(askTable);
    const forms: Form[] = [];
    const client = used(
      await earlierClient(used(mcpServer([agent])), form => {
        forms.push(form);
        return { action: 'accept', content: { people: forms.length === 1 ? 0 : 4, area: 'garden' } as never };
      }),
    );
    expect(textOf(await callDesk(client))).toBe('Done.');
    expect(forms).toMatchObject([
      {
        message: expect.stringContaining('Which table?'),
        requestedSchema: {
          properties: { people: { type: 'integer' }, area: { type: 'string', enum: ['garden', 'hall'] } },
          required: ['people'],
        },
      },
      { message: expect.stringContaining('The answer to "table" is not valid') },
    ]);
    await expectBooked(agent, { people: 4, area: 'garden' });
  });

  test('several questions are the fields of one form, and what has no field is JSON', async () => {
    const agent = makeDesk(({ ask }) =>
      Promise.all([
        ask({ key: 'people', message: 'How many?', schema: z.int() }),
        ask({ key: 'names', message: 'Who?', schema: z.array(z.string()) }),
        ask({ key: 'account', message: 'Which account?', schema: z.string(), by: 'finance' }),
      ]),
    );
    const forms: Form[] = [];
    const client = used(
      await earlierClient(used(mcpServer([agent])), form => {
        forms.push(form);
        if (forms.length > 1) return { action: 'accept', content: { account: 'A-1' } };
        return { action: 'accept', content: { people: 2, names: '["ann"]' } as never };
      }),
    );
    const text = textOf(await callDesk(client));
    expect(forms).toMatchObject([
      {
        requestedSchema: {
          properties: {
            people: { type: 'integer', title: 'people', description: 'How many?' },
            names: { type: 'string', description: 'Who? (JSON)' },
            account: { description: expect.stringContaining('the answer of a person in the group finance') },
          },
          required: ['people', 'names'],
        },
      },
      { requestedSchema: { properties: { account: {} }, required: [] } },
    ]);
    // Nobody here is in the group: the question stays open, and the caller reads who and how.
    expect(forms).toHaveLength(2);
    const { id } = await onlyRun(agent);
    expect(text).toContain(`agentchart answer ${id} call_0_0 --answers JSON`);
  });

  test('a declined form declines, and a cancelled one leaves the question to others', async () => {
    const declined = makeDesk();
    const one = used(await earlierClient(used(mcpServer([declined])), () => ({ action: 'decline' })));
    expect(textOf(await callDesk(one))).toBe('Done.');
    expect(resultsIn((await onlyRun(declined)).context.transcript).call_0_0).toContain('was declined');
    const cancelled = makeDesk();
    const other = used(await earlierClient(used(mcpServer([cancelled])), () => ({ action: 'cancel' })));
    expect(textOf(await callDesk(other))).toContain('agentchart answer');
    expect((await (await onlyRun(cancelled)).settled()).status).toBe('waiting');
  });

  test('a run that waits for a sign-in says at which server, and how', async () => {
    const client = used(await currentClient(used(mcpServer([makeDesk(askHow, { tools: [crm] })]))));
    expect(textOf(await callDesk(client))).toContain(
      'A person must sign in at "crm". Use: agentchart mcp login crm --agent MODULE',
    );
  });

  test('a client of the current revision answers with another request, about what it was asked alone', async () => {
    let people = 2;
    const agent = makeDesk(({ ask }) => ask({ key: 'ok', message: `For ${people}?`, schema: z.boolean() }));
    const client = used(await currentClient(used(mcpServer([agent]))));
    const asked = await callDesk(client);
    const [id = ''] = Object.keys(asked.inputRequests ?? {});
    expect(asked.inputRequests?.[id]?.params).toMatchObject({
      message: expect.stringContaining('For 2?'),
      requestedSchema: { properties: { ok: { type: 'boolean', description: 'For 2?' } }, required: ['ok'] },
    });
    people = 200;
    const run = await onlyRun(agent);
    await run.answer('call_0_0', { answers: { ok: true } });
    await run.settled();
    const answer = { [id]: { action: 'accept' as const, content: { ok: true } as never } };
    const again = await callDesk(client, asked, answer);
    expect(JSON.stringify(again.inputRequests)).toContain('For 200?');
    expect(textOf(await callDesk(client, again, answer))).toBe('Done.');
    await expectBooked(agent, true);
  });
});

describe.each(['JSONRPC', 'HTTP+JSON'] as const)('A2A over %s', binding => {
  const open = async (agent: Agent) => await a2aClient(used(a2aServer([agent])), binding);

  test('a task that waits for a sign-in says at which server, and says it is paused only if it is', async () => {
    const agent = makeDesk(askHow, { tools: [crm] });
    const client = await open(agent);
    const task = (await client.sendMessage(sending({ text: 'go' }))) as Task;
    expect(seen(task).asked).toEqual(['A person must sign in at "crm".']);
    await (await onlyRun(agent)).pause();
    const paused = await client.getTask({ tenant: '', id: task.id });
    expect(seen(paused).asked).toEqual(['A person must sign in at "crm".\nThe run is paused.']);
  });

  test('shows what a tool asks with its schema, and takes the answers as data, in parts', async () => {
    const agent = makeDesk(({ ask }) =>
      Promise.all([
        ask({ key: 'people', message: 'How many?', schema: z.int() }),
        ask({ key: 'where', message: 'Where?', schema: z.string() }),
      ]),
    );
    const client = await open(agent);
    const task = seen((await client.sendMessage(sending({ text: 'go' }))) as never);
    expect(task).toMatchObject({ state: 'TASK_STATE_INPUT_REQUIRED' });
    const text = JSON.stringify(task);
    for (const shown of ['How many?', 'Where?', '"integer"', '"question"', '"people":"VALUE"'])
      expect(text).toContain(shown);
    const { id: taskId } = await onlyRun(agent);
    const send = (data: object) => client.sendMessage(sending({ taskId, data }));
    await expect(send({ callId: 'call_0_0', answers: { people: 'two' } })).rejects.toThrow('must be integer');
    expect(JSON.stringify(seen((await send({ answers: { people: 2 } })) as never))).not.toContain(
      'How many?',
    );
    const done = seen((await client.sendMessage(sending({ taskId, text: 'outside' }))) as never);
    expect(done).toMatchObject({ state: 'TASK_STATE_COMPLETED' });
    await expectBooked(agent, [2, 'outside']);
  });

  test('is declined with a reason', async () => {
    const agent = makeDesk();
    const client = await open(agent);
    await client.sendMessage(sending({ text: 'go' }));
    const { id: taskId } = await onlyRun(agent);
    await client.sendMessage(sending({ taskId, data: { approved: false, reason: 'no table' } }));
    expect(resultsIn((await onlyRun(agent)).context.transcript).call_0_0).toContain('no table');
  });
});

describe('the runs API', () => {
  const tokens = {
    boss: { token: 'the-token-of-boss-000000', role: 'operator' as const },
    ann: { token: 'the-token-of-ann-0000000', role: 'requester' as const },
    fay: { token: 'the-token-of-fay-0000000', role: 'approver' as const, groups: ['finance'] },
    vera: { token: 'the-token-of-vera-000000', role: 'viewer' as const },
  };

  async function openDesk(prepare: Prepare) {
    const app = makeApp({ turns: TURNS, agent: { tools: [makeBooking(prepare)] }, tokens });
    const send = async (who: keyof typeof tokens, method: string, path: string, body?: object) => {
      const headers = { authorization: `Bearer ${tokens[who].token}` };
      const response = await app.send(method, path, body, headers);
      return { ...((await response.json()) as object), http: response.status };
    };
    const inbox = async () => ((await send('fay', 'GET', '/inbox')) as { items?: InboxItem[] }).items ?? [];
    const { runId = '' } = (await send('ann', 'POST', '/runs', { input: 'go' })) as { runId?: string };
    await expect.poll(inbox).toHaveLength(1);
    return { app, send, inbox, path: `/runs/${runId}`, runId };
  }

  test('has a question in the inbox, in the list and in the run, and takes answers of a requester', async () => {
    const { app, send, inbox, path, runId } = await openDesk(askBoth);
    const [item] = await inbox();
    const questions = [
      { key: 'people', message: 'How many?', schema: { type: 'integer' } },
      { key: 'account', message: 'Which account?', by: ['finance'] },
    ];
    expect(item).toMatchObject({
      kind: 'question',
      runId,
      call: { kind: 'question', name: 'book', questions },
    });
    const asked = (await app.store.read(runId)).find(({ event }) => event.type === 'question.asked');
    expect(item?.since).toBe(asked?.event.at);
    expect(await send('vera', 'GET', path)).toMatchObject({
      state: 'resting.awaitingAnswers',
      open: [item?.call],
      settled: { questions: [item?.call] },
    });
    expect(await send('boss', 'GET', '/runs')).toMatchObject({
      runs: [{ waitsFor: [{ type: 'question', callId: 'call_0_0', name: 'book' }] }],
    });
    const callId = 'call_0_0';
    const digest = (item?.call as OpenQuestion | undefined)?.digest;
    for (const [who, body, http, code] of [
      ['vera', { answers: { people: 1 } }, 403, 'forbidden'],
      ['ann', { answers: { account: 'A' } }, 403, 'not-allowed'],
      ['ann', { answers: { people: 'one' } }, 400, 'input-invalid'],
      ['ann', { answers: { other: 1 } }, 400, 'input-invalid'],
      ['ann', { answers: { people: 1 }, digest: 'another' }, 409, 'wrong-digest'],
      ['ann', { output: 1 }, 403, 'not-allowed'],
      ['ann', { answers: [] }, 400, 'input-invalid'],
    ] as const)
      expect([who, body, await send(who, 'POST', `${path}/answer`, { callId, ...body })]).toMatchObject([
        who,
        body,
        { http, error: { code } },
      ]);
    expect(
      await send('ann', 'POST', `${path}/answer`, { callId, digest, answers: { people: 3 } }),
    ).toMatchObject({
      http: 200,
    });
    await expect.poll(inbox).toMatchObject([{ call: { questions: [{ key: 'account' }] } }]);
    expect(await send('fay', 'POST', `${path}/answer`, { callId, answers: { account: 'A' } })).toMatchObject({
      http: 200,
    });
    await expect.poll(() => send('vera', 'GET', path)).toMatchObject({ state: 'finished' });
    expect(await inbox()).toEqual([]);
  });

  test('takes that a requester declines, who decides nothing else', async () => {
    const { app, send, path, runId } = await openDesk(askHow);
    const callId = 'call_0_0';
    const body = { callId, reason: 'no table' };
    expect(await send('ann', 'POST', `${path}/reject`, body)).toMatchObject({ http: 403 });
    expect(await send('ann', 'POST', `${path}/reject`, { ...body, to: 'question' })).toMatchObject({
      http: 200,
    });
    await expect.poll(() => send('vera', 'GET', path)).toMatchObject({ state: 'finished' });
    const answered = (await app.store.read(runId)).find(({ event }) => event.type === 'question.answered');
    expect(answered?.event).toMatchObject({
      by: 'ann',
      answers: { people: { type: 'declined', reason: 'no table' } },
    });
  });

  test('takes no review for a question: a requester sends no answer back', async () => {
    const answer = () => ({ type: 'ask', reason: 'it names a price' }) as const;
    const tokens = {
      olga: { role: 'operator', token: 'token-of-olga-0123456789' },
      rita: { role: 'requester', token: 'token-of-rita-0123456789' },
    } as const;
    const app = makeApp({ turns: [{ text: 'It costs 9.' }], agent: { guardrails: { answer } }, tokens });
    const as = (name: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[name].token}` });
    const started = await app.send('POST', '/runs', { input: 'go', agent: 'desk' }, as('rita'));
    const { runId } = (await started.json()) as RunView;
    const read = async () =>
      (await (await app.send('GET', `/runs/${runId}`, undefined, as('rita'))).json()) as RunView;
    await expect.poll(read).toMatchObject({ open: [{ kind: 'review' }] });
    const [review] = (await read()).open;
    const callId = review?.kind === 'review' ? review.callId : '';
    const body = { callId, reason: 'cheaper', to: 'question' };
    expect((await app.send('POST', `/runs/${runId}/reject`, body, as('rita'))).status).toBe(403);
    expect((await read()).open).toEqual([review]);
  });

  test('describes questions and answers in its OpenAPI document, and counts them in its metrics', async () => {
    const app = makeApp({ turns: TURNS, agent: { tools: [makeBooking(askHow)] } });
    await app.begin();
    const text = JSON.stringify(await (await app.send('GET', '/openapi.json')).json());
    const answer = JSON.parse(text).paths['/runs/{id}/answer'].post.requestBody.content['application/json'];
    expect(JSON.stringify(answer)).toContain('"answers"');
    expect(text).toContain('"questions"');
    const metrics = await (await app.send('GET', '/metrics')).text();
    expect(metrics).toMatch(/agentchart_decisions_waiting\{[^}]*type="question"[^}]*\} 1/);
  });
});

test('a webhook gets what each tool asks, and asks again about what is left', async () => {
  const { url, received, close } = await receiveHooks([]);
  closing.push(close);
  const agent = makeDesk(askBoth);
  closing.push(() => agent.close());
  agent.on(webhook({ url, secret: SECRET, on: ['waiting', 'question.answered', 'finished'] }));
  const run = await agent.start('A table.');
  const first = (await run.settled()) as Extract<RunView['settled'], { status: 'waiting' }>;
  await expect.poll(() => received.length).toBe(1);
  expect(received[0]?.body).toMatchObject({
    type: 'run.waiting',
    data: { runId: run.id, open: [{ ...first?.questions[0], input: {} }] },
  });
  await run.answer('call_0_0', { answers: { people: 2 } });
  await expect.poll(() => received.length).toBe(3);
  expect(received.map(({ body }) => body)).toMatchObject([
    {},
    { type: 'question.answered', data: { callId: 'call_0_0' } },
    { type: 'run.waiting', data: { open: [{ questions: [{ key: 'account', by: ['finance'] }] }] } },
  ]);
  await run.answer('call_0_0', { answers: { account: 'A' }, as: { name: 'fay', groups: ['finance'] } });
  await expect.poll(() => received.at(-1)?.body.type).toBe('run.finished');
});

test('React has the questions among the open calls, and a requester answers them or declines', async () => {
  const tokens = { ann: { token: 'the-token-of-ann-0000000', role: 'requester' as const } };
  const app = makeApp({ turns: [...TURNS, ...TURNS], agent: { tools: [makeBooking(askHow)] }, tokens });
  const headers = { authorization: `Bearer ${tokens.ann.token}` };
  const begun = await app.send('POST', '/runs', { input: 'go' }, headers);
  const { runId } = (await begun.json()) as { runId: string };
  const fetch: typeof globalThis.fetch = async (url, init) =>
    await app.send(
      init?.method ?? 'GET',
      String(url),
      init?.body ?? undefined,
      Object.fromEntries(new Headers(init?.headers)),
    );
  const run = remoteRun(`/runs/${runId}`, { fetch, token: tokens.ann.token });
  closing.push(run.subscribe(() => {}));
  const now = () => run.getSnapshot();
  await expect.poll(now).toMatchObject({
    state: 'resting.awaitingAnswers',
    status: 'waiting',
    calls: [{ kind: 'question', name: 'book', questions: [{ key: 'people', message: 'How many?' }] }],
  });
  const [open] = now().calls.filter((one): one is OpenQuestion => 'questions' in one);
  expect(await run.answer(open ?? '', { answers: { people: 'two' } })).toMatchObject({
    accepted: false,
    code: 'input-invalid',
  });
  expect(await run.answer(open ?? '', { answers: { people: 2 } })).toEqual({ accepted: true });
  await expect.poll(now).toMatchObject({ status: 'finished', calls: [] });
  expect(await run.reject(open ?? '', { reason: 'late' })).toMatchObject({ accepted: false });
  const again = await app.send('POST', '/runs', { input: 'again' }, headers);
  const other = remoteRun(`/runs/${((await again.json()) as { runId: string }).runId}`, {
    fetch,
    token: tokens.ann.token,
  });
  closing.push(other.subscribe(() => {}));
  await expect.poll(() => other.getSnapshot().calls).toHaveLength(1);
  const [asked] = other.getSnapshot().calls.filter((one): one is OpenQuestion => 'questions' in one);
  expect(await other.reject(asked ?? '', { reason: 'no table' })).toEqual({ accepted: true });
  await expect.poll(() => other.getSnapshot()).toMatchObject({ status: 'finished' });
});

test('a story asks by an id, takes the answers, and tells them', async () => {
  const agent = makeDesk();
  const handler = createStoryHandler(agent, { log: () => {}, authorize: () => ({ name: 'ann' }) });
  closing.push(() => handler.close());
  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' };
    const url = `http://shop.example/story${path}`;
    const response = await handler(new Request(url, { method: 'POST', headers, body: JSON.stringify(body) }));
    const lines = (await response.text())
      .split('\n')
      .flatMap(line => (line === '' ? [] : [JSON.parse(line)]));
    return { status: response.status, lines, of: (type: string) => lines.filter(line => line.type === type) };
  };
  const begun = await post('', { input: 'A table.' });
  const path = `/${begun.of('run')[0]?.runId}`;
  const [asked] = begun.of('call.asked');
  expect(asked).toMatchObject({ open: { kind: 'question', questions: [{ key: 'people' }] } });
  const { id } = asked.open;
  const unfit = await post(path, { answers: [{ id, answers: { people: 'two' } }] });
  expect([unfit.status, JSON.stringify(unfit.lines)]).toEqual([
    400,
    expect.stringContaining('must be integer'),
  ]);
  const done = await post(path, { answers: [{ id, answers: { people: 2 } }] });
  expect(done.of('call.answered')).toMatchObject([{ answers: { people: { value: 2 } }, by: 'ann' }]);
  expect(done.lines.at(-1)).toMatchObject({ type: 'settled', status: 'finished', text: 'Done.' });
  await expectBooked(agent, 2);
});
