import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, resultsIn } from './agents.ts';
import { recordRequests } from './models.ts';

/** A run with one call, and tools that do not return. */

export const hang = () => new Promise<never>(() => {});

/** Rejects as soon as it is aborted. */
export const stop = (_: unknown, { signal }: { signal: AbortSignal }) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

let runs = 0;

export async function callOnce(made: Tool, input: Record<string, number> | string = {}) {
  runs += 1;
  const host = new ManualHost({ name: `${runs}_` });
  const store = memory();
  const { model, requests } = recordRequests(scripted([calls([made.name, input]), { text: 'done' }]));
  const run = await createAgent({ name: 'a', host, store, model, tools: [made] }).start('go');
  const settled = await host.settle(run.settled());
  const read = resultsIn(requests[1]?.transcript ?? []).call_0_0;
  const [result] = settled.status === 'finished' ? settled.results : [];
  return { run, host, store, settled, read, result };
}
