/** The first process: a customer asks. It prints what waits for a decision, and ends.   node ask.ts USER TEXT */
import { desk, store } from './desk.ts';

const [user = '7', text = 'Refund order A-1001.'] = process.argv.slice(2);
const run = await desk.start(text, { runContext: { user }, labels: { user }, title: `Refund for ${user}` });
const settled = await run.settled();
const approvals = settled.status === 'waiting' ? settled.approvals : [];
for (const { callId, digest, input } of approvals) {
  console.log(JSON.stringify({ run: run.id, call: callId, digest, cents: input.cents }));
}
await store.close();
