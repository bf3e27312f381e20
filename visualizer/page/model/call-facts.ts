import type { SettledBy, StoryEvent } from '../../../engine/story/tell-story.ts';
import { findCall } from '../../../machines/calls.ts';
import type { CallResult } from '../../../machines/context.ts';
import { describeOpen } from '../../../machines/settled.ts';
import { hasEnded } from '../../../machines/status.ts';
import type { QualifiedCall } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { OpenReview } from '../../../protocol/run-view.ts';
import type { JsonOpenItem } from '../data/request.ts';
import { describeShownEvent } from '../render/describe-event.ts';
import type { Folded } from './journal-fold.ts';
import type { ActivityKind } from './time-line.ts';

export type CallEvent = Extract<
  StoryEvent,
  { type: 'call.asked' | 'call.decided' | 'call.started' | 'call.suspended' | 'call.settled' | 'note' }
>;

type Told<Type extends CallEvent['type']> = Extract<CallEvent, { type: Type }>;

/** A call as the model made it at an entry, and the events of the story about it. */
export type CallRecord = { call: QualifiedCall; seq: number; told: CallEvent[] };

/** A tool call and all that happened to it. Times in ms since the epoch. */
export type CallFacts = QualifiedCall & {
  /** The chart's; `error`, `rejected`, `not run` or `dropped` without the tool's result; `unsettled` after the run. */
  status: string;
  /** The status in words for the waterfall; empty for a plain result. */
  outcome: string;
  /** What the call's time went to; `to` is `null` while it does. */
  spans: { kind: ActivityKind; from: number; to: number | null }[];
  starts: { at: number; attempt: number }[];
  settledAt: number | null;
  result: CallResult | null;
  decisions: { what: string; at: number; by?: string | undefined; reason?: string | undefined }[];
  edited: JsonValue | null;
  doubt: string | null;
  /** The idempotency key; set at the first start. */
  key: string | null;
  interrupted: boolean;
  childRunId: string | null;
  /** An outcome that arrived after the run had moved on. */
  late: { output: JsonValue; isError: boolean; contradicts: string | null } | null;
  open: Exclude<JsonOpenItem, OpenReview> | null;
  progress: unknown;
};

/** Where the state of a call is from: the fold at the cursor, and live progress by call id. */
export type CallSource = {
  folded: Folded;
  progress: ReadonlyMap<string, unknown>;
  isAtEnd: boolean;
};

