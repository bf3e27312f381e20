import { describe, expect, test } from 'vitest';
import { createActor } from 'xstate';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Context } from '../../../machines/context.ts';
import { fromStored, type StoredState } from '../../../machines/snapshot.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeGate, makeTool, makeTracedTool } from '../../support/engine/agents.ts';
import {
  answersTo,
  begin,
  makeAgent,
  rest,
  resume,
  type Script,
  storedStateOf,
} from '../../support/engine/live-actors.ts';

const SCRIPTS: Script[] = [
  { name: 'an answer', turns: [{ text: 'done' }] },
  { name: 'tools in parallel', turns: [calls('read', 'pay', 'read'), calls('pay'), { text: 'done' }] },
  { name: 'approvals and a client call', turns: [calls('read', 'act', 'show', 'act'), { text: 'done' }] },
  {
    name: 'a retry',
    turns: [{ error: { code: 'overloaded', times: 2 } }, calls('fail', 'flaky'), { text: 'done' }],
  },
  {
    name: 'a separate answer',
    turns: [{ text: 'a', ...calls('read') }, { text: 'draft' }],
    finalAnswer: 'separate',
  },
  { name: 'a held answer', turns: [{ text: 'a', ...calls('read') }, { text: 'done' }], finalAnswer: 'held' },
  { name: 'no more turns', turns: [calls('read')] },
];

/** The states of a live actor at every rest and at the end. */
async function playLive(script: Script): Promise<StoredState[]> {
  const host = new ManualHost();
  const actor = begin(makeAgent(script, host), 'go');
  const states: StoredState[] = [];
  for (;;) {
    await rest(host, actor);
    states.push(storedStateOf(actor));
    const answers = answersTo(actor.getSnapshot().context, host.now());
    if (answers.length === 0) return states;
    for (const answer of answers) {
      actor.send(answer);
      await rest(host, actor);
    }
  }
}

async function playDurably(script: Script): Promise<StoredState[]> {
  const host = new ManualHost();
  const run = await makeAgent(script, host).start('go', { runId: 'run_1' });
  const states: StoredState[] = [];
  for (;;) {
    const settled = await host.settle(run.settled());
    const { state } = (run.snapshot() as { image: { state: StoredState } }).image;
    states.push(state);
    if (settled.status !== 'waiting') return states;
    for (const answer of answersTo(state.context, host.now())) {
      if (answer.type === 'approval.decided') await run.approve(answer.callId);
      if (answer.type === 'result.received') await run.answer(answer.callId, { output: 'shown' });
      await host.settle(run.settled());
    }
  }
}

