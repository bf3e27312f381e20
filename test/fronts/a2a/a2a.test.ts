import type { StreamResponse, Task } from '@a2a-js/sdk';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { hideHtmlComments } from '../../../text/hide-html-comments.ts';
import {
  a2aClient,
  a2aServer,
  allOf,
  contentsOf,
  foldUpdates,
  seen,
  sending,
} from '../../support/fronts/a2a.ts';
import { closeAfterTests } from '../../support/fronts/close-after-tests.ts';
import { ASK, DONE, type Ledger, makeDesk, makeOffice, REFUND } from '../../support/fronts/mcp.ts';
import { until } from '../../support/server/runs-app.ts';

const used = closeAfterTests();

describe.each(['JSONRPC', 'HTTP+JSON'] as const)('the official client over %s', binding => {
  it('sends a message, decides the gated call after a restart of the server, and gets the answer', async () => {
    const ledger: Ledger = [];
    const agent = makeDesk([REFUND, DONE], ledger);
    const before = a2aServer([agent]);
    const client = await a2aClient(before, binding);
    const asked = (await client.sendMessage(sending({ text: 'Refund A-1' }))) as Task;
    expect(seen(asked)).toEqual({
      state: 'TASK_STATE_INPUT_REQUIRED',
      answer: [],
      asked: [
        'Needs approval: refund {"orderId":"A-1","cents":4200} (money leaves the house)',
        {
          questions: [
            expect.objectContaining({
              callId: 'call_0_0',
              kind: 'approval',
              tool: 'refund',
              reason: 'money leaves the house',
            }),
          ],
        },
      ],
    });
    before.close();

    const again = await a2aClient(used(a2aServer([agent])), binding);
    expect(seen(await again.getTask({ tenant: '', id: asked.id }))).toEqual(seen(asked));
    const data = { callId: 'call_0_0', approved: true, input: { orderId: 'A-1', cents: 100 } };
    const done = (await again.sendMessage(sending({ data, taskId: asked.id }))) as Task;

    expect(seen(done)).toEqual({ state: 'TASK_STATE_COMPLETED', answer: ['Done.'], asked: [] });
    expect(done.contextId).toBe(asked.contextId);
    expect(ledger).toEqual([100]);
    await expect(again.sendMessage(sending({ text: 'More', taskId: asked.id }))).rejects.toThrow(
      'The task has ended',
    );
  });

  it('streams a task until it waits, answers it, and follows it to its end', async () => {
    const agent = makeDesk([{ text: 'I refund it.', ...REFUND }, DONE]);
    const client = await a2aClient(used(a2aServer([agent])), binding);
    const updates = await allOf(client.sendMessageStream(sending({ text: 'Refund A-1' })));
    const [first] = updates;
    const taskId = first?.payload?.$case === 'task' ? first.payload.value.id : '';
    const waiting = foldUpdates(updates);
    expect(seen(waiting)).toMatchObject({ state: 'TASK_STATE_INPUT_REQUIRED', answer: ['I refund it.'] });
    expect(seen(waiting)).toEqual(seen(await client.getTask({ tenant: '', id: taskId })));

    const followed = client.resubscribeTask({ tenant: '', id: taskId });
    const seenFirst = await followed.next();
    const rest = allOf(followed);
    await client.sendMessage(sending({ text: 'reject', taskId }));
    const ended = foldUpdates([...(seenFirst.done ? [] : [seenFirst.value]), ...(await rest)]);

    expect(seen(ended)).toEqual({ state: 'TASK_STATE_COMPLETED', answer: ['Done.'], asked: [] });
    expect(seen(ended)).toEqual(seen(await client.getTask({ tenant: '', id: taskId })));
    await expect(allOf(client.resubscribeTask({ tenant: '', id: taskId }))).rejects.toThrow(
      'The task has ended',
    );
  });

  it('returns immediately if asked, lists tasks by context and state, and cancels one', async () => {
    const agent = makeDesk([REFUND, DONE]);
    const client = await a2aClient(used(a2aServer([agent])), binding);
    const begun = (await client.sendMessage(
      sending({ text: 'one', contextId: 'thread', now: true }),
    )) as Task;
    expect(begun.contextId).toBe('thread');
    await until(async () => ((await agent.store.get(begun.id))?.status === 'waiting' ? true : undefined));
    await client.sendMessage(sending({ text: 'two' }));
    const listing = { tenant: '', contextId: '', pageToken: '', statusTimestampAfter: undefined, status: 0 };

    const all = await client.listTasks({ ...listing, pageSize: 1 });
    expect(all).toMatchObject({ totalSize: 2, pageSize: 1, tasks: [{}] });
    const next = await client.listTasks({ ...listing, pageToken: all.nextPageToken });
    expect(next.tasks.map(({ id }) => id)).toEqual([begun.id]);
    const ofThread = await client.listTasks({ ...listing, contextId: 'thread', includeArtifacts: true });
    expect(ofThread.tasks.map(seen)).toMatchObject([{ state: 'TASK_STATE_INPUT_REQUIRED' }]);

    expect(seen(await client.cancelTask({ tenant: '', id: begun.id, metadata: undefined }))).toMatchObject({
      state: 'TASK_STATE_CANCELED',
    });
    await expect(client.cancelTask({ tenant: '', id: begun.id, metadata: undefined })).rejects.toMatchObject({
      reason: 'TASK_NOT_CANCELABLE',
    });
    await expect(client.getTask({ tenant: '', id: 'run_none' })).rejects.toMatchObject({
      reason: 'TASK_NOT_FOUND',
    });
  });

  it('answers a client tool with a text, and a context continues with the next message', async () => {
    const agent = makeDesk([ASK, DONE, { text: 'As before.' }]);
    const client = await a2aClient(used(a2aServer([agent])), binding);
    const asked = (await client.sendMessage(sending({ text: 'Which?' }))) as Task;
    const done = (await client.sendMessage(sending({ text: 'The blue one.', taskId: asked.id }))) as Task;
    expect(seen(done)).toMatchObject({ state: 'TASK_STATE_COMPLETED', answer: ['Done.'] });
    const entries = await agent.store.read(asked.id);
    expect(entries.map(({ event }) => event)).toContainEqual(
      expect.objectContaining({ type: 'result.received', output: 'The blue one.' }),
    );

    const next = (await client.sendMessage(sending({ text: 'Again', contextId: asked.contextId }))) as Task;
    expect(await agent.store.get(next.id)).toMatchObject({
      continues: asked.id,
      thread: asked.contextId,
    });
    expect(seen(next)).toMatchObject({ answer: ['As before.'] });
  });

  it('refuses decisions that fit no open call, and the second of two decisions', async () => {
    const agent = makeDesk([REFUND, DONE]);
    const client = await a2aClient(used(a2aServer([agent])), binding);
    const { id: taskId, contextId } = (await client.sendMessage(sending({ text: 'Refund A-1' }))) as Task;
    const decide = (data: unknown, more: object = {}) =>
      client.sendMessage(sending({ data, taskId, ...more }));

    await expect(decide({ callId: 'call_9', approved: true })).rejects.toThrow('"callId" must be');
    await expect(decide({ retry: true })).rejects.toThrow('not an answer to call');
    await expect(decide({ approved: true, input: { orderId: 7 } })).rejects.toMatchObject({
      reason: 'INVALID_PARAMS',
    });
    await expect(decide({ approved: true }, { contextId: `${contextId}x` })).rejects.toThrow(
      'another context',
    );
    const both = await Promise.allSettled([decide({ approved: true }), decide({ approved: false })]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  it('gets a failed run as a failed task, and structured output as data', async () => {
    const failing = makeDesk([{ error: { code: 'authentication', message: 'wrong key' } } as never]);
    const failed = await a2aClient(used(a2aServer([failing])), binding);
    expect(seen((await failed.sendMessage(sending({ text: 'x' }))) as Task)).toMatchObject({
      state: 'TASK_STATE_FAILED',
      asked: [expect.stringContaining('wrong key')],
    });
    const output = z.object({ city: z.string() });
    const typed = makeDesk([{ text: '{"city":"Paris"}' }], [], { output });
    const client = await a2aClient(used(a2aServer([typed])), binding);
    expect(seen((await client.sendMessage(sending({ text: 'x' }))) as Task)).toMatchObject({
      answer: ['{"city":"Paris"}', { city: 'Paris' }],
    });
  });

  it('sees only tasks with its labels', async () => {
    const role = 'operator';
    const tokens = {
      ann: { token: 'a'.repeat(32), role, labels: { tenant: 'a' } },
      bea: { token: 'b'.repeat(32), role, labels: { tenant: 'b' } },
    };
    const server = used(a2aServer([makeDesk([REFUND, DONE])], { tokens: tokens as never }));
    const ann = await a2aClient(server, binding, tokens.ann.token);
    const bea = await a2aClient(server, binding, tokens.bea.token);
    const { id: taskId } = (await ann.sendMessage(sending({ text: 'x' }))) as Task;
    const listing = { tenant: '', contextId: '', pageToken: '', statusTimestampAfter: undefined, status: 0 };

    expect((await bea.listTasks(listing)).tasks).toEqual([]);
    await expect(bea.sendMessage(sending({ text: 'approve', taskId }))).rejects.toMatchObject({
      reason: 'TASK_NOT_FOUND',
    });
    await expect(a2aClient(server, binding)).rejects.toThrow();
    expect(seen((await ann.sendMessage(sending({ text: 'approve', taskId }))) as Task).state).toBe(
      'TASK_STATE_COMPLETED',
    );
  });
});

/** The text that a stream sends before the full artifact. */
function piecesOf(updates: readonly StreamResponse[]): string {
  return updates
    .flatMap(({ payload }) => {
      if (payload?.$case !== 'artifactUpdate' || payload.value.lastChunk) return [];
      return payload.value.artifact?.parts.map(({ content }) => content?.value) ?? [];
    })
    .join('');
}

describe('the server', () => {
  it('refuses decisions that do not fit or say two things, and decides nothing', async () => {
    const ledger: Ledger = [];
    const server = used(a2aServer([makeDesk([REFUND, DONE], ledger)]));
    const client = await a2aClient(server, 'JSONRPC');
    const { id: taskId } = (await client.sendMessage(sending({ text: 'Refund A-1' }))) as Task;
    for (const data of [{ approved: 'yes' }, { approved: true, output: 5 }, { approved: true, reason: 7 }])
      await expect(client.sendMessage(sending({ data, taskId }))).rejects.toThrow('decision');
    expect(seen(await client.getTask({ tenant: '', id: taskId })).state).toBe('TASK_STATE_INPUT_REQUIRED');
    expect(ledger).toEqual([]);
    expect((await server.runs.store.read(taskId)).map(({ event }) => event.type)).not.toContain(
      'message.received',
    );
  });

  it('shows no answer that was blocked, is under review or was sent back, and a changed one as it was given', async () => {
    const turns = ['A rude answer.', 'It costs 5.', 'It costs some.'].map(text => ({ text }));
    const answer = (text: string) =>
      text.includes('rude')
        ? ({ type: 'block', reason: 'be polite' } as const)
        : ({ type: 'ask', reason: 'a price' } as const);
    const agent = makeDesk(turns, [], { guardrails: { answer } });
    const client = await a2aClient(used(a2aServer([agent])), 'JSONRPC');
    const history = async (id: string) =>
      (await client.getTask({ tenant: '', id })).history.flatMap(message => contentsOf(message));
    const { id: taskId, ...asked } = (await client.sendMessage(sending({ text: 'What?' }))) as Task;
    const question = (text: string) => [
      `Needs a review: the answer "${text}" (a price)`,
      { questions: [expect.objectContaining({ kind: 'review', answer: text, reason: 'a price' })] },
    ];
    expect(seen(asked)).toMatchObject({
      state: 'TASK_STATE_INPUT_REQUIRED',
      answer: [],
      asked: question('It costs 5.'),
    });
    expect(await history(taskId)).toEqual(['What?']);

    const sentBack = { approved: false, reason: 'name no price' };
    const following = client.resubscribeTask({ tenant: '', id: taskId });
    const first = await following.next();
    const followed = allOf(following);
    const again = (await client.sendMessage(sending({ data: sentBack, taskId }))) as Task;
    expect(seen(again)).toMatchObject({ answer: [], asked: question('It costs some.') });
    expect(await history(taskId)).toEqual(['What?']);

    const changed = { approved: true, answer: 'Ask sales.' };
    const done = (await client.sendMessage(sending({ data: changed, taskId }))) as Task;
    expect(seen(done)).toEqual({ state: 'TASK_STATE_COMPLETED', answer: ['Ask sales.'], asked: [] });
    expect(await history(taskId)).toEqual(['What?', 'Ask sales.']);
    expect(seen(foldUpdates([first.value as StreamResponse, ...(await followed)]))).toEqual(seen(done));
  });

  it('takes an answer back from its stream while it is under review, and sends it once it is given', async () => {
    const model = scripted([{ text: 'It costs 5.' }]);
    const begun = Promise.withResolvers<void>();
    const stream: ModelAdapter['stream'] = async function* (request, options) {
      await begun.promise;
      yield* model.stream(request, options);
    };
    const agent = makeDesk([], [], {
      model: { ...model, capabilities: model.capabilities, generate: model.generate, stream },
      guardrails: { answer: () => ({ type: 'ask', reason: 'a price' }) },
    });
    const client = await a2aClient(used(a2aServer([agent])), 'JSONRPC');
    const updates: StreamResponse[] = [];
    for await (const update of client.sendMessageStream(sending({ text: 'What?' }))) {
      updates.push(update);
      begun.resolve();
    }
    expect(piecesOf(updates)).toBe('It costs 5.');
    expect(seen(foldUpdates(updates))).toMatchObject({ state: 'TASK_STATE_INPUT_REQUIRED', answer: [''] });
    const [first] = updates;
    const taskId = first?.payload?.$case === 'task' ? first.payload.value.id : '';
    const given = await allOf(client.sendMessageStream(sending({ data: { approved: true }, taskId })));
    expect(seen(foldUpdates([...updates, ...given])).answer).toEqual(['It costs 5.']);
  });

  it('shows no answer before its check has passed', async () => {
    const check = Promise.withResolvers<void>();
    const answer = async () => {
      await check.promise;
      return { type: 'pass' } as const;
    };
    const agent = makeDesk([REFUND, { text: 'It costs 5.' }], [], { guardrails: { answer } });
    const client = await a2aClient(used(a2aServer([agent])), 'JSONRPC');
    const { id } = (await client.sendMessage(sending({ text: 'What?' }))) as Task;
    await client.sendMessage(sending({ text: 'approve', taskId: id, now: true }));
    const get = () => client.getTask({ tenant: '', id });
    await until(async () => ((await agent.store.get(id))?.state === 'finishing' ? true : undefined));
    const before = await get();
    expect([before.artifacts, before.history.flatMap(contentsOf)]).toEqual([[], ['What?']]);
    check.resolve();
    await until(async () => ((await agent.store.get(id))?.status === 'finished' ? true : undefined));
    const after = await get();
    expect([seen(after).answer, after.history.flatMap(contentsOf)]).toEqual([
      ['It costs 5.'],
      ['What?', 'It costs 5.'],
    ]);
  });

  it('takes the texts approve and reject for a review, and refuses what is no decision about it', async () => {
    const agent = makeDesk([{ text: 'It costs 5.' }, { text: 'It costs some.' }], [], {
      guardrails: { answer: () => ({ type: 'ask', reason: 'a price' }) },
    });
    const client = await a2aClient(used(a2aServer([agent])), 'JSONRPC');
    const { id: taskId } = (await client.sendMessage(sending({ text: 'What?' }))) as Task;
    const settled = await (await agent.open(taskId)).settled();
    const [review] = settled.status === 'waiting' ? settled.reviews : [];
    const callId = review?.callId;
    for (const data of [
      { callId, answer: 'Ask sales.' },
      { callId, output: 'Ask sales.' },
      { callId, retry: true },
      { callId: 'review_9', approved: true },
      { callId, approved: true, input: {} },
      { callId, approved: true, answer: { cents: 5 } },
    ])
      await expect(client.sendMessage(sending({ data, taskId }))).rejects.toMatchObject({
        reason: 'INVALID_PARAMS',
      });
    const task = (await client.sendMessage(sending({ text: 'reject', taskId }))) as Task;
    expect(seen(task).asked[0]).toContain('It costs some.');
    expect(seen((await client.sendMessage(sending({ text: 'approve', taskId }))) as Task)).toMatchObject({
      answer: ['It costs some.'],
    });
  });

  it('answers a body that is not JSON in the envelope of JSON-RPC', async () => {
    const { send } = used(a2aServer([makeDesk([DONE])]));
    const post = async (body: string) =>
      await (
        await send('/a2a/desk', { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      ).json();
    expect(await post('{')).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32700 } });
    expect(await post('[]')).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32600 } });
    expect(await post('['.repeat(100))).toMatchObject({ jsonrpc: '2.0', error: { code: -32700 } });
  });

  it('has a card for each agent, and refuses other versions and unknown routes in the envelope of REST', async () => {
    const agent = makeDesk([DONE]);
    const description = 'Refunds orders.';
    const other = makeDesk([DONE], [], { name: 'other one', description, store: agent.store });
    const { send } = used(a2aServer([agent, other]));
    const card = await (await send('/a2a/other_one/.well-known/agent-card.json')).json();
    expect(card).toMatchObject({
      name: 'other one',
      description,
      skills: [{ description }],
      supportedInterfaces: [
        { protocolBinding: 'JSONRPC', url: 'http://127.0.0.1:4100/a2a/other_one' },
        { protocolBinding: 'HTTP+JSON' },
      ],
    });
    const errors = [
      [await send('/a2a/desk/tasks', { headers: { 'a2a-version': '0.3' } }), 400, 'VERSION_NOT_SUPPORTED'],
      [await send('/a2a/desk/nothing'), 404, undefined],
      [await send('/a2a/nobody/tasks'), 404, undefined],
      [await send('/a2a/desk/tasks?pageSize=0'), 400, 'INVALID_PARAMS'],
      [await send('/a2a/desk/extendedAgentCard'), 400, 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'],
    ] as const;
    for (const [response, status, reason] of errors) {
      expect(response.status).toBe(status);
      const { error } = (await response.json()) as { error: { code: number; details: { reason: string }[] } };
      expect(error.code).toBe(status);
      expect(error.details[0]?.reason).toBe(reason);
    }
    const body = JSON.stringify(sending({ text: 'x' }).message && { message: { parts: [{ text: 'x' }] } });
    const headers = { 'content-type': 'application/a2a+json' };
    const sent = await send('/a2a/desk/message:send', { method: 'POST', headers, body });
    expect(sent.headers.get('content-type')).toBe('application/a2a+json');
    expect(await sent.json()).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
  });

  it('answers what is not a JSON-RPC request of a known method with an error of JSON-RPC', async () => {
    const { send } = used(a2aServer([makeDesk([DONE])]));
    const post = async (body: object) => {
      const headers = { 'content-type': 'application/json' };
      const response = await send('/a2a/desk', { method: 'POST', headers, body: JSON.stringify(body) });
      return ((await response.json()) as { error: { code: number } }).error.code;
    };
    expect(await post({ method: 'GetTask' })).toBe(-32600);
    expect(await post({ jsonrpc: '2.0', id: 1, method: 'Nothing' })).toBe(-32601);
    expect(await post({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: {} })).toBe(-32602);
    expect(await post({ jsonrpc: '2.0', id: 1, method: 'CreateTaskPushNotificationConfig' })).toBe(-32003);
    const message = { parts: [{ text: 'a', url: 'b' }] };
    expect(await post({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } })).toBe(-32602);
  });

  it('asks about the call of a sub-agent, and its answer reaches the sub-agent', async () => {
    const ledger: Ledger = [];
    const client = await a2aClient(used(a2aServer([makeOffice(ledger)])), 'JSONRPC');
    const { id, ...asked } = (await client.sendMessage(sending({ text: 'x' }))) as Task;
    expect(seen(asked).asked[0]).toContain('refund');
    const done = (await client.sendMessage(sending({ data: { approved: true }, taskId: id }))) as Task;
    expect(seen(done).answer).toEqual(['The clerk did it.']);
    expect(ledger).toEqual([4200]);
  });

  it("streams the text of a run that continues once its sub-agent's run was answered", async () => {
    const client = await a2aClient(used(a2aServer([makeOffice([])])), 'JSONRPC');
    const { id } = (await client.sendMessage(sending({ text: 'x' }))) as Task;
    const updates = await allOf(client.sendMessageStream(sending({ data: { approved: true }, taskId: id })));
    expect(piecesOf(updates)).toBe('The clerk did it.');
    expect(seen(foldUpdates(updates)).answer).toEqual(['The clerk did it.']);
  });

  it('streams what the text filters of an agent leave', async () => {
    const agent = makeDesk([{ text: 'Well <!-- I am not sure --> done.' }], [], {
      textFilters: [hideHtmlComments],
    });
    const client = await a2aClient(used(a2aServer([agent])), 'JSONRPC');
    const updates = await allOf(client.sendMessageStream(sending({ text: 'x' })));
    expect(piecesOf(updates)).toBe('Well  done.');
    expect(seen(foldUpdates(updates)).answer).toEqual(['Well  done.']);
  });

  it('ends its streams when it closes, and the next server continues', async () => {
    const agent = makeDesk([REFUND, DONE]);
    const server = a2aServer([agent]);
    const client = await a2aClient(server, 'JSONRPC');
    const { id } = (await client.sendMessage(sending({ text: 'x' }))) as Task;
    const followed = client.resubscribeTask({ tenant: '', id });
    await followed.next();
    server.close();
    expect(await allOf(followed)).toEqual([]);
    const next = await a2aClient(used(a2aServer([agent])), 'JSONRPC');
    expect(seen(await next.getTask({ tenant: '', id })).state).toBe('TASK_STATE_INPUT_REQUIRED');
  });

  it('stops a stream whose reader leaves, and the run continues', async () => {
    const agent = makeDesk([REFUND, DONE]);
    const server = used(a2aServer([agent]));
    const client = await a2aClient(server, 'JSONRPC');
    const { id } = (await client.sendMessage(sending({ text: 'x' }))) as Task;
    const stop = new AbortController();
    const followed = client.resubscribeTask({ tenant: '', id }, { signal: stop.signal });
    await followed.next();
    stop.abort();
    await followed.return(undefined);
    expect(seen((await client.sendMessage(sending({ text: 'approve', taskId: id }))) as Task).state).toBe(
      'TASK_STATE_COMPLETED',
    );
  });
});
