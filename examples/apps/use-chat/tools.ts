import { tool } from 'agentchart';
import * as z from 'zod';

export const lookUpOrder = tool({
  name: 'lookup_order',
  description: 'Looks an order up.',
  input: z.object({ orderId: z.string() }),
  sideEffect: 'none',
  run: ({ orderId }) => ({ orderId, cents: 4_200 }),
});

export const refund = tool({
  name: 'refund',
  description: 'Pays an order back.',
  input: z.object({ orderId: z.string(), cents: z.int() }),
  // `pure`: `agentchart explore` calls the rule, and proves who never decides.
  approval: {
    pure: true,
    rule: ({ input }) => ({
      required: true,
      by: 'managers',
      not: 'starter',
      reason: `It pays ${input.cents} cents.`,
    }),
  },
  run: ({ cents }) => ({ refunded: cents }),
});
