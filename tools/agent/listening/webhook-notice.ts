import { loadRun } from '../../../engine/journal/load-run.ts';
import { describeSettled, type OpenCall } from '../../../engine/run/settled.ts';
import { hashText } from '../../../protocol/content/hash-text.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { type JsonObject, omitUndefined, toJson } from '../../../protocol/json.ts';
import type { RunRecord, RunStatus, Store } from '../../../protocol/store.ts';
import type { JournaledEvent } from './listener.ts';

/**
 * A topic of a webhook: `waiting` (a run waits for a decision), the status with which a run ended, or the type of a
 * journal event.
 */
export type WebhookTopic = Exclude<RunStatus, 'running'> | RunEvent['type'];

export const STATUS_TOPICS: readonly string[] = ['waiting', 'finished', 'failed', 'cancelled'];

/** A message of a webhook. Repeated deliveries have the same id. */
export type Notice = { id: string; type: string; at: number; data: JsonObject };

const MOST_CALLS = 20;
const LONGEST_INPUT = 4_000;
const LONGEST_REASON = 1_000;

/** Returns the messages about an entry. A status counts once its entry is the last of the run. */
export async function noticesOf(
  event: JournaledEvent,
  run: RunRecord,
  topics: ReadonlySet<string>,
  store: Store,
): Promise<Notice[]> {
  const notices: Notice[] = [];
  if (topics.has(event.type)) notices.push(describeEvent(event, run));
  if (run.seq !== event.seq || !topics.has(run.status)) return notices;
  if (run.status !== 'waiting') return [...notices, describeStatus(event, run, {}, '')];
  const waits = await describeWaits(store, run.runId);
  if (waits !== null) notices.push(describeStatus(event, run, waits.data, waits.key));
  return notices;
}

function describeEvent({ runId, seq, at, type, ...event }: JournaledEvent, run: RunRecord): Notice {
  const callId = 'callId' in event ? event.callId : undefined;
  const data = { ...describeRun(run), seq, ...omitUndefined({ callId }) };
  return { id: idOf(runId, String(seq)), type, at, data };
}

function describeStatus({ at, seq }: JournaledEvent, run: RunRecord, data: JsonObject, key: string): Notice {
  return {
    id: idOf(run.runId, `${run.status}:${key}`),
    type: `run.${run.status}`,
    at,
    data: { ...describeRun(run), seq, ...data },
  };
}

function describeRun(run: RunRecord): JsonObject {
  const { runId, agent, title, labels, status, state, parent, turns, tokens, cost, errorCode } = run;
  const facts = { runId, agent, title, labels, status, state, turns, tokens, cost };
  return { ...facts, ...omitUndefined({ parent, errorCode }) };
}

/**
 * Describes the open calls of a run, without calls that wait for a sub-agent's run, because that run has its own
 * messages. `null` if there are none. `key` identifies the set of open calls.
 */
async function describeWaits(store: Store, runId: string): Promise<{ data: JsonObject; key: string } | null> {
  const settled = describeSettled((await loadRun(store, runId)).state, text => text);
  if (settled?.status !== 'waiting') return null;
  const own = (calls: readonly OpenCall[]) => calls.filter(call => call.runId === runId);
  const [approvals, results, doubts] = [settled.approvals, settled.results, settled.doubts].map(own);
  const calls = [...(approvals ?? []), ...(results ?? []), ...(doubts ?? [])];
  if (calls.length === 0 && !settled.paused) return null;
  const describe = (list: readonly OpenCall[] = []) => list.slice(0, MOST_CALLS).map(describeCall);
  return {
    data: {
      approvals: describe(approvals),
      results: describe(results),
      doubts: describe(doubts),
      paused: settled.paused,
    },
    key: [...calls.map(({ callId, digest }) => `${callId}:${digest}`), String(settled.paused)].join(),
  };
}

function describeCall({
  callId,
  runId,
  name,
  input,
  digest,
  sideEffect,
  reason,
  expiresAt,
}: OpenCall): JsonObject {
  const isLong = JSON.stringify(input).length > LONGEST_INPUT;
  return {
    callId,
    runId,
    name,
    digest,
    sideEffect,
    ...(isLong ? { inputOmitted: true } : { input: toJson(input) }),
    ...omitUndefined({ reason: reason?.slice(0, LONGEST_REASON), expiresAt }),
  };
}

function idOf(runId: string, what: string): string {
  return `msg_${hashText(`${runId}:${what}`).slice(0, 32)}`;
}
