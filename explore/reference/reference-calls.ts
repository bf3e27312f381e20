import { omitUndefined } from '../../protocol/json.ts';
import { countOutcome } from '../environment/spending.ts';
import type { Expected, ReferenceCall, ReferenceModel } from './reference-model.ts';

/** Returns an open call of the current round by its id. */
export function find({ calls }: ReferenceModel, callId: string): ReferenceCall | undefined {
  return calls.find(({ call }) => call.callId === callId);
}

/** Changes a call, unless it is settled. */
export function change(
  reference: ReferenceModel,
  callId: string,
  by: Partial<ReferenceCall>,
): ReferenceModel {
  const calls = reference.calls.map(entry =>
    entry.call.callId === callId && entry.stage !== 'settled' ? { ...entry, ...by } : entry,
  );
  return { ...reference, calls };
}

/** Records the result of a call, unless it is settled. */
export function settle(
  reference: ReferenceModel,
  callId: string,
  outcome: NonNullable<ReferenceCall['result']>,
): ReferenceModel {
  const { output, isError, shown, blob } = outcome;
  const result = { output, isError, ...omitUndefined({ shown, blob }) };
  return change(reference, callId, { stage: 'settled', result });
}

/** Settles the matching calls as refused. */
export function refuseCalls(
  reference: ReferenceModel,
  which: (call: ReferenceCall) => boolean,
): ReferenceModel {
  if (!reference.calls.some(which)) return reference;
  const calls = reference.calls.map(call =>
    which(call) ? { ...call, stage: 'settled' as const, result: null } : call,
  );
  return { ...reference, calls };
}

/** Counts the outcome of a call for the limit of repeated failures. */
export function countFailure(
  reference: ReferenceModel,
  digest: string,
  { failed }: { failed: boolean },
): ReferenceModel {
  return { ...reference, spending: countOutcome(reference.spending, digest, failed) };
}

/** Once every call is settled, moves the results to the transcript in call order and ends the round. */
export function closeRound(reference: ReferenceModel): ReferenceModel {
  const { calls, transcript, resultsAt, done } = reference;
  if (calls.length === 0 || calls.some(({ stage }) => stage !== 'settled')) return reference;
  const results = calls.map(({ call, result }): Expected => {
    const { callId } = call;
    if (result === null) return { refused: callId };
    return { type: 'tool_result', callId, ...result };
  });
  const at = resultsAt ?? transcript.length;
  return {
    ...reference,
    calls: [],
    resultsAt: null,
    done: [...done, ...calls],
    transcript: [...transcript.slice(0, at), ...results, ...transcript.slice(at)],
  };
}
