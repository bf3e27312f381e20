import { createAgent, type RunRecord } from '../../agent/index.ts';
import { sqlite } from '../../stores/sqlite.ts';

/** Returns the run that was started last. Throws if the store has none. */
export async function findRun(db: string): Promise<RunRecord> {
  const store = sqlite(db);
  const [record] = (await store.list({ limit: 1 })).runs;
  await store.close();
  if (record === undefined) throw new Error(`${db} contains no run.`);
  return record;
}

/** Returns the call of the latest run that awaits approval. Throws if there is none. */
export async function findOpenCall(db: string): Promise<{ runId: string; callId: string }> {
  const { runId, agent } = await findRun(db);
  const store = sqlite(db);
  const run = await createAgent({ name: agent, store }).open(runId);
  const settled = await run.settled();
  await store.close();
  const call = settled.status === 'waiting' ? settled.approvals[0] : undefined;
  if (call === undefined) throw new Error(`Run ${runId} is not waiting for approval.`);
  return { runId, callId: call.callId };
}

/** Lists the journal's events of the approved write, with their sequence numbers. */
export async function describeWrite(db: string, runId: string): Promise<string> {
  const store = sqlite(db);
  const journal = await store.read(runId);
  await store.close();
  const decided = journal.find(({ event }) => event.type === 'approval.decided');
  if (decided?.event.type !== 'approval.decided') return 'no decision about the write';
  const { callId } = decided.event;
  const entries = journal.filter(({ event }) => 'callId' in event && event.callId === callId);
  const events = entries.map(({ seq, event }) => `${seq} ${event.type}`).join(', ');
  const settled = entries.some(({ event }) => event.type === 'tool.settled');
  return settled ? events : `${events}, but no tool.settled`;
}
