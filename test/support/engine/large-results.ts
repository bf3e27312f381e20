import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from './agents.ts';
import { recordRequests } from './models.ts';

/** An agent whose tool returns more than its limit. */

export const LIMIT = 1000;
export const LARGE = { head: 'begins', rows: 'x'.repeat(5000), tail: 'ends' };

export const large = (name = 'dump', output: JsonValue = LARGE) =>
  makeTool(name, { maxResultBytes: LIMIT, run: () => output });

type Parts = Partial<Parameters<typeof createAgent>[0]>;

export function makeAgent(parts: Parts = {}) {
  const host = new ManualHost();
  const store = memory();
  const { model, requests } = recordRequests(scripted([calls('dump'), { text: 'done' }]));
  return {
    host,
    store,
    requests,
    agent: createAgent({ name: 'a', host, store, model, tools: [large()], ...parts }),
  };
}

export async function runToEnd(parts: Parts = {}) {
  const made = makeAgent(parts);
  const run = await made.agent.start('go', { runId: 'r' });
  const settled = await made.host.settle(run.settled());
  return { ...made, run, settled };
}
