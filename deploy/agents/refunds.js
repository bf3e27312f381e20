import { createAgent, tool } from 'agentchart';
import * as z from 'zod';

const refund = tool({
  name: 'refund',
  description: 'Refunds an order. A person has to approve it.',
  input: z.object({ orderId: z.string(), cents: z.number().int().positive() }),
  sideEffect: 'once',
  approval: true,
  // Pass the key to the payment provider, which refuses a second payment with the same key.
  run: ({ orderId, cents }, { key }) => ({ orderId, refundedCents: cents, reference: key }),
});

/** The agent of the images: replace it with yours. The model comes from AGENTCHART_MODEL. */
export default createAgent({ name: 'refunds', tools: [refund] });
