import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, type Store } from '../../../agent/index.ts';
import { calls, makeTool } from '../engine/agents.ts';

/** An agent whose runs have a failed call, a failed attempt and a rejected approval, and finish. */
export function makeErringAgent(store: Store): Agent {
  return createAgent({
    name: 'erring',
    store,
    retry: { attempts: 3, baseMs: 1 },
    tools: [
      makeTool('look', { sideEffect: 'none', run: () => ({ orderId: 'A-1', customer: 'Ada Lovelace' }) }),
      makeTool('charge', {
        sideEffect: 'none',
        run: () => {
          throw new Error('The card was declined');
        },
      }),
      makeTool('refund', { approval: true }),
    ],
    model: scripted([
      { text: 'I look the order up and charge the card.', ...calls('look', ['charge', { cents: 4200 }]) },
      { error: { code: 'overloaded', status: 529, message: 'Try later', times: 1 } },
      calls(['refund', { orderId: 'A-1' }]),
      { text: 'Ada Lovelace was not charged.' },
    ]),
  });
}

/** A run of that agent that has finished, and the entries at which something went wrong. */
export async function finishErring(agent: Agent): Promise<{ runId: string; errors: number[] }> {
  const run = await agent.start('Charge A-1');
  const settled = await run.settled();
  if (settled.status === 'waiting')
    for (const { callId } of settled.approvals) await run.reject(callId, { reason: 'not now' });
  await run.settled();
  const errors: number[] = [];
  for await (const event of run.events({ after: 0 })) {
    if (!('seq' in event)) continue;
    if (event.type === 'turn.failed' || (event.type === 'tool.settled' && event.isError))
      errors.push(event.seq);
    if (event.type === 'approval.decided') errors.push(event.seq);
  }
  return { runId: run.id, errors };
}
