import { sqlite } from '../../stores/sqlite.ts';
import { createAgent, type RunRecord } from '../../tools/agent/index.ts';

/** The run that was started last. */
export async function findRun(db: string): Promise<RunRecord> {
  const store = sqlite(db);
  const [record] = await store.list({ limit: 1 });
  await store.close();
  if (record === undefined) throw new Error(`${db} holds no run.`);
  return record;
}

/** The call the last run asks a person about. */
export async function findOpenCall(db: string): Promise<{ runId: string; callId: string }> {
  const { runId, agent } = await findRun(db);
  const store = sqlite(db);
  const run = await createAgent({ name: agent, store }).open(runId);
  const settled = await run.settled();
  await store.close();
  const call = settled.status === 'waiting' ? settled.approvals[0] : undefined;
  if (call === undefined) throw new Error(`Run ${runId} waits for no approval.`);
  return { runId, callId: call.callId };
}

/** What the journal says of the write: its events after the decision, by sequence number. */
export async function describeWrite(db: string, runId: string): Promise<string> {
  const store = sqlite(db);
  const journal = await store.read(runId);
  await store.close();
  const decided = journal.find(({ event }) => event.type === 'approval.decided');
  if (decided?.event.type !== 'approval.decided') return 'the write was not decided on';
  const { callId } = decided.event;
  const told = journal.filter(({ event }) => 'callId' in event && event.callId === callId);
  const events = told.map(({ seq, event }) => `${seq} ${event.type}`).join(', ');
  const settled = told.some(({ event }) => event.type === 'tool.settled');
  return settled ? events : `${events}, and no tool.settled`;
}
