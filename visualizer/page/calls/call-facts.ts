import type { Context } from '../../../machines/context.ts';
import type { QualifiedCall, RunEvent } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { JsonCall, RunView } from '../runs-api.ts';

/** A tool call and everything that happened to it. */
export type CallFacts = QualifiedCall & {
  madeAt: number;
  /** The chart's status of the call, or `unsettled` if the run ended before the call had a result. */
  status: string;
  starts: { at: number; attempt: number }[];
  settledAt: number | null;
  result: { output: JsonValue; isError: boolean; shown?: string; blob?: { bytes: number } } | null;
  /** The decisions about the call, oldest first. */
  decisions: { what: string; at: number; by?: string | undefined; reason?: string | undefined }[];
  edited: JsonValue | null;
  doubt: string | null;
  /** The idempotency key, from the first start on. */
  key: string | null;
  interrupted: boolean;
  childRunId: string | null;
  /** An outcome that arrived after the run had moved on. */
  late: { output: JsonValue; isError: boolean; contradicts: string | null } | null;
  /** The server's view of the call while it is open; decisions refer to it. */
  open: JsonCall | null;
  progress: unknown;
};

/** The sources of call states: the fold of the journal, the server's view, and live progress by call id. */
export type CallSource = {
  context: Context | null;
  view: RunView | null;
  progress: ReadonlyMap<string, unknown>;
};

/** The facts of a call that a turn has just made. */
export function beginCall(call: QualifiedCall, madeAt: number): CallFacts {
  return {
    ...call,
    madeAt,
    status: statusAtStart(call),
    starts: [],
    settledAt: null,
    result: null,
    decisions: [],
    edited: null,
    doubt: null,
    key: null,
    interrupted: false,
    childRunId: null,
    late: null,
    open: null,
    progress: null,
  };
}

function statusAtStart({ error, gate }: QualifiedCall): string {
  if (error !== undefined) return 'settled';
  return gate ? 'gated' : 'ready';
}

/** Adds an event about a call; ignores events about unknown calls. */
export function addToCall(call: CallFacts | undefined, event: Extract<RunEvent, { callId: string }>): void {
  if (call === undefined) return;
  const { at } = event;
  switch (event.type) {
    case 'approval.decided': {
      const { decision, by, sticky } = event;
      const always = sticky === true ? ', also for later calls' : '';
      const reason = decision.type === 'reject' ? decision.reason : undefined;
      call.decisions.push({ what: `${PAST[decision.type]}${always}`, at, by, reason });
      if (decision.type === 'approve' && decision.input !== undefined) call.edited = decision.input;
      if (decision.type !== 'approve') call.settledAt = at;
      return;
    }
    case 'result.received':
      call.decisions.push({ what: event.isError ? 'answered with an error' : 'answered', at, by: event.by });
      call.settledAt = at;
      return;
    case 'doubt.resolved': {
      const { resolution, by } = event;
      const reason = resolution.type === 'failed' ? resolution.reason : undefined;
      call.decisions.push({ what: RESOLVED[resolution.type], at, by, reason });
      if (resolution.type !== 'retry') call.settledAt = at;
      if (reason !== undefined && call.late?.isError === false)
        call.late.contradicts = `${by ?? 'a person'} recorded that it failed: ${reason}`;
      return;
    }
    case 'tool.started':
      call.starts.push({ at, attempt: event.attempt });
      call.key = event.key;
      return;
    case 'tool.settled':
      call.settledAt = at;
      return;
    case 'tool.interrupted':
      call.interrupted = true;
      return;
    case 'tool.doubted':
      call.doubt = event.reason;
      return;
    case 'tool.suspended':
      call.childRunId = event.childRunId;
      return;
    case 'tool.late':
      call.late = {
        output: event.output,
        isError: event.isError,
        contradicts: event.contradicts ?? call.late?.contradicts ?? null,
      };
  }
}

const PAST = { approve: 'approved', reject: 'rejected', answer: 'answered' } as const;

const RESOLVED = {
  retry: 'retried',
  happened: 'recorded as happened',
  failed: 'recorded as failed',
} as const;

/** Sets each call's status, result, progress and, while it is open, the server's view of it. */
export function concludeCalls(calls: ReadonlyMap<string, CallFacts>, source: CallSource): void {
  const { context, view, progress } = source;
  for (const item of [...(view?.transcript ?? []), ...(context?.transcript ?? [])]) {
    const call = item.type === 'tool_result' ? calls.get(item.callId) : undefined;
    if (call === undefined || item.type !== 'tool_result') continue;
    call.status = 'settled';
    call.result = item;
  }
  const ended = view?.settled != null && view.settled.status !== 'waiting';
  for (const { callId, status, result, doubt } of context?.calls ?? []) {
    const call = calls.get(callId);
    if (call === undefined) continue;
    call.status = ended && status !== 'settled' ? 'unsettled' : status;
    call.result = result ?? null;
    call.doubt = doubt ?? null;
  }
  for (const open of view?.calls ?? []) {
    const call = calls.get(open.callId);
    if (call === undefined || call.status === 'settled' || ended) continue;
    if (context === null) call.status = open.status;
    if (call.status === open.status) call.open = open;
  }
  for (const [callId, data] of progress) {
    const call = calls.get(callId);
    if (call !== undefined && call.status === 'running') call.progress = data;
  }
}
