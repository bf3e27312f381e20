/**
 * A support desk for many customers: who the run is about is its context, and the types of tools and answers reach
 * the code that reads the outcome.
 *
 *   AGENTCHART_MODEL=openai:gpt-5-mini node support.ts "Please refund order A-1001"
 */
import { createAgent, tool } from 'agentchart';
import { modelFromEnv } from 'agentchart/adapters/model-from-env';
import * as z from 'zod';

const customer = z.object({ user: z.string(), plan: z.enum(['free', 'pro']) });

const ORDERS = new Map([
  ['A-1001', { user: '7', cents: 4200, state: 'shipped' as const }],
  ['A-1002', { user: '8', cents: 1850, state: 'paid' as const }],
]);

const findOrder = tool({
  name: 'find_order',
  description: "Finds one of the customer's orders.",
  input: z.object({ orderId: z.string() }),
  output: z.object({ orderId: z.string(), cents: z.int(), state: z.enum(['paid', 'shipped']) }),
  runContext: customer,
  sideEffect: 'none',
  run: ({ orderId }, { runContext }) => {
    const order = ORDERS.get(orderId);
    if (order?.user !== runContext.user) throw new Error(`The customer has no order ${orderId}.`);
    return { orderId, cents: order.cents, state: order.state };
  },
});

const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  input: z.object({ orderId: z.string(), cents: z.int().positive() }),
  output: z.object({ reference: z.string() }),
  runContext: customer,
  approval: ({ input, runContext }) => runContext.plan === 'free' || input.cents > 10_000,
  run: ({ orderId }, { key }) => ({ reference: `${orderId}/${key.slice(0, 8)}` }),
});

const agent = createAgent({
  name: 'support',
  model: modelFromEnv(),
  runContext: customer,
  instructions: ({ user, plan }) => `You help customer ${user}, who has the plan "${plan}".`,
  tools: [findOrder, refund],
  output: z.object({ reply: z.string(), refundedCents: z.int() }),
});

const run = await agent.start(process.argv[2] ?? 'Please refund order A-1001.', {
  runContext: { user: '7', plan: 'free' },
  labels: { user: '7' },
});
let settled = await run.settled();

// The desk refunds at most 20 dollars without asking a manager.
while (settled.status === 'waiting') {
  for (const call of settled.approvals) {
    if (call.name === 'refund') {
      const cents = Math.min(call.input.cents, 2000);
      await run.approve(call, { input: { ...call.input, cents }, by: 'desk' });
    } else await run.reject(call.callId, { reason: 'Not needed.' });
  }
  settled = await run.settled();
}

if (settled.status === 'finished') {
  for (const result of settled.results) {
    if (result.isError) console.log(result.name, 'failed');
    else if (result.name === 'refund')
      console.log('refund', result.input.cents, result.output.reference !== '');
    else if (result.name === 'find_order') console.log('order', result.output.state);
  }
  console.log(settled.output?.reply, settled.output?.refundedCents);
} else console.log(settled.status);
