import type { Context } from '../../../machines/context.ts';
import type { QualifiedCall, RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { JsonOpenCall, RunView, StreamedEvent } from '../data/request.ts';
import { openDecisions } from '../run/decisions/open-decisions.ts';

/** An entry about a call. */
export type CallEvent = Extract<StreamedEvent, { callId: string }>;

/** A call and the entries about it, as the journal has them. */
export type CallRecord = {
  call: QualifiedCall;
  /** The entry of the turn that made it, and the number of that turn. */
  seq: number;
  turn: number;
  madeAt: number;
  events: CallEvent[];
  /** The entry of the edit that dropped it from its turn. */
  droppedAt?: number;
};

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
  /** The idempotency key; set at the first start. */
  key: string | null;
  interrupted: boolean;
  childRunId: string | null;
  /** An outcome that arrived after the run had moved on. */
  late: { output: JsonValue; isError: boolean; contradicts: string | null } | null;
  /** The server's view of the call while it is open; decisions refer to it. */
  open: JsonOpenCall | null;
  progress: unknown;
};

/** The sources of call states: the fold of the journal, the server's view, and live progress by call id. */
export type CallSource = {
  context: Context | null;
  view: RunView | null;
  progress: ReadonlyMap<string, unknown>;
  /** Whether the cursor is at the end, where the server's view and live progress belong. */
  isAtEnd: boolean;
};

/** The facts of a call up to an entry. */
export function factsAt(record: CallRecord, at: number, source: CallSource): CallFacts {
  const facts = beginCall(record.call, record.madeAt);
  for (const event of record.events) if (event.seq <= at) addToCall(facts, event);
  if (record.droppedAt !== undefined && record.droppedAt <= at) facts.status = 'dropped';
  else concludeCall(facts, source);
  return facts;
}

function beginCall(call: QualifiedCall, madeAt: number): CallFacts {
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
function addToCall(call: CallFacts, event: Extract<RunEvent, { callId: string }>): void {
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
    case 'call.edited':
      Object.assign(call, event.call, { input: call.input, edited: event.call.input });
      call.decisions.push({ what: 'edited', at, by: event.by });
      return;
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

/** Sets a call's status, result, progress and, while it is open, the server's view of it. */
function concludeCall(call: CallFacts, { context, view, progress, isAtEnd }: CallSource): void {
  const { callId } = call;
  const result =
    resultsIn(context?.transcript ?? []).get(callId) ?? resultsIn(view?.transcript ?? []).get(callId);
  if (result !== undefined && (call.settledAt !== null || context !== null)) {
    if (context === null || resultsIn(context.transcript).has(callId)) call.status = 'settled';
    call.result = result;
  }
  const ended = isAtEnd && view?.settled != null && view.settled.status !== 'waiting';
  const current = context?.calls.find(one => one.callId === callId);
  if (current !== undefined) {
    call.status = ended && current.status !== 'settled' ? 'unsettled' : current.status;
    call.result = current.result ?? null;
    call.doubt = current.doubt ?? null;
  }
  const known = isAtEnd && !ended ? view?.calls.find(one => one.callId === callId) : undefined;
  if (known !== undefined && call.status !== 'settled') {
    if (context === null) call.status = known.status;
    const decided = openDecisions(view).find(one => one.callId === callId && one.runId === view?.runId);
    if (call.status === known.status) call.open = decided ?? null;
  }
  if (isAtEnd && call.status === 'running') call.progress = progress.get(callId) ?? null;
  call.status = nameOutcome(call);
}

/** Returns the name of an outcome that is not an error of the call. */
function nameOutcome({ status, result, decisions }: CallFacts): string {
  if (status !== 'settled' || result?.isError !== true) return status;
  if (typeof result.output === 'string' && result.output.startsWith('superseded')) return 'superseded';
  if (decisions.some(({ what }) => what.startsWith(PAST.reject))) return 'rejected';
  return 'error';
}

const results = new WeakMap<readonly Item[], Map<string, Extract<Item, { type: 'tool_result' }>>>();

function resultsIn(transcript: readonly Item[]): Map<string, Extract<Item, { type: 'tool_result' }>> {
  const known = results.get(transcript);
  if (known !== undefined) return known;
  const found = new Map(
    transcript.flatMap(item => (item.type === 'tool_result' ? [[item.callId, item] as const] : [])),
  );
  results.set(transcript, found);
  return found;
}
