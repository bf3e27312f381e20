// In a project of your own: from 'agentchart' and 'agentchart/adapters/scripted'.
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, type Store, tool } from '../../agent/index.ts';
import type { Pace } from './setup.ts';
import { modelScript } from './story.ts';
import { refund, refundInput } from './workers/refund.ts';

/** The right side: the refund as a tool of an agent, declared as `once`. */
export function makeRefundAgent({
  store,
  ledger,
  pace,
}: {
  store: Store;
  ledger: string;
  pace: Pace;
}): Agent {
  return createAgent({
    name: 'refunds',
    model: scripted(modelScript(pace.model)),
    store,
    tools: [
      tool({
        name: 'refund',
        description: 'Refunds an order.',
        input: refundInput,
        sideEffect: 'once',
        approval: true,
        run: (input, { signal }) => refund(input, { ledger, pace, signal }),
      }),
    ],
  });
}
