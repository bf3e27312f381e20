import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { StartOptions } from '../../../agent/begin-journal.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from '../engine/agents.ts';

/** A recorded run, and its store. */
export type Scene = { store: Store; runId: string };

type Options = Omit<AgentOptions, 'name' | 'store' | 'model'> & Pick<Partial<AgentOptions>, 'model'>;
type Play = (run: Run, host: ManualHost) => Promise<unknown>;

export const refund = makeTool('refund', {
  approval: () => ({ required: true, reason: 'money leaves the house' }),
});
export const look = makeTool('look', { sideEffect: 'none' });
export const REFUND = calls(['refund', { cents: 4200 }]);
export const DONE: ScriptedTurn = { text: 'Done.' };

/** Runs an agent on a script; `play` drives it. */
export async function stage(
  turns: ScriptedTurn[],
  options: Options,
  play: Play = async (run, host) => await host.settle(run.settled()),
  start: StartOptions = {},
): Promise<Scene> {
  const [host, store] = [new ManualHost(), memory()];
  const agent = createAgent({ name: 'staged', host, store, model: scripted(turns), ...options });
  const run = await agent.start('go', start);
  await play(run, host);
  await host.idle();
  return { store, runId: run.id };
}

/** Waits for a rest, applies each command, and waits for the next rest. */
export const say =
  (...words: ((run: Run) => Promise<unknown>)[]): Play =>
  async (run, host) => {
    await host.settle(run.settled());
    for (const word of words) {
      await word(run);
      await host.settle(run.settled());
    }
  };
