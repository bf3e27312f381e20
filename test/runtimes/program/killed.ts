import { appendFileSync } from 'node:fs';
import { sqlite } from 'agentchart/stores/sqlite';
import { QUESTION } from './outcome.ts';
import { makeDesk } from './refund-desk.ts';

/**
 * Works on the newest run of a database, or on a new one: `killed PROVIDER DATABASE CALLS [hang]`. Approves what waits,
 * appends each call of a tool to the file CALLS, and prints the settled run. With `hang` the refund never returns: this
 * process prints `refunding` and waits to be killed.
 */
const [provider = '', database = '', calls = '', mode] = process.argv.slice(2);
const store = sqlite(database);

const desk = makeDesk({
  provider,
  store,
  onCall: async (name, key) => {
    appendFileSync(calls, `${name} ${key}\n`);
    if (name !== 'refund' || mode !== 'hang') return;
    console.log('refunding');
    await new Promise(() => setInterval(() => {}, 1000));
  },
});

const { runs } = await store.list({ limit: 1 });
const run = runs[0] === undefined ? await desk.start(QUESTION) : await desk.open(runs[0].runId);
let settled = await run.settled();
if (settled.status === 'waiting') {
  for (const call of settled.approvals) await run.approve(call);
  settled = await run.settled();
}
console.log(JSON.stringify(settled));
await store.close();