export function factsAt({ call, told }: CallRecord, at: number, source: CallSource): CallFacts {
  const { folded, progress, isAtEnd } = source;
  const facts: CallFacts = {
    ...call,
    status: '',
    outcome: call.error === undefined ? '' : 'cannot run',
    spans: [],
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
  for (const one of told) if (one.seq <= at) addToCall(facts, one);
  const { context, state } = folded;
  const ended = state !== null && hasEnded(state);
  if (facts.status === '')
    facts.status = ended ? 'unsettled' : ((context && findCall(context, call.callId)?.status) ?? 'ready');
  if (!ended && context?.background.some(({ callId }) => callId === call.callId)) facts.status = 'background';
  if (!isAtEnd || facts.status === 'unsettled') facts.open = null;
  // People may have written in the run or approved the call since it was asked.
  const now = context && findCall(context, call.callId);
  if (facts.open !== null && now) facts.open = describeOpen(context, now) ?? facts.open;
  if (isAtEnd && facts.status === 'running') facts.progress = progress.get(call.callId) ?? null;
  return facts;
}

const ASKS = { approval: 'person', question: 'person', result: 'wait', doubt: 'doubt' } as const;

function addToCall(call: CallFacts, told: CallEvent): void {
  const { at } = told;
  switch (told.type) {
    case 'call.asked':
      call.open = told.open;
      if (told.open.kind === 'doubt') {
        call.doubt = told.open.reason ?? null;
        call.outcome = 'in doubt';
      }
      return spend(call, at, ASKS[told.open.kind]);
    case 'call.decided': {
      const { approved, reason, by, input, sticky } = told;
      const what = approved ? 'approved' : 'rejected';
      const always = sticky === true ? ', also for later calls' : '';
      call.decisions.push({ what: `${what}${always}`, at, by, reason });
      call.outcome = reason === undefined ? what : `${what}: ${reason}`;
      if (input !== undefined) call.edited = input;
      call.open = null;
      return spend(call, at, null);
    }
    case 'call.started':
      call.starts.push({ at, attempt: told.attempt });
      call.key = told.key;
      if (told.attempt > 1) call.outcome = `attempt ${told.attempt}`;
      return spend(call, at, 'tool');
    case 'call.suspended':
      call.childRunId = told.childRunId;
      call.outcome = 'sub-agent';
      return spend(call, at, 'wait');
    case 'call.settled':
      settle(call, told, call.open?.kind);
      call.open = null;
      return spend(call, at, null);
    case 'note':
      return addNote(call, told);
  }
}

function spend({ spans }: CallFacts, at: number, kind: ActivityKind | null): void {
  const last = spans.at(-1);
  if (last?.to === null && last.kind === kind) return;
  if (last?.to === null) last.to = at;
  if (kind !== null) spans.push({ kind, from: at, to: null });
}

const WITHOUT_RESULT: { readonly [By in SettledBy]?: string } = {
  denied: 'rejected',
  overtaken: 'not run',
  edit: 'dropped',
};

/** `asked`: what the call asked for when it was settled. */
function settle(call: CallFacts, told: Told<'call.settled'>, asked: JsonOpenItem['kind'] | undefined): void {
  const { at, by, who, isError, output } = told;
  call.settledAt = at;
  call.result = told.call.result ?? null;
  call.status = isError ? (WITHOUT_RESULT[by] ?? 'error') : 'settled';
  if (isError && by !== 'denied' && by !== 'refused') call.outcome = call.status;
  if (by === 'answer' || by === 'sub-agent') {
    if (asked === 'approval') call.outcome = 'answered';
    call.decisions.push({ what: isError ? 'answered with an error' : 'answered', at, by: who });
  }
  if (by !== 'resolved') return;
  const what = isError ? 'failed' : 'happened';
  const reason = isError ? String(output) : undefined;
  call.outcome = `in doubt, then ${what}`;
  call.decisions.push({ what: `recorded as ${what}`, at, by: who, reason });
  if (isError && call.late?.isError === false)
    call.late.contradicts = `${who ?? 'a person'} recorded that it failed: ${reason}`;
}

function addNote(call: CallFacts, { at, event }: Told<'note'>): void {
  switch (event.type) {
    case 'tool.interrupted':
      call.interrupted = true;
      call.outcome = 'interrupted';
      return spend(call, at, null);
    case 'doubt.resolved':
      // Other resolutions settle the call.
      call.open = null;
      call.outcome = 'in doubt, then retry';
      call.decisions.push({ what: 'retried', at, by: event.by });
      return spend(call, at, null);
    case 'call.judged':
      call.verdicts = [...(call.verdicts ?? []), ...event.verdicts];
      return;
    case 'question.asked':
      return void call.decisions.push({ what: describeShownEvent(event, () => 'asked'), at });
    case 'question.answered':
      return void call.decisions.push({ what: describeShownEvent(event, () => 'answered'), at });
    case 'tool.settled':
    case 'result.received':
      call.childRunId ??= event.answered?.runId ?? null;
      return;
    case 'message.received':
      return void call.decisions.push({ what: 'the outcome of its work arrived', at });
    case 'tool.late': {
      const { output, isError, contradicts = call.late?.contradicts ?? null } = event;
      call.late = { output, isError, contradicts };
      return;
    }
    case 'call.edited':
      return edit(call, event.call, at, event.by);
    case 'turn.edited':
      return edit(call, event.calls.find(({ callId }) => callId === call.callId) ?? call, at, event.by);
    default:
  }
}

function edit(call: CallFacts, edited: QualifiedCall, at: number, by: string | undefined): void {
  const without = { status: '', result: null, settledAt: null, open: null };
  Object.assign(call, edited, { input: call.input, edited: edited.input, ...without });
  call.decisions.push({ what: 'edited', at, by });
}
