import { afterEach, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type AgentTool, createAgent, InDoubt } from '../../../agent/index.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, clientTool, makeGate, makeTool } from '../../support/engine/agents.ts';
import { AgUiDesk } from '../../support/fronts/ag-ui-desk.ts';

const desks: AgUiDesk[] = [];
afterEach(() => {
  for (const desk of desks.splice(0)) desk.close();
});

async function openChat(script: ScriptedTurn[], ...tools: AgentTool[]) {
  const store = memory();
  const agent = createAgent({ name: 'helper', store, model: scripted(script), tools });
  const desk = await AgUiDesk.open(agent);
  desks.push(desk);
  const openRun = async () => await agent.open((await store.list()).runs[0]?.runId ?? '');
  return { store, agent, openRun, client: desk.client('thread-1') };
}

/** A tool of which it is unknown, the first time, whether it acted. */
function doubtful() {
  let runs = 0;
  const run = () => {
    runs += 1;
    if (runs === 1) throw new InDoubt('the connection broke');
    return 'charged again';
  };
  return makeTool('charge', { run });
}

test.each([
  [{ happened: true, output: { paid: 5 } }, '{"paid":5}'],
  [{ failed: 'the bank has no such charge' }, expect.stringContaining('no such charge')],
  [{ retry: true }, 'charged again'],
])('a call in doubt is an interrupt, which %j resolves', async (payload, result) => {
  const { client } = await openChat([calls('charge'), { text: 'Done.' }], doubtful());
  await client.say('charge');
  expect(client.state).toMatchObject({ state: 'resting.inDoubt', status: 'waiting' });
  const [interrupt] = client.interrupts;
  expect(client.interrupts).toMatchObject([{ reason: 'agentchart:in_doubt', toolCallId: 'call_0_0' }]);
  await client.resume({});
  expect(client.interrupts).toMatchObject([{ id: interrupt?.id }]);
  await client.run({ resume: [{ interruptId: interrupt?.id ?? '', status: 'cancelled' }] });
  expect(client.interrupts).toMatchObject([{ id: interrupt?.id }]);
  await client.resume(payload);
  expect(client.results).toEqual([result]);
  expect(client.texts).toEqual(['Done.']);
  expect(client.interrupts).toEqual([]);
});

test('a run that someone pauses ends the request with an interrupt, and continues when it is resolved', async () => {
  const gate = makeGate();
  const wait = makeTool('wait', { sideEffect: 'none', run: () => gate.promise.then(() => 'waited') });
  const { client, openRun } = await openChat([calls('wait'), { text: 'Done.' }], wait);
  await client.say('go', {}, async type => {
    if (type !== 'TOOL_CALL_END') return;
    await (await openRun()).pause();
    gate.open();
  });
  expect(client.state).toMatchObject({ state: 'resting.paused', status: 'waiting', paused: true });
  expect(client.interrupts).toMatchObject([{ reason: 'agentchart:paused' }]);
  expect(client.results).toEqual(['waited']);
  await client.resume({ approved: false });
  expect(client.interrupts).toHaveLength(1);
  await client.resume({ approved: true });
  expect(client.texts).toEqual(['Done.']);
  expect(client.state).toMatchObject({ state: 'finished', paused: false });
});

test('an approval can be given while the run stays paused', async () => {
  const { client, openRun } = await openChat(
    [calls('pay'), { text: 'Paid.' }],
    makeTool('pay', { approval: true }),
  );
  await client.say('pay');
  await (await openRun()).pause();
  await client.resume({});
  expect(client.interrupts.map(({ reason }) => reason)).toEqual(['tool_call', 'agentchart:paused']);
  await client.resume(({ toolCallId }: { toolCallId?: string }) => (toolCallId ? { approved: true } : {}));
  expect(client.interrupts).toMatchObject([{ reason: 'agentchart:paused' }]);
  expect(client.results).toEqual([]);
  await client.resume({ approved: true });
  expect(client.results).toEqual(['pay ran']);
  expect(client.texts).toEqual(['Paid.']);
});

test('{} leaves a client tool without a result, and any other value is its result', async () => {
  const { client } = await openChat([calls('ask'), { text: 'Thanks.' }], clientTool('ask'));
  await client.say('go');
  await client.resume({});
  expect(client.results).toEqual([]);
  expect(client.interrupts).toMatchObject([{ reason: 'input_required' }]);
  await client.resume('blue é漢');
  expect(client.results).toEqual(['blue é漢']);
  expect(client.texts).toEqual(['Thanks.']);
});

test('answers to unknown interrupts are reported, and change nothing', async () => {
  const { client, store } = await openChat(
    [calls('pay'), { text: 'Paid.' }],
    makeTool('pay', { approval: true }),
  );
  await client.say('pay');
  const [open] = client.interrupts;
  const ids = ['nonsense', '%E0:%:', 'approval:run_0:call_0_0', `approval:${'x'.repeat(1_900)}:c`];
  await client.run({
    resume: [...ids.map(interruptId => ({ interruptId })), { interruptId: open?.id ?? '' }].map(one => ({
      ...one,
      status: 'resolved' as const,
      payload: one.interruptId === open?.id ? {} : { approved: true },
    })),
  });
  expect(client.of('CUSTOM').map(({ value }) => value)).toMatchObject(
    ids.map(interruptId => ({ interruptId, code: 'call-unknown' })),
  );
  expect(client.interrupts).toMatchObject([{ id: open?.id }]);
  expect((await store.list()).runs).toMatchObject([{ status: 'waiting' }]);
});

test('an error that is not meant for clients is reported without its text', async () => {
  const { client, agent } = await openChat([{ text: 'Hi.' }]);
  const { store } = agent;
  store.create = async () => {
    throw new Error('connect ECONNREFUSED postgres://admin:hunter2@db');
  };
  await client.say('go').catch(() => {});
  expect(client.of('RUN_ERROR')).toMatchObject([{ code: 'internal' }]);
  expect(JSON.stringify(client.events)).not.toContain('hunter2');
});

test('a message that an edit took out of the transcript is not sent again by the client that still has it', async () => {
  const script = [calls('pay'), { text: 'Done.' }];
  const { client, openRun } = await openChat(script, makeTool('pay', { approval: true }));
  await client.say('my number is 1234');
  const run = await openRun();
  const edited = run.context.transcript.map(item =>
    item.type === 'message'
      ? { ...item, id: 'edited', content: [{ type: 'text', text: 'pay' } as const] }
      : item,
  );
  expect(await run.editTranscript(edited)).toMatchObject({ accepted: true });
  await client.resume({ approved: true });
  expect(client.texts).toEqual(['Done.']);
  expect(JSON.stringify((await openRun()).context.transcript)).not.toContain('1234');
});
