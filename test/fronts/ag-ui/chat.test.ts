import { afterEach, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { TurnDelta } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, clientTool, makeGate, makeTool } from '../../support/engine/agents.ts';
import { AgUiDesk } from '../../support/fronts/ag-ui-desk.ts';

const desks: AgUiDesk[] = [];
afterEach(() => {
  for (const desk of desks.splice(0)) desk.close();
});

async function openDesk(agent: Agent): Promise<AgUiDesk> {
  const desk = await AgUiDesk.open(agent);
  desks.push(desk);
  return desk;
}

async function openChat(script: ScriptedTurn[], options: Partial<AgentOptions> = {}) {
  const store = memory();
  const agent = createAgent({ name: 'helper', store, model: scripted(script), ...options });
  return { store, agent, client: (await openDesk(agent)).client('thread-1') };
}

/** A model whose first turn streams the deltas, each once the client has the one before. */
function steppedModel(deltas: TurnDelta[], turn: ScriptedTurn, rest: ScriptedTurn[]) {
  const model = scripted([turn, ...rest]);
  const gates = deltas.map(() => makeGate());
  const stepped: ModelAdapter = {
    ...model,
    async *stream(request, options) {
      if (request.transcript.length > 1) return yield* model.stream(request, options);
      for (const [index, delta] of deltas.entries()) {
        yield delta;
        await gates[index]?.promise;
      }
      yield { type: 'turn', turn: await model.generate(request, options) };
    },
  };
  let seen = 0;
  return { model: stepped, step: () => gates[seen++]?.open() };
}

test('text and reasoning reach the client while the model writes; the next message continues the thread', async () => {
  const { model, step } = steppedModel(
    [
      { type: 'reasoning', text: 'I greet.' },
      { type: 'text', text: 'Hello ' },
      { type: 'text', text: 'friend' },
    ],
    { text: 'Hello friend', reasoning: 'I greet.' },
    [{ text: 'Bye' }],
  );
  const { store, client } = await openChat([], { model });
  await client.say('hi', {}, type => /_CONTENT$/.test(type) && step());
  expect(client.texts).toEqual(['Hello friend']);
  expect(client.of('TEXT_MESSAGE_CONTENT').map(({ delta }) => delta)).toEqual(['Hello ', 'friend']);
  expect(client.agent.messages.find(({ role }) => role === 'reasoning')?.content).toBe('I greet.');
  expect(client.state).toMatchObject({ state: 'finished', status: 'finished', answer: 'Hello friend' });
  await client.say('bye');
  expect(client.texts).toEqual(['Hello friend', 'Bye']);
  expect(client.types).not.toContain('MESSAGES_SNAPSHOT');
  const { runs } = await store.list({ thread: 'thread-1', order: 'asc' });
  expect(runs.map(({ continues }) => continues)).toEqual([undefined, runs[0]?.runId]);
});

