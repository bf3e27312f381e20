import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, memory, type Run, type Settled } from '../../../agent/index.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { calls, clientTool, makeTool } from '../../support/engine/agents.ts';
import { hostedOn, serveOn } from '../../support/restate/hosted.ts';
import { RestateStandIn } from '../../support/restate/restate-stand-in.ts';

/** A script, and what a person does each time the run waits. */
type Script = { make(): Agent; act?(run: Run, waiting: Settled): Promise<unknown>; start?: object };

const payer = () =>
  createAgent({
    name: 'payer',
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools: [makeTool('pay', { approval: true })],
  });
const approveAll = async (run: Run, settled: Settled) => {
  if (settled.status !== 'waiting') return;
  for (const call of settled.approvals) await run.approve(call, { by: 'ann' });
};
/** After the turn that follows the receipt. */
async function later<Value>(value: Value): Promise<Value> {
  await sleep(300);
  return value;
}

const tools = () => [
  makeTool('read', { sideEffect: 'none' }),
  makeTool('pay', { approval: true }),
  makeTool('fail', { run: () => Promise.reject(new Error('no')) }),
  clientTool('ask'),
];
const agentOf = (turns: Parameters<typeof scripted>[0], options: object = {}) =>
  createAgent({ name: 'hosted', version: '1', model: scripted(turns), tools: tools(), ...options });

const SCRIPTS: Readonly<Record<string, Script>> = {
  'an answer': { make: () => agentOf([{ text: 'Hello.' }]) },
  'rounds of calls': {
    make: () => agentOf([calls('read', 'read'), calls('fail'), { text: 'Done.' }]),
  },
  'an approval beside a call without one': {
    make: () => agentOf([calls('read', 'pay'), { text: 'Done.' }]),
    act: approveAll,
  },
  'a rejection': {
    make: () => agentOf([calls('pay'), { text: 'Not paid.' }]),
    act: async (run, settled) =>
      settled.status === 'waiting' && (await run.reject(settled.approvals[0] ?? '', { reason: 'no' })),
  },
  'an answer from outside': {
    make: () => agentOf([calls('ask'), { text: 'Thanks.' }]),
    act: async (run, settled) =>
      settled.status === 'waiting' && (await run.answer('call_0_0', { output: 42 })),
  },
  'a model that fails once': {
    make: () =>
      agentOf([{ error: { code: 'overloaded', times: 1 } }, { text: 'At last.' }] as never, {
        retry: { baseMs: 200 }, // Long enough that both hosts wait for the timer, however busy the machine is.
      }),
  },
  'a model that is refused': {
    make: () => agentOf([{ error: { code: 'authentication' } }] as never),
  },
  'steps of a paused run': {
    make: () => agentOf([calls('read'), { text: 'Done.' }]),
    start: { paused: true },
    act: async run => await run.step(),
  },
  'a message to a run that waits': {
    make: () => agentOf([calls('pay'), { text: 'Done.' }]),
    act: async (run, settled) => {
      await run.send('Hurry.');
      await approveAll(run, settled);
    },
  },
  'a sub-agent that waits for a person': {
    make: () =>
      agentOf([calls(['delegate', { input: 'pay' }]), { text: 'Done.' }], {
        tools: [payer().asTool({ name: 'delegate', description: 'Pays.' })],
      }),
    act: approveAll,
  },
  'a sub-agent that ends within the batch': {
    make: () =>
      agentOf([calls(['delegate', { input: 'read' }]), { text: 'Done.' }], {
        tools: [
          createAgent({ name: 'reader', model: scripted([{ text: 'Read.' }]) }).asTool({
            name: 'delegate',
            description: 'Reads.',
          }),
        ],
      }),
  },
  'work in the background': {
    make: () =>
      agentOf([calls('ship'), { text: 'On its way.' }, { text: 'Done.' }], {
        tools: [makeTool('ship', { background: true, run: async () => await later('shipped') })],
      }),
  },
  'work of a sub-agent in the background that waits for a person': {
    make: () =>
      agentOf([calls(['delegate', { input: 'pay' }]), { text: 'On its way.' }, { text: 'Done.' }], {
        tools: [payer().asTool({ name: 'delegate', description: 'Pays.', background: true })],
      }),
    act: approveAll,
  },
};

/** Plays a script to its end. */
async function play(agent: Agent, { act, start }: Script): Promise<{ run: Run; settled: Settled }> {
  const run = await agent.start('Go.', start);
  for (let round = 0; ; round += 1) {
    const settled = await run.settled();
    if (settled.status !== 'waiting' || act === undefined || round > 10) return { run, settled };
    await act(run, settled);
  }
}

/** What a journal says, without what each process adds: claims, times, and random ids. */
async function journalOf(run: Run): Promise<unknown[]> {
  const events = (await run.source.store.read(run.id)).map(({ event }) => event);
  const text = JSON.stringify(events.filter(({ type }) => type !== 'run.claimed').map(withoutTimes));
  return JSON.parse(text.replaceAll(/(run|item)_[0-9a-f]{8,}/g, '$1'));
}

function withoutTimes(event: RunEvent): object {
  const timeless = (name: string, value: unknown) =>
    ['at', 'startedAt', 'activeMs', 'ms', 'retryAt', 'until'].includes(name) ? undefined : value;
  return JSON.parse(JSON.stringify(event, timeless));
}

describe('a run on Restate has the journal of the durable engine', () => {
  it.each(Object.entries(SCRIPTS))('%s', async (_, script) => {
    const local = createAgent({ ...script.make().options, store: memory() });
    const expected = await play(local, script);
    const restate = new RestateStandIn();
    serveOn(restate, [script.make()]);
    const found = await play(hostedOn(restate, script.make()), script);
    expect(restate.faults).toEqual([]);
    expect(found.settled.status).toBe(expected.settled.status);
    expect(await journalOf(found.run)).toEqual(await journalOf(expected.run));
    expect(await replayRun(found.run.source.store, found.run.id)).toMatchObject({ equal: true });
  });

  it.each(Object.entries(SCRIPTS))(
    '%s, with a crash after every third step of a handler',
    async (_, script) => {
      const expected = await play(createAgent({ ...script.make().options, store: memory() }), script);
      let steps = 0;
      const restate = new RestateStandIn({
        crashes: () => {
          steps += 1;
          return steps % 3 === 0;
        },
      });
      serveOn(restate, [script.make()]);
      const found = await play(hostedOn(restate, script.make()), script);
      expect(restate.faults).toEqual([]);
      expect(restate.crashed).toBeGreaterThan(5);
      expect(await journalOf(found.run)).toEqual(await journalOf(expected.run));
    },
  );
});

it('work in the background on Restate is cancelled with its run', async () => {
  const make = () =>
    agentOf([calls(['delegate', { input: 'pay' }]), { text: 'On its way.' }], {
      tools: [payer().asTool({ name: 'delegate', description: 'Pays.', background: true })],
    });
  const restate = new RestateStandIn();
  serveOn(restate, [make()]);
  const run = await hostedOn(restate, make()).start('Go.');
  expect((await run.settled()).status).toBe('waiting');
  await run.cancel({ reason: 'no more' });
  expect((await run.settled()).status).toBe('cancelled');
  const { store } = run.source;
  const [child] = (await store.list({ parent: run.id })).runs;
  expect(child?.agent).toBe('payer');
  await vi.waitFor(async () => expect((await store.get(child?.runId ?? ''))?.status).toBe('cancelled'));
  expect(restate.faults).toEqual([]);
});
