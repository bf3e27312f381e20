import { receiptOf, resultOf } from '../../machines/calls.ts';
import type { Call, CallResult, Context } from '../../machines/context.ts';
import { findResult, toolResults } from '../../machines/tool-results.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import { EngineError, isThrown } from '../../protocol/error.ts';
import type { HeldLimits, JournalEntry, QualifiedCall, RunEvent } from '../../protocol/event.ts';
import { callsOf } from '../../protocol/event.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import type { Store } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import { readJournal } from './read-journal.ts';
import { RunBlobs } from './run-blobs.ts';

/* The k-th call with a tool and input in a fork with `replayTools` plays the result of the k-th such call of its original. */

/** `seq`: of the entry that has it; `at`: its time. `work`: the result is the receipt of this work in the background. */
type RecordedResult = CallResult & { seq: number; at: number; work?: Work };

/** The run that does the work of a call, and what it may spend. */
type Work = { childRunId: string; held: HeldLimits };

/** A call of a journal, with the input that it ran with. A rejected or unfinished call has no result. */
type RecordedCall = Pick<QualifiedCall, 'callId' | 'name' | 'input' | 'digest' | 'sideEffect'> & {
  result?: RecordedResult;
};

/**
 * What a fork plays for a call: the full output and the entry that it comes from, the work in the background of its original,
 * or why there is none.
 */
export type PlayedCall =
  | { output: JsonValue; isError: boolean; from: { runId: string; seq: number } }
  | { work: Work }
  | { missing: string };

/** Finds what a call of a fork has to play. */
export type PlayCall = (context: Context, call: Call) => Promise<PlayedCall>;

/** Returns the calls of a journal in the order in which the model requested them. */
export function listRecordedCalls(entries: readonly JournalEntry[]): RecordedCall[] {
  const calls = new Map<string, RecordedCall>();
  for (const { seq, event } of entries) {
    for (const { callId, name, input, digest, sideEffect } of callsOf(event))
      calls.set(callId, { ...calls.get(callId), callId, name, input, digest, sideEffect });
    const call = 'callId' in event ? calls.get(event.callId) : undefined;
    if (call === undefined) continue;
    const result = resultIn(event);
    if (result !== undefined) call.result = { seq, at: event.at, ...result };
    if (event.type === 'approval.decided' && event.decision.type === 'approve') {
      const { input } = event.decision;
      if (input === undefined) continue;
      call.input = input;
      call.digest = digestCall(call.name, input);
    }
  }
  return [...calls.values()];
}

/** Returns the result of a call, also of one that a compaction replaced. Throws `call-unknown` without one. */
export async function readRecordedResult(
  store: Store,
  context: Context,
  callId: string,
): Promise<CallResult> {
  const { runId } = context;
  const result =
    findResult(context, callId) ??
    (await listReplaced(store, context)).find(call => call.callId === callId)?.result;
  if (result !== undefined) return result;
  const message = `Run ${runId} has no result for the call ${callId}.`;
  throw new EngineError('call-unknown', message, { runId, callId });
}

/** The run's own calls that compactions replaced. */
async function listReplaced(
  store: Store,
  { runId, compaction, transcript, calls }: Context,
): Promise<RecordedCall[]> {
  if (compaction.count === 0) return [];
  const present = new Set(transcript.flatMap(item => (item.type === 'tool_call' ? [item.callId] : [])));
  for (const { callId } of calls) present.add(callId);
  const recorded = listRecordedCalls(await readJournal(store, runId));
  return recorded.filter(({ callId }) => !present.has(callId));
}

function resultIn(event: RunEvent): Omit<RecordedResult, 'seq' | 'at'> | undefined {
  switch (event.type) {
    case 'tool.suspended': {
      const { childRunId, background: held, shown } = event;
      if (held === undefined) return undefined;
      return { ...receiptOf(childRunId), ...omitUndefined({ shown }), work: { childRunId, held } };
    }
    case 'tool.settled':
    case 'result.received':
      return resultOf(event);
    case 'approval.decided':
      return event.decision.type === 'answer' ? resultOf(event.decision) : undefined;
    case 'doubt.resolved': {
      const { resolution } = event;
      if (resolution.type === 'happened') return resultOf(resolution);
      return resolution.type === 'failed' ? { output: resolution.reason, isError: true } : undefined;
    }
    default:
      return undefined;
  }
}

/** Finds results in the journal of the run that `config.playsResultsOf` names, which is read once. */
export function playFrom(store: Store, host: Host): PlayCall {
  let reading: Promise<RecordedCall[] | null> | undefined;
  return async (context, call) => {
    const original = context.config.playsResultsOf ?? '';
    reading ??= store.get(original).then(async record => {
      return record === undefined ? null : listRecordedCalls(await readJournal(store, original));
    });
    const calls = await reading;
    const none = (why: string) => ({ missing: `Not executed: ${why}. Retry executes the call.` });
    if (calls === null) return none(`run ${original}, whose results this fork plays, was deleted`);
    const equal = calls.filter(({ digest }) => digest === call.digest);
    const replaced = (await listReplaced(store, context)).filter(({ digest }) => digest === call.digest);
    const place = replaced.length + countEarlier(context, call);
    const result = equal[place]?.result;
    if (result?.work !== undefined) return { work: result.work };
    const which = place === 0 ? '' : `, which the fork makes for the ${place + 1}th time`;
    if (result === undefined)
      return none(`run ${original}, whose results this fork plays, has no result for this call${which}`);
    if (countRedactions(result.output) > 0)
      return none(`its result in entry ${result.seq} of run ${original} was redacted`);
    const output = await loadOutput(store, host, original, result);
    if (output === undefined)
      return none(`the full result of entry ${result.seq} of run ${original} is no longer stored`);
    return { output, isError: result.isError, from: { runId: original, seq: result.seq } };
  };
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
