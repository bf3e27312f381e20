import { createAgent, type ModelAdapter, rule, type Store, spendOf, tool } from 'agentchart';
import * as z from 'zod';
import { chooseModel } from './model.ts';

const ORDERS = new Map([
  ['A-1001', { item: 'headphones', cents: 4200 }],
  ['A-1002', { item: 'a cable', cents: 900 }],
]);

/** Stands for a payment service, which knows its payments by their idempotency key. */
export const payments = new Map<string, number>();

const findOrder = tool({
  name: 'find_order',
  description: 'Finds an order by its id. Use it before a refund.',
  input: z.object({ orderId: z.string() }),
  output: z.object({ item: z.string(), cents: z.int() }),
  // It changes nothing, so it runs again after a crash.
  sideEffect: 'none',
  run: ({ orderId }) => {
    const order = ORDERS.get(orderId);
    if (order === undefined) throw new Error(`There is no order ${orderId}.`);
    return order;
  },
});

const refund = tool({
  name: 'refund',
  description: 'Pays money back for an order.',
  input: z.object({ orderId: z.string(), cents: z.int().positive() }),
  output: z.object({ refunded: z.int() }),
  // It must not run twice: after a crash, `reconcile` is asked whether it happened.
  sideEffect: 'once',
  // A refund of more than ten dollars is decided by a manager who did not ask for it.
  approval: ({ input }) => ({
    required: input.cents > 1000,
    by: 'managers',
    not: 'starter',
    reason: `refunds ${input.cents} cents`,
  }),
  run: ({ cents }, { key, signal }) => {
    signal.throwIfAborted();
    // Pass the key on to the service: it is the same if the call has to run again.
    payments.set(key, cents);
    return { refunded: cents };
  },
  reconcile: (_call, { key }) => {
    const cents = payments.get(key);
    return cents === undefined ? { happened: false } : { happened: true, output: { refunded: cents } };
  },
});

/** `model` and `store` are given, so that tests can pass a script and runs in memory. */
export const createDesk = (given: { model?: ModelAdapter; store?: Store }) =>
  createAgent({
    name: 'desk',
    // Raise it when the meaning of a tool changes: runs that wait then know.
    version: '1',
    instructions: 'You help customers with refunds. Look the order up first, and refund what it cost.',
    tools: [findOrder, refund],
    rules: [
      rule({
        name: 'a hundred dollars a conversation',
        when: spendOf('refund', input => (input as { cents: number }).cents).over(10_000),
        reason: 'the refunds of this conversation come to more than 100 dollars',
      }),
    ],
    limits: { turns: 10, toolCalls: 10 },
    ...given,
  });

/** For the commands: `npx agentchart explore --agent agent.ts`. They bring the store. */
export default createDesk({ model: chooseModel() });
