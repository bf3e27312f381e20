import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, resultsIn } from '../engine/agents.ts';
import { recordRequests } from '../engine/models.ts';

/** Agents whose tool `pay` waits for approval, in processes that share a store. */

export const HOUR = 3_600_000;

/** Processes that share a store; `paid` lists the inputs of the gated tool `pay`. */
export function makeDesk(
  turns: readonly ScriptedTurn[],
  options: Partial<AgentOptions> = {},
  tools: Tool[] = [],
) {
  const store = memory();
  const paid: unknown[] = [];
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number().int().positive() }),
    approval: { required: true, expiresInMs: HOUR },
    run: input => {
      paid.push(input);
      return 'paid';
    },
  });
  const make = (host: ManualHost) => {
    const recorded = recordRequests(scripted(turns));
    const agent = createAgent({
      name: 'desk',
      store,
      host,
      model: recorded.model,
      tools: [pay, ...tools],
      ...options,
    });
    /** The tool results in the last model request of this process. */
    const read = () => resultsIn(recorded.requests.at(-1)?.transcript ?? []);
    const readOrder = () =>
      (recorded.requests.at(-1)?.transcript ?? []).flatMap(item =>
        item.type === 'tool_result' ? [item.callId] : [],
      );
    return { agent, read, readOrder, requests: recorded.requests };
  };
  const host = new ManualHost();
  return { store, paid, host, make, ...make(host) };
}

export const PAYS = (...cents: number[]): ScriptedTurn =>
  calls(...cents.map((amount): [string, { cents: number }] => ['pay', { cents: amount }]));

export const openIds = (settled: Settled) =>
  settled.status === 'waiting' ? settled.approvals.map(({ callId }) => callId) : settled.status;

/** The host of a process that takes over `ms` after `host` stopped. */
export const later = (host: ManualHost, ms = 20_000) => new ManualHost({ now: host.now() + ms, name: 'b' });
