import { expect, test } from 'vitest';
import { assign, createActor, setup, waitFor } from 'xstate';
import { scripted } from '../../../adapters/scripted.ts';
import { agentInput, agentServices } from '../../../agent/loop.ts';
import { agentMachine } from '../../../machines/agent.ts';
import type { Ended } from '../../../machines/settled.ts';
import { fromStored, toStored } from '../../../machines/snapshot.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';

test('a parent machine gets the settled value as the output of the agent that it invokes', async () => {
  const options = { model: scripted([calls('pay'), { text: 'Paid.' }]), tools: [makeTool('pay')] };
  const parent = setup({
    types: {} as { context: { ended: Ended | null } },
    actors: { agent: agentMachine.provide({ actors: agentServices(options) }) },
  }).createMachine({
    context: { ended: null },
    initial: 'asking',
    states: {
      asking: {
        invoke: {
          src: 'agent',
          input: () => agentInput('Pay.', options),
          onDone: { target: 'done', actions: assign({ ended: ({ event }) => event.output }) },
        },
      },
      done: { type: 'final' },
    },
  });
  const { context } = await waitFor(createActor(parent).start(), ({ status }) => status === 'done');
  expect(context.ended).toMatchObject({
    status: 'finished',
    text: 'Paid.',
    turns: 2,
    results: [{ name: 'pay', isError: false }],
  });
});

test('a cancelled actor outputs its unsettled calls, and a stored state restores its output', async () => {
  const options = { model: scripted([calls('act')]), tools: [makeTool('act', { approval: true })] };
  const machine = agentMachine.provide({ actors: agentServices(options) });
  const actor = createActor(machine, { input: agentInput('Act.', options) }).start();
  await waitFor(actor, state => state.hasTag('rest'));
  actor.send({ type: 'run.cancelled', at: 1, unsettled: [] });
  const { output } = actor.getSnapshot();
  expect(output).toMatchObject({ status: 'cancelled', unsettled: [{ name: 'act', status: 'gated' }] });
  expect(fromStored(JSON.parse(JSON.stringify(toStored(actor.getSnapshot())))).output).toEqual(output);
});
