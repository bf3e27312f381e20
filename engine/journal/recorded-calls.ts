import type { Call, Context } from '../../machines/context.ts';
import { toolResults } from '../../machines/tool-results.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import { EngineError, isThrown } from '../../protocol/error.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import { callsOf } from '../../protocol/event.ts';
import type { BlobReference } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import type { Store } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import { readJournal } from './read-journal.ts';
import { RunBlobs } from './run-blobs.ts';

/*
 * A fork with `replayTools` plays results from its original's journal instead of executing tools. Calls are equal if
 * they have the same tool and the same input. The k-th equal call of the fork takes the result of the k-th equal call
 * of the original.
 */

/** A result in a journal, with the seq of its entry. */
type RecordedResult = {
  seq: number;
  output: JsonValue;
  isError: boolean;
  shown?: string;
  blob?: BlobReference;
};

/** A call of a journal, with the input that it ran with. A rejected or unfinished call has no result. */
type RecordedCall = { callId: string; digest: string; result?: RecordedResult };

/** What a fork plays for a call: the full output and the entry that it comes from, or why there is none. */
export type PlayedCall =
  | { output: JsonValue; isError: boolean; from: { runId: string; seq: number } }
  | { missing: string };

/** Finds what a call of a fork has to play. */
export type PlayCall = (context: Context, call: Call) => Promise<PlayedCall>;

/** Returns the calls of a journal in the order in which the model requested them. */
export function listRecordedCalls(entries: readonly JournalEntry[]): RecordedCall[] {
  const calls = new Map<string, RecordedCall & { name: string }>();
  for (const { seq, event } of entries) {
    for (const { callId, name, digest } of callsOf(event))
      calls.set(callId, { ...calls.get(callId), callId, name, digest });
    const call = 'callId' in event ? calls.get(event.callId) : undefined;
    if (call === undefined) continue;
    const result = resultOf(event);
    if (result !== undefined) call.result = { seq, ...result };
    if (event.type === 'approval.decided' && event.decision.type === 'approve') {
      const { input } = event.decision;
      if (input !== undefined) call.digest = digestCall(call.name, input);
    }
  }
  return [...calls.values()];
}

function resultOf(event: RunEvent): Omit<RecordedResult, 'seq'> | undefined {
  switch (event.type) {
    case 'tool.settled':
    case 'result.received':
      return pickResult(event);
    case 'approval.decided':
      return event.decision.type === 'answer' ? pickResult(event.decision) : undefined;
    case 'doubt.resolved': {
      const { resolution } = event;
      if (resolution.type === 'happened') return pickResult(resolution);
      return resolution.type === 'failed' ? { output: resolution.reason, isError: true } : undefined;
    }
    default:
      return undefined;
  }
}

function pickResult(event: {
  output: JsonValue;
  isError?: boolean;
  shown?: string;
  blob?: BlobReference;
}): Omit<RecordedResult, 'seq'> {
  const { output, isError = false, shown, blob } = event;
  return {
    output,
    isError,
    ...omitUndefined({ shown, blob }),
  };
}

/**
 * Returns a function that finds results in the journal of the run that `config.playsResultsOf` names. It reads the
 * journal once: a result that is recorded later is missing.
 */
export function playFrom(store: Store, host: Host): PlayCall {
  let reading: Promise<RecordedCall[] | null> | undefined;
  return async (context, call) => {
    const original = context.config.playsResultsOf ?? '';
    reading ??= readCalls(store, original);
    const calls = await reading;
    const none = (why: string) => ({ missing: `Not executed: ${why}. Retry executes the call.` });
    if (calls === null) return none(`run ${original}, whose results this fork plays, was deleted`);
    const equal = calls.filter(({ digest }) => digest === call.digest);
    const place = countEarlier(context, call);
    const result = equal[place]?.result;
    if (result === undefined)
      return none(`run ${original}, whose results this fork plays, has no result for ${describe(place)}`);
    if (countRedactions(result.output) > 0)
      return none(`its result in entry ${result.seq} of run ${original} was redacted`);
    const output = await loadOutput(store, host, original, result);
    if (output === undefined)
      return none(`the full result of entry ${result.seq} of run ${original} is no longer stored`);
    return { output, isError: result.isError, from: { runId: original, seq: result.seq } };
  };
}

function describe(place: number): string {
  return place === 0 ? 'this call' : `this call, which the fork makes for the ${place + 1}th time`;
}

async function readCalls(store: Store, runId: string): Promise<RecordedCall[] | null> {
  if ((await store.get(runId)) === undefined) return null;
  return listRecordedCalls(await readJournal(store, runId));
}

async function loadOutput(
  store: Store,
  host: Host,
  runId: string,
  { output, blob }: RecordedResult,
): Promise<JsonValue | undefined> {
  if (blob === undefined) return output;
  try {
    return await new RunBlobs({ store, host, runId }).load(blob);
  } catch (error) {
    if (isThrown(error, EngineError) && error.code === 'result-missing') return undefined;
    throw error;
  }
}

function countEarlier(context: Context, { callId, digest }: Call): number {
  const place = context.calls.findIndex(call => call.callId === callId);
  const round = context.calls.slice(0, Math.max(place, 0));
  const earlier = toolResults(context).filter(
    ({ name, input }) => digestCall(name, input as JsonValue) === digest,
  );
  return earlier.length + round.filter(call => call.digest === digest).length;
}
