import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { FaultPoint } from '../../engine/host/host.ts';
import type { Run } from '../../engine/run/run.ts';
import type { Store } from '../../protocol/store.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { watchStore } from '../support/engine/watched-store.ts';

/** A process of the engine in a scene. */
export type Process = {
  host: ManualHost;
  store: Store;
  /** Ends the process when the n-th such point is reached; its remaining code never acts again. */
  dieAt(point: FaultPoint, nth?: number): Promise<void>;
};

/** A run of the engine whose journal is recorded. */
export type Scene = {
  about: string;
  /** Plays the scene, and returns the id of the recorded run. */
  play(begin: (name?: string) => Process): Promise<string>;
};

const NEVER = new Promise<never>(() => {});

export function makeProcess(shared: Store, now: number, name: string): Process {
  let over = false;
  const host = new ManualHost({ now, name });
  const store = watchStore(shared, { before: () => (over ? NEVER : undefined) });
  const dieAt = async (point: FaultPoint, nth = 1) => {
    let left = nth;
    let died = () => {};
    const ended = new Promise<void>(resolve => {
      died = resolve;
    });
    host.reach = reached => {
      if (over) throw new Error('this process has ended');
      if (reached !== point) return;
      left -= 1;
      if (left > 0) return;
      over = true;
      died();
      throw new Error('this process has ended');
    };
    await host.settle(ended);
  };
  return { host, store, dieAt };
}

type Turns = Parameters<typeof scripted>[0];

export function agentOf({ host, store }: Process, turns: Turns, options: Partial<AgentOptions> = {}) {
  const model = scripted(turns);
  return createAgent({
    name: 'golden',
    version: '1',
    host,
    store,
    model,
    onMessage: 'supersede',
    ...options,
  });
}

/** An agent whose sub-agent pays after an approval. */
export function familyOf(process: Process) {
  const payer = createAgent({
    name: 'payer',
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools: [makeTool('pay', { approval: true })],
    onMessage: 'supersede',
  });
  const ask = payer.asTool({ name: 'ask', description: 'Pays.' });
  return agentOf(process, [calls(['ask', { input: 'pay' }]), { text: 'Done.' }], { tools: [ask] });
}

export async function rest({ host }: Process, run: Run): Promise<string[]> {
  const settled = await host.settle(run.settled());
  if (settled.status !== 'waiting') return [];
  return settled.open.flatMap(open => ('callId' in open ? [open.callId] : []));
}

/** The run that a process drives until it dies. */
export async function driveUntil(process: Process, run: Run, point: FaultPoint, nth?: number): Promise<void> {
  run.settled().catch(() => {});
  await process.dieAt(point, nth);
}
