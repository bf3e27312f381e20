/** What `test/types/hover.test.ts` points at in an editor. Never run. */
import * as z from 'zod';
import { createAgent, tool } from '../../../agent/index.ts';

const lookup = tool({
  name: 'lookup',
  description: 'Looks an order up.',
  input: z.object({ orderId: z.string() }),
  sideEffect: 'none',
  run: ({ orderId }) => ({ orderId, cents: 4200 }),
});
const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  input: z.object({ orderId: z.string(), cents: z.int() }),
  output: z.object({ state: z.enum(['done', 'refused']) }),
  runContext: z.object({ user: z.string() }),
  approval: true,
  run: () => ({ state: 'done' as const }),
});
const agent = createAgent({
  name: 'desk',
  tools: [lookup, refund],
  output: z.object({ total: z.number() }),
  runContext: z.object({ user: z.string() }),
});

export async function decide(): Promise<unknown> {
  const run = await agent.start('go', { runContext: { user: '7' } });
  const settled = await run.settled();
  if (settled.status === 'finished') return [settled.output, settled.results];
  if (settled.status !== 'waiting') return settled.status;
  for (const call of settled.approvals)
    if (call.name === 'refund') await run.approve(call, { input: { ...call.input, cents: 1 } });
  return await run.answer('call', { output: null });
}
