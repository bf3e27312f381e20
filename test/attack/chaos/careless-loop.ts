import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Act } from './chaos-agent.ts';

/**
 * The control of chaos: a deliberately wrong loop, on the run `careless` of a folder (`node careless-loop.ts
 * FOLDER`). It acts before it records the act, and acknowledges messages before they are on disk.
 * Nothing resumes it after a kill.
 */
const [folder = '.'] = process.argv.slice(2);
const journal = join(folder, 'journal');
const RUN = 'careless';
const CALLS = 40;
/** The time for which only the process knows of an act, in ms. */
const RECORDED_AFTER_MS = 300;

const done = existsSync(journal) ? readFileSync(journal, 'utf8').split('\n').length - 1 : 0;
const held: string[] = [];
let messages = 0;
setInterval(() => {
  messages += 1;
  const text = `message ${messages} of ${process.pid}`;
  held.push(text);
  appendFileSync(join(folder, 'acknowledged'), `${JSON.stringify({ type: 'sent', runId: RUN, text })}\n`);
}, 20).unref();

for (let call = done; call < CALLS; call += 1) {
  const act: Act = { tool: 'pay', key: `${RUN}:${call}`, runId: RUN, callId: `call_${call}` };
  appendFileSync(join(folder, 'acts'), `${JSON.stringify(act)}\n`);
  await delay(RECORDED_AFTER_MS);
  appendFileSync(journal, `${JSON.stringify({ call, messages: held.splice(0) })}\n`);
}