test('the arguments of a tool call reach the client while the model writes them', async () => {
  const { model, step } = steppedModel(
    [
      { type: 'call_started', index: 0, name: 'read', callId: 'call_0_0' },
      { type: 'call_arguments', index: 0, text: '{"title":' },
      { type: 'call_arguments', index: 0, text: '"a"}' },
    ],
    calls(['read', { title: 'a' }]),
    [{ text: 'Read.' }],
  );
  const { client } = await openChat([], { model, tools: [makeTool('read', { sideEffect: 'none' })] });
  await client.say('go', {}, type => /^TOOL_CALL_(START|ARGS)$/.test(type) && step());
  expect(client.of('TOOL_CALL_START')).toMatchObject([{ toolCallId: 'call_0_0', toolCallName: 'read' }]);
  expect(client.of('TOOL_CALL_ARGS').map(({ delta }) => delta)).toEqual(['{"title":', '"a"}']);
  expect(client.results).toEqual(['read ran']);
  expect(client.agent.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
});

test('an approval is an interrupt, and a resume runs the call', async () => {
  const { client } = await openChat([calls(['pay', { cents: 5 }]), { text: 'Paid.' }], {
    tools: [makeTool('pay', { approval: () => ({ required: true, reason: 'Money.', expiresInMs: 60_000 }) })],
  });
  await client.say('pay');
  expect(client.state).toMatchObject({ state: 'resting.awaitingApproval', status: 'waiting' });
  expect(client.interrupts).toMatchObject([
    {
      reason: 'tool_call',
      toolCallId: 'call_0_0',
      metadata: { agentchart: { name: 'pay', input: { cents: 5 } } },
    },
  ]);
  expect(client.interrupts[0]?.responseSchema).toMatchObject({ required: ['approved'] });
  expect(Date.parse(client.interrupts[0]?.expiresAt ?? '')).toBeGreaterThan(Date.now());
  expect(client.types.slice(-3)).toEqual(['MESSAGES_SNAPSHOT', 'STATE_SNAPSHOT', 'RUN_FINISHED']);
  await client.resume({ approved: true });
  expect(client.interrupts).toEqual([]);
  expect(client.results).toEqual(['pay ran']);
  expect(client.texts).toEqual(['Paid.']);
  expect(client.types).not.toContain('TOOL_CALL_START');
  expect(client.types).not.toContain('MESSAGES_SNAPSHOT');
});

test("edited arguments replace the call's; invalid ones are refused, and the interrupt stays", async () => {
  const paid: unknown[] = [];
  const pay = makeTool('pay', { approval: true, run: input => paid.push(input) });
  const { client } = await openChat([calls(['pay', { cents: 5 }]), { text: 'Paid.' }], { tools: [pay] });
  await client.say('pay');
  await client.resume({ approved: true, editedArgs: 'nothing' });
  expect(client.of('CUSTOM')).toMatchObject([
    { name: 'agentchart.refused', value: { code: 'input-invalid' } },
  ]);
  expect(client.interrupts).toHaveLength(1);
  await client.resume({ approved: true, editedArgs: { cents: 3 } });
  expect(paid).toEqual([{ cents: 3 }]);
  expect(client.texts).toEqual(['Paid.']);
});

test('a rejection and a cancelled interrupt reach the model as results', async () => {
  const { client } = await openChat([calls('pay', 'pay'), { text: 'Not paid.' }], {
    tools: [makeTool('pay', { approval: true })],
  });
  await client.say('pay');
  const [first, second] = client.interrupts;
  await client.run({
    resume: [
      { interruptId: first?.id ?? '', status: 'resolved', payload: { approved: false, reason: 'Too much.' } },
      { interruptId: second?.id ?? '', status: 'cancelled' },
    ],
  });
  expect(client.results.join(' ')).toContain('Too much.');
  expect(client.results).toHaveLength(2);
  expect(client.texts).toEqual(['Not paid.']);
});

test('what is not decided yet ends the run again with the rest', async () => {
  const { client } = await openChat([calls('pay', 'pay'), { text: 'Done.' }], {
    tools: [makeTool('pay', { approval: true })],
  });
  await client.say('pay');
  const [first, second] = client.interrupts;
  await client.resume(({ id }: { id: string }) => (id === first?.id ? { approved: true } : {}));
  expect(client.results).toEqual(['pay ran']);
  expect(client.interrupts.map(({ id }) => id)).toEqual([second?.id]);
  await client.resume({ approved: true });
  expect(client.results).toEqual(['pay ran', 'pay ran']);
  expect(client.texts).toEqual(['Done.']);
});

test('approved together, calls run together', async () => {
  const gate = makeGate();
  let running = 0;
  const run = async () => {
    running += 1;
    if (running === 2) gate.open();
    await gate.promise;
    return 'ran';
  };
  const { client } = await openChat([calls('pay', 'pay'), { text: 'Done.' }], {
    tools: [makeTool('pay', { approval: true, run })],
  });
  await client.say('pay');
  await client.resume({ approved: true });
  expect(client.texts).toEqual(['Done.']);
});

test('a call that someone else has decided is reported as refused, with the outcome', async () => {
  const { client, agent, store } = await openChat([calls('pay'), { text: 'Done.' }], {
    tools: [makeTool('pay', { approval: true })],
  });
  await client.say('pay');
  const [record] = (await store.list()).runs;
  const run = await agent.open(record?.runId ?? '');
  await run.reject('call_0_0', { by: 'ann' });
  await run.settled();
  await client.resume({ approved: true });
  expect(client.of('CUSTOM')).toMatchObject([
    { name: 'agentchart.refused', value: { interruptId: expect.any(String) } },
  ]);
  expect(client.texts).toEqual(['Done.']);
  expect(client.results).toHaveLength(1);
});

test('a client tool of the agent is an interrupt for its result', async () => {
  const { client } = await openChat([calls('ask'), { text: 'Thanks.' }], { tools: [clientTool('ask')] });
  await client.say('go');
  expect(client.interrupts).toMatchObject([{ reason: 'input_required', toolCallId: 'call_0_0' }]);
  await client.resume({ output: { colour: 'blue' } });
  expect(client.results).toEqual(['{"colour":"blue"}']);
  expect(client.texts).toEqual(['Thanks.']);
});

test('a tool that the client declares ends the run with its pending call; a tool message answers it', async () => {
  const { client } = await openChat([calls(['show_map', { city: 'Rome' }]), { text: 'Shown.' }]);
  const parameters = { type: 'object', properties: { city: { type: 'string' } } };
  const tools = [{ name: 'show_map', description: 'Shows a map.', parameters }];
  await client.say('map', { tools });
  expect(client.of('RUN_FINISHED')).toMatchObject([
    { outcome: { type: 'success', pendingToolCallIds: ['call_0_0'] } },
  ]);
  client.agent.addMessage({ id: 'mine', role: 'tool', toolCallId: 'call_0_0', content: '{"ok":true}' });
  await client.run({ tools });
  expect(client.texts).toEqual(['Shown.']);
  expect(client.agent.messages.filter(({ role }) => role === 'tool')).toHaveLength(1);
});

test("a failed attempt's text is taken back, and the next attempt's stays", async () => {
  const model = scripted([{ text: 'second try' }]);
  let attempts = 0;
  const failing: ModelAdapter = {
    ...model,
    async *stream(request, options) {
      attempts += 1;
      if (attempts > 1) return yield* model.stream(request, options);
      yield { type: 'text', text: 'first try' };
      await gate.promise;
      const origin = { provider: 'scripted', model: 'm', status: null, retryAfterMs: null, raw: null };
      throw new ProviderError('cut', { ...origin, code: 'network', retryable: true });
    },
  };
  const gate = makeGate();
  const { client } = await openChat([], { retry: { baseMs: 1 }, model: failing });
  await client.say('go', {}, type => type === 'TEXT_MESSAGE_CONTENT' && gate.open());
  expect(client.texts).toEqual(['second try']);
  expect(client.of('TEXT_MESSAGE_CONTENT').some(({ delta }) => delta === 'first try')).toBe(true);
  expect(client.of('MESSAGES_SNAPSHOT')).toHaveLength(1);
});

test('a text that its turn has otherwise is taken back and written again', async () => {
  const { model, step } = steppedModel([{ type: 'text', text: 'Perhaps' }], { text: 'Certainly' }, []);
  const { client } = await openChat([], { model });
  await client.say('go', {}, type => type === 'TEXT_MESSAGE_CONTENT' && step());
  expect(client.of('TEXT_MESSAGE_CONTENT').map(({ delta }) => delta)).toEqual(['Perhaps', 'Certainly']);
  expect(client.texts).toEqual(['Certainly']);
});

test('the state follows the run also while no message is written', async () => {
  const gate = makeGate();
  const { client, store } = await openChat([calls('pay'), { text: 'Paid.' }], {
    tools: [makeTool('pay', { approval: true, run: () => gate.promise.then(() => 'paid') })],
  });
  await client.say('pay');
  const states: unknown[] = [];
  await client.run(
    {
      resume: [
        { interruptId: client.interrupts[0]?.id ?? '', status: 'resolved', payload: { approved: true } },
      ],
    },
    type => {
      if (type !== 'STATE_DELTA') return;
      states.push(client.events.at(-1));
      gate.open();
    },
  );
  expect(JSON.stringify(states[0])).toContain('executingTools');
  expect(client.state).toMatchObject({ runId: (await store.list()).runs[0]?.runId, state: 'finished' });
});

test('a failed run ends with RUN_ERROR and its code', async () => {
  const { client } = await openChat([{ error: { code: 'authentication' } }]);
  await client.say('go').catch(() => {});
  expect(client.of('RUN_ERROR')).toMatchObject([{ code: expect.any(String) }]);
});

test('a cancelled run ends as cancelled', async () => {
  const { client, agent, store } = await openChat([calls('pay')], {
    tools: [makeTool('pay', { approval: true })],
  });
  await client.say('pay');
  const [record] = (await store.list()).runs;
  await (await agent.open(record?.runId ?? '')).cancel();
  await client.resume({ approved: true });
  expect(client.of('RUN_FINISHED')).toMatchObject([{ outcome: { type: 'cancelled' } }]);
});

test('usage counts the model calls of the request alone', async () => {
  const usage = { inputTokens: 10, outputTokens: 4 };
  const { client } = await openChat(
    [
      { ...calls('pay'), usage },
      { text: 'Done.', usage },
    ],
    {
      tools: [makeTool('pay', { approval: true })],
    },
  );
  await client.say('pay');
  const once = [{ inputTokens: 10, outputTokens: 4, totalTokens: 14 }];
  expect(client.of('RUN_FINISHED')).toMatchObject([{ usage: once }]);
  await client.resume({ approved: true });
  expect(client.of('RUN_FINISHED')).toMatchObject([{ usage: once }]);
});
