import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, tool } from '../../../agent/index.ts';
import { sqlite } from '../../../stores/sqlite.ts';

/** A desk whose refunds two managers approve, on a store in a file. */
export function openQuorumDesk(path: string) {
  const refund = tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({}),
    approval: () => ({ required: true, by: 'managers', quorum: 2 }),
    run: () => 'paid',
  });
  const model = scripted([{ toolCalls: [{ name: 'refund', arguments: {} }] }, { text: 'Done.' }]);
  return createAgent({ name: 'desk', model, tools: [refund], store: sqlite(path) });
}

export const manager = (name: string) => ({ as: { name, groups: ['managers'] } });

const [, program, path] = process.argv;
/** As a program: gives the first approval, says so, and waits to be killed. */
if (program === import.meta.filename && path !== undefined) {
  const run = await openQuorumDesk(path).start('Refund me.', { by: 'ann', runId: 'r' });
  await run.settled();
  const { accepted } = await run.approve('call_0_0', manager('mia'));
  console.log(accepted);
  setInterval(() => {}, 1_000_000);
}
