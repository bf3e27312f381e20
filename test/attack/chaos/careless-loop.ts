import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Act } from './chaos-agent.ts';

/**
 * The chaos's control: a loop as it must not be, on the run `careless` of a folder (`node careless-loop.ts
 * FOLDER`). It acts and then writes down that it did, and says yes to messages before they are on the disk.
 * Nobody goes on with it once it was killed.
 */
const [folder = '.'] = process.argv.slice(2);
const journal = join(folder, 'journal');
const RUN = 'careless';
const CALLS = 40;
/** How long what was done is known to nobody but the process, in ms. */
const RECORDED_AFTER_MS = 300;

const done = existsSync(journal) ? readFileSync(journal, 'utf8').split('\n').length - 1 : 0;
const held: string[] = [];
let said = 0;
setInterval(() => {
  said += 1;
  const text = `message ${said} of ${process.pid}`;
  held.push(text);
  appendFileSync(join(folder, 'told'), `${JSON.stringify({ type: 'sent', runId: RUN, text })}\n`);
}, 20).unref();

for (let call = done; call < CALLS; call += 1) {
  const act: Act = { tool: 'pay', key: `${RUN}:${call}`, runId: RUN, callId: `call_${call}` };
  appendFileSync(join(folder, 'acts'), `${JSON.stringify(act)}\n`);
  await delay(RECORDED_AFTER_MS);
  appendFileSync(journal, `${JSON.stringify({ call, messages: held.splice(0) })}\n`);
}
