import { resolve } from 'node:path';
// In a project of your own: from 'agentchart' and 'agentchart/adapters/scripted'.
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, tool } from '../../../agent/index.ts';
import { formatDollars } from '../../kill/format-dollars.ts';
import { payOut } from '../../kill/workers/ledger.ts';
import { refundInput } from '../../kill/workers/refund.ts';

/** The file of payments. `npm start` sets the variables. */
const ledger = resolve(process.env.REFUNDS_LEDGER ?? '.agentchart/steward/payments.txt');
const dies = process.env.REFUNDS_CRASH === 'after-payment';

const refund = tool({
  name: 'refund',
  description: 'Pays money back: appends a line to the file of payments.',
  input: refundInput,
  sideEffect: 'once',
  approval: ({ input }) => ({ required: true, reason: `pays ${formatDollars(input.cents)} back` }),
  run: input => {
    payOut(ledger, input);
    // The worst moment: the money has moved, and the journal does not know.
    if (dies) process.kill(process.pid, 'SIGKILL');
    return { orderId: input.orderId, refundedCents: input.cents };
  },
});

/** The agent of the killed refund in the inbox of `npm start`. It plays a script and needs no key. */
export default createAgent({
  name: 'refunds',
  description:
    'Pays customers back. A refund must not run twice, and its tool cannot be asked what happened.',
  model: scripted([
    {
      text: 'Paid, broken, within 30 days: the customer gets the money back.',
      toolCalls: [{ name: 'refund', arguments: { orderId: 'order-1042', cents: 9_900 } }],
    },
    { text: 'Done: the money is on its way back to the customer.' },
  ]),
  tools: [refund],
});
