import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createAgent } from '../../../agent/index.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import { hasEnded } from '../../../machines/status.ts';
import { messageOf } from '../../../protocol/error.ts';
import { userMessage } from '../../../protocol/message.ts';
import { makeRandom } from '../../crash/plan.ts';
import boss from './chaos-agent.ts';
import type { Acknowledged } from './chaos-evidence.ts';
import { openStore } from './open-store.ts';

/**
 * A program that works on the runs through the library: `node chaos-driver.ts DATABASE SEED`, until
 * it is killed. It records acknowledgements as soon as it gets them.
 */
const [db = '', seed = '1'] = process.argv.slice(2);
const random = makeRandom(Number(seed));
const store = openStore(db);
const agent = createAgent({ ...boss.options, store });

const LONGEST_DRIVE_MS = 1_500;
const MOST_FORKS = 3;
let forks = 0;
let edits = 0;

function record(acknowledged: Acknowledged): void {
  appendFileSync(join(process.env.ATTACK_FOLDER ?? '.', 'acknowledged'), `${JSON.stringify(acknowledged)}\n`);
}

async function pickRun(): Promise<Run | undefined> {
  const records = (await store.list({ limit: 50 })).runs.filter(({ agent: name }) => name === boss.name);
  const running = records.filter(({ status }) => status === 'running');
  const wanted = running.length > 0 && random() < 0.7 ? running : records;
  const record = wanted[Math.floor(random() * wanted.length)];
  return record && (await agent.open(record.runId));
}

async function work(): Promise<void> {
  const run = await pickRun();
  if (run === undefined) return;
  const { state } = await loadRun(store, run.id);
  if (hasEnded(state)) return await fork(run);
  const settled = await Promise.race([run.settled(), delay(LONGEST_DRIVE_MS)]);
  if (settled?.status !== 'waiting') return;
  const call = settled.approvals[Math.floor(random() * settled.approvals.length)];
  if (call !== undefined && random() < 0.6) {
    const { accepted } = await run.approve(call.callId, { runId: call.runId, by: 'driver' });
    if (accepted) record({ type: 'decided', runId: call.runId, callId: call.callId });
  } else if (random() < 0.3) await edit(run);
}

/** Forks an ended run: its open calls are known, so that a doubt in the fork has one correct answer. */
async function fork(run: Run): Promise<void> {
  if (forks >= MOST_FORKS || random() > 0.3) return;
  forks += 1;
  const { seq = 1 } = (await store.get(run.id)) ?? {};
  const forked = await run.fork({ at: 1 + Math.floor(random() * seq) });
  record({ type: 'forked', runId: forked.id });
}

async function edit(run: Run): Promise<void> {
  const text = `edit ${seed} ${edits}`;
  edits += 1;
  const { accepted } = await run.editTranscript([...run.context.transcript, userMessage(text)]);
  if (accepted) record({ type: 'edited', runId: run.id, text });
}

for (;;) {
  try {
    await work();
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`);
  }
  await delay(20 + random() * 80);
}
