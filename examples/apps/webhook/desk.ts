/** The agent of the three processes, and its store. */
import { createAgent, tool } from 'agentchart';
import { modelFromEnv } from 'agentchart/adapters/model-from-env';
import { sqlite } from 'agentchart/stores/sqlite';
import * as z from 'zod';

export const customer = z.object({ user: z.string() });

const refund = tool({
  name: 'refund',
  description: "Refunds one of the customer's orders.",
  input: z.object({ orderId: z.string(), cents: z.int().positive() }),
  output: z.object({ paidTo: z.string(), cents: z.int() }),
  runContext: customer,
  approval: true,
  // In whatever process the call is approved, the context says whose run it is.
  run: ({ cents }, { runContext }) => ({ paidTo: runContext.user, cents }),
});

export const store = sqlite(process.env.RUNS_DB ?? 'runs.db');

export const desk = createAgent({
  name: 'refund-desk',
  model: modelFromEnv(),
  runContext: customer,
  tools: [refund],
  store,
});
