import { countOutcome } from '../environment/spending.ts';
import type { Expected, Ledger, LedgerCall } from './ledger.ts';

/** The calls of a ledger's round, found and changed. A settled call never changes again. */

export function find({ calls }: Ledger, callId: string): LedgerCall | undefined {
  return calls.find(({ call }) => call.callId === callId);
}

export function change(ledger: Ledger, callId: string, by: Partial<LedgerCall>): Ledger {
  const calls = ledger.calls.map(entry =>
    entry.call.callId === callId && entry.stage !== 'settled' ? { ...entry, ...by } : entry,
  );
  return { ...ledger, calls };
}

export function settle(ledger: Ledger, callId: string, outcome: NonNullable<LedgerCall['result']>): Ledger {
  const { output, isError, shown } = outcome;
  const result = { output, isError, ...(shown === undefined ? {} : { shown }) };
  return change(ledger, callId, { stage: 'settled', result });
}

export function refuseCalls(ledger: Ledger, which: (call: LedgerCall) => boolean): Ledger {
  if (!ledger.calls.some(which)) return ledger;
  const calls = ledger.calls.map(call =>
    which(call) ? { ...call, stage: 'settled' as const, result: null } : call,
  );
  return { ...ledger, calls };
}

export function countFailure(ledger: Ledger, digest: string, failed: boolean): Ledger {
  return { ...ledger, spending: countOutcome(ledger.spending, digest, failed) };
}

/** When every call has its result, all of them are in the transcript, in call order. */
export function closeRound(ledger: Ledger): Ledger {
  const { calls, transcript, resultsAt, done } = ledger;
  if (calls.length === 0 || calls.some(({ stage }) => stage !== 'settled')) return ledger;
  const results = calls.map(({ call, result }): Expected => {
    const { callId } = call;
    if (result === null) return { refused: callId };
    const { output, isError, shown } = result;
    return { type: 'tool_result', callId, output, isError, ...(shown === undefined ? {} : { shown }) };
  });
  const at = resultsAt ?? transcript.length;
  return {
    ...ledger,
    calls: [],
    resultsAt: null,
    done: [...done, ...calls],
    transcript: [...transcript.slice(0, at), ...results, ...transcript.slice(at)],
  };
}
