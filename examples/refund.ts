import * as z from 'zod';
// In a project of your own: from 'agentchart'.
import { createAgent, tool } from '../agent/index.ts';

const ORDERS = new Map([
  ['A-1001', { customer: 'Ada', cents: 4200, paid: true }],
  ['A-1002', { customer: 'Grace', cents: 1850, paid: true }],
]);

const lookupOrder = tool({
  name: 'lookup_order',
  description: 'Looks an order up by its id.',
  input: z.object({ orderId: z.string() }),
  sideEffect: 'none',
  run: ({ orderId }) => ORDERS.get(orderId) ?? { orderId, unknown: true },
});

const refund = tool({
  name: 'refund',
  description: 'Refunds an order. A person has to approve it.',
  input: z.object({ orderId: z.string(), cents: z.number().int().positive() }),
  sideEffect: 'once',
  approval: ({ input }) => ({ required: true, reason: `refunds ${input.cents} cents` }),
  // Pass the key to the payment provider, which refuses a second payment with the same key.
  run: ({ orderId, cents }, { key }) => ({ orderId, refundedCents: cents, reference: key }),
});

/** The model comes from AGENTCHART_MODEL. */
export default createAgent({
  name: 'refunds',
  description: 'Looks up and refunds orders. Refunds wait for a person to approve them.',
  instructions:
    'You handle refunds. Look the order up before you refund it, and never refund more than was paid.',
  tools: [lookupOrder, refund],
});
