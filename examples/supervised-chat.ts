/**
 * A chat with people behind it: the front desk hands questions about money over to billing, a manager decides each
 * refund, and an editor reviews each answer before the customer reads it. On the page, decide as both:
 *
 *   agentchart serve --agent examples/supervised-chat.ts
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import * as z from 'zod';
// In a project of your own: from 'agentchart'.
import { createAgent, tool } from '../agent/index.ts';

const ORDERS = new Map([
  ['A-1001', { customer: 'Ada', cents: 4200, charges: 2 }],
  ['A-1002', { customer: 'Grace', cents: 1850, charges: 1 }],
]);

/** Stands for a payment provider: a line of JSON for each payment, which has the key of its call. */
const PAYMENTS = process.env.PAYMENTS ?? 'payments.jsonl';

function isPaid(key: string): boolean {
  if (!existsSync(PAYMENTS)) return false;
  const lines = readFileSync(PAYMENTS, 'utf8').split('\n').filter(Boolean);
  return lines.some(line => JSON.parse(line).key === key);
}

const lookUpOrder = tool({
  name: 'look_up_order',
  description: 'Looks an order up by its id: what it cost, and how often it was charged.',
  input: z.object({ orderId: z.string() }),
  sideEffect: 'none',
  run: ({ orderId }) => ORDERS.get(orderId) ?? { orderId, unknown: true },
});

const refund = tool({
  name: 'refund',
  description: 'Pays back what was charged too often. A manager has to approve it.',
  input: z.object({ orderId: z.string(), cents: z.number().int().positive() }),
  sideEffect: 'once',
  approval: ({ input }) => ({ required: true, by: 'managers', reason: `pays ${input.cents} cents back` }),
  run: (payment, { key }) => {
    appendFileSync(PAYMENTS, `${JSON.stringify({ key, ...payment })}\n`);
    return { paid: payment.cents };
  },
  // After a crash in the middle of a refund, this says whether it happened.
  reconcile: ({ input }, { key }) =>
    isPaid(key) ? { happened: true, output: { paid: input.cents } } : { happened: false },
});

const billing = createAgent({
  name: 'billing',
  description: 'Invoices, charges and refunds.',
  instructions:
    'You answer questions about charges. Look an order up before you refund it, and refund only what was charged too often.',
  tools: [lookUpOrder, refund],
});

/** The model comes from AGENTCHART_MODEL. */
export default createAgent({
  name: 'front_desk',
  description: 'Answers customers. People review what it says.',
  instructions:
    'You are the front desk of a shop. Open from 9 to 5. Hand questions about money over to billing.',
  handoffs: [billing],
  finalAnswer: 'held',
  guardrails: {
    answer: () => ({ type: 'ask', reason: 'an editor reads each answer first', by: 'editors' }),
  },
});
