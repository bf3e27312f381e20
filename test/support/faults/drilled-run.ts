import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { Host } from '../../../engine/host/host.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool, ToolCallContext } from '../../../protocol/tool.ts';
import { calls, clientTool, makeTool } from '../engine/agents.ts';

/**
 * One run with tools of every side effect in parallel, a person who approves, answers and sends a message,
 * and a sub-agent with its own approval. The tools record their own side effects.
 */

const RUN = 'run_drill';
const SLOW_MS = 500;

export type Environment = {
  /** The keys that each call acted with, by run and call. */
  acts: Map<string, { tool: string; keys: string[] }>;
  /** The accepted commands: decisions by run and call, and the message. */
  acknowledged: Set<string>;
};

export function makeEnvironment(): Environment {
  return { acts: new Map(), acknowledged: new Set() };
}

/** Drives the run to its end: the run of the process, that of the store, or a new one. */
export async function work(
  process: { agent: Agent; run?: Run },
  store: Store,
  world: Environment,
): Promise<Settled> {
  process.run ??= await begin(process.agent, store);
  const { run } = process;
  for (;;) {
    const settled = await run.settled();
    if (settled.status !== 'waiting') return settled;
    await decide(run, settled, world);
  }
}

async function begin(agent: Agent, store: Store): Promise<Run> {
  const known = await store.get(RUN);
  return known === undefined ? await agent.start('go', { runId: RUN }) : await agent.open(RUN);
}

async function decide(
  run: Run,
  { open, approvals, doubts }: Extract<Settled, { status: 'waiting' }>,
  world: Environment,
) {
  const asked = open.filter(one => one.kind === 'result');
  if (approvals.length + asked.length > 0 && !world.acknowledged.has('message')) {
    const { accepted } = await run.send('and be quick', { by: 'ann' });
    if (accepted) world.acknowledged.add('message');
  }
  for (const { runId, callId, digest } of approvals) {
    const { accepted } = await run.approve(callId, { by: 'ann', digest });
    if (accepted) world.acknowledged.add(`${runId}/${callId}`);
  }
  for (const { runId, callId } of asked.filter(({ name }) => name === 'show')) {
    const { accepted } = await run.answer(callId, { output: 'from the client', by: 'bob' });
    if (accepted) world.acknowledged.add(`${runId}/${callId}`);
  }
  for (const { runId, callId } of doubts) {
    const acted = world.acts.has(`${runId}/${callId}`);
    await run.resolve(callId, acted ? { happened: true, output: 'found outside' } : { retry: true });
  }
}

export function makeDrilledAgent(host: Host, store: Store, world: Environment): Agent {
  const act =
    (name: string, ms = 0) =>
    async (_: unknown, { runId, callId, key }: ToolCallContext) => {
      const place = `${runId}/${callId}`;
      const done = world.acts.get(place) ?? { tool: name, keys: [] };
      world.acts.set(place, { ...done, keys: [...done.keys, key] });
      await new Promise<void>(resolve => {
        if (ms === 0) resolve();
        else host.setTimer(ms, resolve);
      });
      return `${name} ran`;
    };
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([calls(['file', { at: 1 }]), { text: 'filed' }]),
    tools: [makeTool('file', { approval: true, run: act('file') })],
  });
  const tools: Tool[] = [
    makeTool('read', { sideEffect: 'none', run: act('read') }),
    makeTool('put', { sideEffect: 'idempotent', run: act('put') }),
    makeTool('pay', { run: act('pay', SLOW_MS) }),
    makeTool('refund', { approval: true, run: act('refund') }),
    makeTool('ask', {
      run: act('ask'),
      reconcile: ({ runId, callId }) =>
        world.acts.has(`${runId}/${callId}`)
          ? { happened: true, output: 'found by the tool' }
          : { happened: false },
    }),
    clientTool('show'),
    clerk.asTool({ name: 'clerk', description: 'Files things.' }),
  ];
  return createAgent({
    name: 'drill',
    host,
    store,
    onMessage: 'queue',
    toolConcurrency: 3,
    model: scripted([
      calls('read', 'put', 'pay', 'ask', 'refund', 'show'),
      calls('pay', ['clerk', { input: 'file it' }]),
      { text: 'done' },
    ]),
    tools,
  });
}

const ONCE: ReadonlySet<string> = new Set(['pay', 'refund', 'ask', 'file']);

/** The faults of a drill: lost calls, second executions, wrong results, lost or duplicate commands. */
export async function findFaults(store: Store, world: Environment, settled: Settled): Promise<string[]> {
  const faults: string[] = [];
  if (settled.status !== 'finished') faults.push(`the run is ${JSON.stringify(settled)}`);
  const events: { runId: string; event: RunEvent }[] = [];
  for (const { runId } of (await store.list({ limit: 1000 })).runs) {
    faults.push(...(await findLost(store, runId, world)));
    for (const { event } of await store.read(runId)) events.push({ runId, event });
  }
  for (const [call, { tool, keys }] of world.acts) {
    if (ONCE.has(tool) && keys.length > 1) faults.push(`${call} (${tool}) happened ${keys.length} times`);
    if (new Set(keys).size > 1) faults.push(`${call} (${tool}) has the keys ${keys.join(', ')}`);
  }
  for (const what of world.acknowledged) {
    const count = events.filter(({ runId, event }) => nameWord(runId, event) === what).length;
    if (count < 1 || (what !== 'message' && count > 1))
      faults.push(`${what} was accepted, and is journaled ${count} times`);
  }
  return faults;
}

function nameWord(runId: string, event: RunEvent): string | undefined {
  if (event.type === 'message.received') return 'message';
  if (event.type !== 'approval.decided' && event.type !== 'result.received') return undefined;
  return `${runId}/${event.callId}`;
}

/** The calls without exactly one successful result, and engine calls that never acted. */
async function findLost(store: Store, runId: string, { acts }: Environment): Promise<string[]> {
  const faults: string[] = [];
  const { transcript } = (await loadRun(store, runId)).state.context;
  for (const item of transcript) {
    if (item.type !== 'tool_call') continue;
    const { callId, name } = item;
    const results = transcript.filter(other => other.type === 'tool_result' && other.callId === callId);
    if (results.length !== 1) faults.push(`${callId} (${name}) has ${results.length} results`);
    for (const result of results)
      if (result.type === 'tool_result' && result.isError)
        faults.push(`${callId} (${name}) has the result ${JSON.stringify(result.output)}`);
    if (name !== 'show' && name !== 'clerk' && !acts.has(`${runId}/${callId}`))
      faults.push(`${callId} (${name}) never happened`);
  }
  return faults;
}
