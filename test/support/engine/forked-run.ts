import { expect } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeTracedTool } from './agents.ts';

/** A finished run, to be forked. */

export function foldOf(entries: readonly JournalEntry[]): ChartState {
  const [first, ...rest] = entries;
  if (first?.event.type !== 'run.started') throw new Error('the journal has no beginning');
  return rest.reduce((state, entry) => foldEntry(state, entry, 'source'), beginFold(first.event));
}

export function seqOf(events: readonly RunEvent[], type: RunEvent['type'], nth = 1): number {
  const seqs = events.flatMap((event, index) => (event.type === type ? [index + 1] : []));
  const seq = seqs[nth - 1];
  if (seq === undefined) throw new Error(`the journal has no ${type} number ${nth}`);
  return seq;
}

/** The calls that were started and have no outcome; a resolution to retry is not an outcome. */
export function startedIn(entries: readonly JournalEntry[]): string[] {
  const started = new Set<string>();
  for (const { event } of entries) {
    if (event.type === 'tool.started') started.add(event.callId);
    if (event.type === 'tool.settled') started.delete(event.callId);
    if (event.type === 'tool.suspended' && event.background !== undefined) started.delete(event.callId);
    if (event.type === 'doubt.resolved' && event.resolution.type !== 'retry') started.delete(event.callId);
  }
  return [...started].sort();
}

export function makeAgent(store: Store, host: ManualHost, keys: string[] = []) {
  return createAgent({
    name: 'a',
    host,
    store,
    onMessage: 'supersede',
    model: scripted([calls('read', 'act'), { text: 'Nearly.', ...calls('pay') }, { text: 'done' }]),
    tools: [
      makeTracedTool('read', keys, { sideEffect: 'none' }),
      makeTracedTool('act', keys, { approval: true }),
      makeTracedTool('pay', keys),
    ],
  });
}

export async function finishedRun() {
  const [host, store, keys] = [new ManualHost(), memory(), [] as string[]];
  const agent = makeAgent(store, host, keys);
  const run = await agent.start('go');
  await host.settle(run.settled());
  await run.approve('call_0_1', { by: 'ann' });
  expect((await host.settle(run.settled())).status).toBe('finished');
  return { host, store, keys, agent, run, events: await eventsOf(store, run.id) };
}
