import { type Actor, createActor, type Snapshot } from 'xstate';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { AgentMachine } from '../../../machines/agent.ts';
import type { Context } from '../../../machines/context.ts';
import { type StoredState, toStored } from '../../../machines/snapshot.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import type { ManualHost } from '../../../testing/manual-host.ts';
import { clientTool, makeGate, makeTool } from './agents.ts';

/** A run as an XState actor. */
export type LiveActor = Actor<AgentMachine>;

/** Starts the run `run_1` as an actor. */
export function begin(
  agent: Agent,
  input: string,
  { paused = false, ...options }: Parameters<Agent['services']>[0] & { paused?: boolean } = {},
): LiveActor {
  const machine = agent.machine.provide({ actors: agent.services(options) });
  return createActor(machine, { input: agent.input(input, { runId: 'run_1', paused }) }).start();
}

/** Continues a persisted actor in a new one. */
export function resume(
  agent: Agent,
  snapshot: Snapshot<unknown>,
  options: Parameters<Agent['services']>[0] = {},
): LiveActor {
  const machine = agent.machine.provide({ actors: agent.services(options) });
  return createActor(machine, { snapshot, input: agent.input('') }).start();
}

function isSettled(actor: LiveActor): boolean {
  const snapshot = actor.getSnapshot();
  return snapshot.status !== 'active' || snapshot.hasTag('rest');
}

/** Advances the clock until the actor rests or has ended. */
export async function rest(host: ManualHost, actor: LiveActor): Promise<void> {
  const settled = makeGate();
  const subscription = actor.subscribe({
    next: () => isSettled(actor) && settled.open(),
    complete: () => settled.open(),
  });
  if (isSettled(actor)) settled.open();
  await host.settle(settled.promise);
  subscription.unsubscribe();
  await host.idle();
}

/** Sends what the person sends whose storage works again. */
export function unpause(actor: LiveActor, host: ManualHost): void {
  actor.send({ type: 'run.unpaused', at: host.now() });
}

/** The actor's state as JSON. */
export function storedStateOf(actor: LiveActor): StoredState {
  return JSON.parse(JSON.stringify(toStored(actor.getSnapshot())));
}

/** What a scripted agent does. */
export type Script = { name: string; turns: ScriptedTurn[]; finalAnswer?: 'live' | 'held' | 'separate' };

/** An agent with the tools `read`, `pay`, `act` (gated), `show` (a client's), `fail` and `flaky`; `tools` replace them. */
export function makeAgent(
  { turns, ...options }: Omit<Script, 'name'> & Partial<AgentOptions>,
  host: ManualHost,
  tools: Tool[] = [],
) {
  let failures = 0;
  return createAgent({
    name: 'a',
    host,
    store: memory(),
    finalAnswer: 'live',
    model: scripted(turns),
    ...options,
    tools: [
      ...tools,
      ...[
        makeTool('read', { sideEffect: 'none' }),
        makeTool('pay'),
        makeTool('act', { approval: true }),
        clientTool('show'),
        makeTool('fail', {
          run: () => {
            throw new Error('no');
          },
        }),
        makeTool('flaky', {
          sideEffect: 'idempotent',
          retries: 1,
          run: () => {
            failures += 1;
            if (failures === 1) throw new Error('busy');
            return 'ok';
          },
        }),
      ].filter(({ name }) => !tools.some(tool => tool.name === name)),
    ],
  });
}

/** The answers at a rest: approvals, and results of client calls. */
export function answersTo({ calls: open }: Context, at: number): ChartEvent[] {
  return open.flatMap((call): ChartEvent[] => {
    const { callId, digest, status } = call;
    if (status === 'gated')
      return [{ type: 'approval.decided', at, callId, digest, decision: { type: 'approve' } }];
    return status === 'waiting'
      ? [{ type: 'result.received', at, callId, output: 'shown', isError: false }]
      : [];
  });
}