describe('the live services', () => {
  test.each(SCRIPTS)('reaches the same state as the durable engine at every rest: $name', async script => {
    const [live, durable] = [await playLive(script), await playDurably(script)];
    expect(live.map(({ value }) => value)).toEqual(durable.map(({ value }) => value));
    expect(live).toEqual(durable);
    expect(live.at(-1)?.status).toBe('done');
  });

  test('publishes text and progress outside the machine', async () => {
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('read'), { text: 'Hello there.' }]),
      tools: [makeTool('read', { run: (_, { progress }) => progress({ percent: 50 }) })],
    });
    const deltas: unknown[] = [];
    await rest(host, begin(agent, 'go', { onDelta: delta => deltas.push(delta) }));
    const call = { type: 'call.delta', turn: 1, attempt: 1, index: 0 };
    expect(deltas).toEqual([
      { ...call, callId: 'call_0_0', name: 'read', text: '' },
      { ...call, text: '{}' },
      { type: 'tool.progress', callId: 'call_0_0', data: { percent: 50 } },
      { type: 'text.delta', turn: 2, attempt: 1, text: 'Hello' },
      { type: 'text.delta', turn: 2, attempt: 1, text: ' there.' },
    ]);
  });

  test('emits its decisions with their reasons', async () => {
    const host = new ManualHost();
    const agent = makeAgent({ turns: [calls('read'), { text: 'done' }] }, host);
    const machine = agent.machine.provide({ actors: agent.services() });
    const actor = createActor(machine, { input: agent.input('go') });
    const decided: string[] = [];
    actor.on('decided', ({ next }) => decided.push(`${next.type}: ${next.why}`));
    await rest(host, actor.start());
    expect(decided).toEqual([
      'callModel: the run starts',
      'executeTools: 1 call of read may run',
      'callModel: 1 call has its result',
      'finish: the model answered',
    ]);
  });

  test('a persisted actor at rest continues in a new actor', async () => {
    const host = new ManualHost();
    const keys: string[] = [];
    const agent = makeAgent({ turns: [calls('act', 'read'), { text: 'done' }] }, host, [
      makeTracedTool('act', keys, { approval: true }),
    ]);
    const first = begin(agent, 'go');
    await rest(host, first);
    const before = storedStateOf(first);
    const persisted = JSON.parse(JSON.stringify(first.getPersistedSnapshot()));
    first.stop();
    const second = resume(agent, persisted);
    expect(storedStateOf(second)).toEqual(before);
    for (const answer of answersTo(second.getSnapshot().context, host.now())) second.send(answer);
    await rest(host, second);
    expect(second.getSnapshot().value).toBe('finished');
    expect(keys).toHaveLength(1);
  });

  test('a durable run at rest continues live, and a live run continues durably', async () => {
    const host = new ManualHost();
    const script = { turns: [calls('act', 'read'), { text: 'done' }] };
    const gate = { approval: () => ({ required: true, expiresInMs: 60_000 }) };
    const make = () => makeAgent(script, host, [makeTool('act', gate)]);
    const run = await make().start('go', { runId: 'run_1' });
    await run.settled();
    const snapshot = run.snapshot() as { seq: number; image: { state: StoredState } };
    const { state } = JSON.parse(JSON.stringify(snapshot.image)) as { state: StoredState };

    const agent = make();
    const actor = resume(agent, agent.machine.getPersistedSnapshot(fromStored(state)));
    await rest(host, actor);
    expect(storedStateOf(actor)).toEqual(state);

    const stored = storedStateOf(actor);
    const back = await make().restore({
      runId: 'run_1',
      seq: snapshot.seq,
      image: { ...snapshot.image, state: stored },
    } as JsonValue);
    expect((back.snapshot() as typeof snapshot).image.state).toEqual(state);
    await back.approve('call_0_0');
    expect(await host.settle(back.settled())).toMatchObject({ status: 'finished', text: 'done' });

    for (const answer of answersTo(actor.getSnapshot().context, host.now())) actor.send(answer);
    await rest(host, actor);
    expect(actor.getSnapshot().value).toBe('finished');
  });

  test('an approval expires in a restored actor, although XState restores no delays', async () => {
    const host = new ManualHost();
    const agent = makeAgent({ turns: [calls('act'), { text: 'done' }] }, host, [
      makeTool('act', { approval: { required: true, expiresInMs: 60_000 } }),
    ]);
    const first = begin(agent, 'go');
    await rest(host, first);
    const persisted = JSON.parse(JSON.stringify(first.getPersistedSnapshot()));
    first.stop();
    const second = resume(agent, persisted);
    await host.advance(59_999);
    expect(second.getSnapshot().hasTag('rest')).toBe(true);
    await host.advance(1);
    await rest(host, second);
    expect(second.getSnapshot().value).toBe('finished');
  });

  test('persist is awaited after tool.started and before the tool runs', async () => {
    const host = new ManualHost();
    const order: string[] = [];
    const gate = makeGate();
    const agent = makeAgent({ turns: [calls('pay'), { text: 'done' }] }, host, [
      makeTool('pay', {
        run: () => {
          order.push('paid');
          return 'paid';
        },
      }),
    ]);
    const actor = begin(agent, 'go', {
      persist: async snapshot => {
        const { context } = snapshot as { context: Context };
        const [call] = context.calls;
        order.push(call === undefined ? 'persisted' : `persisted ${call.status}`);
        if (call?.status === 'running') await gate.promise;
      },
    });
    await host.advance(1_000);
    expect(order).toEqual(['persisted', 'persisted running']);
    gate.open();
    await rest(host, actor);
    expect(order).toEqual(['persisted', 'persisted running', 'paid', 'persisted']);
  });

  test('after a crash, the persisted state has a running once tool in doubt, and other tools run again', async () => {
    const host = new ManualHost();
    const keys: string[] = [];
    let last: JsonValue = null;
    let crashed = true;
    const never = () => (crashed ? new Promise(() => {}) : Promise.resolve('ok'));
    const tools = () => [
      makeTool('pay', {
        run: (_, { key }) => {
          keys.push(`pay ${key}`);
          return never();
        },
      }),
      makeTool('read', {
        sideEffect: 'none',
        run: (_, { key }) => {
          keys.push(`read ${key}`);
          return never();
        },
      }),
    ];
    const script = { turns: [calls('pay', 'read'), { text: 'done' }] };
    const first = begin(makeAgent(script, host, tools()), 'go', {
      persist: snapshot => {
        last = snapshot;
      },
    });
    await host.advance(100);
    first.stop();
    crashed = false;

    const agent = makeAgent(script, host, tools());
    const second = resume(agent, JSON.parse(JSON.stringify(last)));
    await rest(host, second);
    expect(second.getSnapshot().value).toEqual({ resting: 'inDoubt' });
    expect(keys.toSorted()).toEqual([
      'pay run_1:1:call_0_0',
      'read run_1:1:call_0_1',
      'read run_1:1:call_0_1',
    ]);
    second.send({
      type: 'doubt.resolved',
      at: host.now(),
      callId: 'call_0_0',
      resolution: { type: 'happened', output: 'paid' },
    });
    await rest(host, second);
    expect(second.getSnapshot().value).toBe('finished');
  });
});
