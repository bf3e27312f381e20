import { loadRun } from '../../engine/journal/load-run.ts';
import { describeSettled, type Open } from '../../engine/log/settled.ts';
import { hashText } from '../../protocol/content/hash-text.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import type { RunRecord, RunStatus, Store } from '../../protocol/store.ts';
import type { JournaledEvent } from './listener.ts';

/**
 * A topic of a webhook: `waiting` (a run waits for a decision), the status with which a run ended, or the type of a
 * journal event.
 */
export type WebhookTopic = Exclude<RunStatus, 'running'> | RunEvent['type'];

export const STATUS_TOPICS: readonly string[] = ['waiting', 'finished', 'failed', 'cancelled'];

/** A message of a webhook. Repeated deliveries have the same id. */
export type Notice = { id: string; type: string; at: number; data: JsonObject };

const MOST_OPEN = 20;
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
 * Describes what a run itself waits for: the runs of sub-agents have their own messages. `null` for nothing. `key`
 * identifies the set.
 */
async function describeWaits(store: Store, runId: string): Promise<{ data: JsonObject; key: string } | null> {
  const settled = describeSettled((await loadRun(store, runId)).state, text => text);
  if (settled?.status !== 'waiting') return null;
  const { open, paused } = settled;
  if (open.length === 0) return null;
  return {
    data: { open: open.slice(0, MOST_OPEN).map(describeOpen), paused },
    key: open.map(one => (one.kind === 'pause' ? one.id : `${one.id}:${one.digest}`)).join(),
  };
}

function describeOpen({ reason, ...open }: Open): JsonObject {
  const why = omitUndefined({ reason: reason?.slice(0, LONGEST_REASON) });
  if (open.kind === 'pause') return { ...open, ...why };
  const { input, '~answer': _, ...facts } = open;
  const isLong = JSON.stringify(input).length > LONGEST_INPUT;
  return { ...facts, ...why, ...(isLong ? { inputOmitted: true } : { input: toJson(input) }) };
}

function idOf(runId: string, what: string): string {
  return `msg_${hashText(`${runId}:${what}`).slice(0, 32)}`;
}
