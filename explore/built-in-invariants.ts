import { mayRunUnrecorded } from '../machines/calls.ts';
import type { Call, CallStatus } from '../machines/context.ts';
import { pendingServices } from '../machines/snapshot.ts';
import { type ChartState, type Step, statePath } from '../machines/step.ts';
import type { Effect, NextAction } from '../protocol/effect.ts';
import type { ChartEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { textOf } from '../protocol/message.ts';
import {
  type CheckedStep,
  type Expected,
  find,
  findIntruder,
  isForAnyone,
  type ReferenceModel,
} from './reference-model.ts';

/** Describes how a step breaks each invariant; nothing if it does not. The keys are the names in a report. */
type BuiltInInvariants = Readonly<Record<string, (step: CheckedStep) => string | false | null | undefined>>;

function startsTurn(effects: readonly Effect[]): boolean {
  return effects.some(effect => effect.type === 'start' && effect.service === 'modelTurn');
}

export function decisionsOf(effects: readonly Effect[]): NextAction[] {
  return effects.flatMap(effect =>
    effect.type === 'publish' && effect.notice.type === 'decided' ? [effect.notice.next] : [],
  );
}

/** The services that a state waits for with their inputs by id, as JSON. */
export function listPending(state: ChartState): string {
  return JSON.stringify(Object.fromEntries(pendingServices(state).map(({ id, input }) => [id, input])));
}

export function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** What users of a run rely on, checked against the reference model. */
export const SAFETY_INVARIANTS: BuiltInInvariants = {
  'a call that needs approval never proceeds without one': ({ before, event, after, reference }) => {
    if (event?.type === 'tool.started') {
      const called = before === null ? undefined : find(before.reference, event.callId);
      if (called === undefined) return `${event.callId} was started and is not an open call`;
      if (called.call.executedBy === 'client')
        return `${event.callId} was started and is a client tool's call`;
      if (called.call.gate && !called.approved)
        return `${called.call.name} (${event.callId}) was started without approval`;
    }
    const wrong = after.context.calls.find(({ callId, status }) => {
      const called = find(reference, callId);
      return called?.call.gate === true && !called.approved && ADMITTED.has(status);
    });
    return wrong && `${wrong.name} (${wrong.callId}) is ${wrong.status} without approval`;
  },

  'only those decide a call whom its approval allows: the starter or a sender never does, if it says so': ({
    before,
    event,
  }) => {
    const intruder = before === null || event === null ? null : findIntruder(event, before.reference);
    return intruder && `the decision of ${intruder} was accepted`;
  },

  'a call runs with its proposed input, or with the input edited on approval': ({ after, reference }) => {
    for (const { callId, name, input, digest } of after.context.calls) {
      const called = find(reference, callId);
      const actual = JSON.stringify([name, input, digest]);
      const expected = called && JSON.stringify([called.call.name, called.input, called.digest]);
      if (expected !== undefined && actual !== expected)
        return `expected ${callId} to be ${expected}, got ${actual}`;
    }
    return null;
  },

  'a call that asks runs again once its questions are answered, declined or expired, and not before': ({
    after,
    reference,
  }) => {
    const wrong = after.context.calls.find(({ callId, status, asked }) => {
      const open = find(reference, callId)?.asked?.questions ?? [];
      return (status === 'asking') !== (asked !== undefined) || (status === 'asking' && open.length === 0);
    });
    return (
      wrong &&
      `${wrong.name} (${wrong.callId}) is ${wrong.status}, with ${wrong.asked?.questions.length ?? 0} questions`
    );
  },

  'a decision counts once: for an open call, with the digest that was seen, before it expires': ({
    before,
    event,
  }) => {
    if (event?.type !== 'approval.decided' || before === null) return null;
    const { callId, decision, digest, at } = event;
    const decided = find(before.reference, callId);
    const accepted = `the decision to ${decision.type} ${callId} was accepted`;
    if (decided === undefined) return `${accepted}, but it is not an open call`;
    if (decided.stage !== 'gated') return `${accepted}, but it is already ${decided.stage}`;
    if (decided.digest !== digest) return `${accepted} for another digest`;
    const { expiresAt } = decided.call;
    return expiresAt !== undefined && at >= expiresAt && `${accepted} after it had expired`;
  },

  'a once call is started again only if it is known not to have happened': ({
    before,
    event,
    after,
    reference,
  }) => {
    if (event?.type === 'tool.started') {
      const called = before === null ? undefined : find(before.reference, event.callId);
      if (called?.call.sideEffect === 'once' && !called.mayStart && called.stage !== 'reconciling')
        return `${called.call.name} (${event.callId}) was started again`;
    }
    const wrong = after.context.calls.find(({ callId, status }) => {
      const called = find(reference, callId);
      const waits = status === 'ready' || status === 'queued';
      return called?.call.sideEffect === 'once' && waits && !called.mayStart;
    });
    return wrong && `${wrong.name} (${wrong.callId}) was started and is ${wrong.status} again`;
  },

  'a call that may run before its start is on disk is repeatable, unedited and needs no approval': ({
    after,
    reference,
  }) => {
    const unrecorded = after.context.calls.filter(call => call.status === 'queued' && mayRunUnrecorded(call));
    for (const { callId, name } of unrecorded) {
      const found = find(reference, callId);
      if (found === undefined) return `${callId} may run and is not an open call`;
      const { call, approved, starts, input } = found;
      const isRepeatable = call.sideEffect === 'none' && call.executedBy === 'engine';
      if (!isRepeatable || call.gate || approved || starts > 0 || !isSame(input, call.input))
        return `${name} (${callId}) may run before its start is on disk`;
    }
    return null;
  },

  'an answer under review is given only with the decisions that it needs': ({ after, reference }) => {
    const { review } = after.context;
    const expected = reference.review;
    if (expected === null)
      return review !== null && `${review.id} is under review, although it was decided or replaced`;
    if (review === null) return `${expected.id} is no longer under review, although no one decided`;
    if (statePath(after) === 'finished') return `the run finished while ${expected.id} is open`;
    const actual = JSON.stringify([review.digest, review.approvedBy ?? []]);
    const wanted = JSON.stringify([expected.digest, isForAnyone(expected.duties) ? [] : expected.approvals]);
    return actual !== wanted && `expected the review to stand at ${wanted}, got ${actual}`;
  },

  'an interrupted once call is reconciled or in doubt, unless it has kept how far it came': ({
    event,
    after,
    reference,
  }) => {
    if (event?.type !== 'tool.interrupted') return null;
    const called = find(reference, event.callId);
    // To start work in the background again finds the run that does it.
    if (called?.call.sideEffect !== 'once' || called.call.background === true || called.kept) return null;
    const status = statusOf(after.context.calls, event.callId);
    return status !== (called.stage === 'reconciling' ? 'reconciling' : 'doubted') && `it is ${status}`;
  },

  'every call has exactly one result, as reported, in call order, before the next model call and at the end':
    ({ after, effects, reference }) => {
      const expected = reference.transcript.filter(isResult);
      const actual = after.context.transcript.filter(isResult);
      const place = expected.findIndex((item, index) => !fits(item, actual[index]));
      if (place !== -1) return `expected ${describe(expected[place])}, found ${describe(actual[place])}`;
      if (actual.length > expected.length) return `${describe(actual[expected.length])} was never reported`;
      const open = after.context.calls.find(({ callId, result }) => {
        const reported = find(reference, callId)?.result ?? null;
        return reported !== null && !isSame(reported, result);
      });
      if (open !== undefined)
        return `${describe(find(reference, open.callId)?.result)} was reported for ${open.callId}, but ${describe(open.result)} is recorded`;
      const isDue = startsTurn(effects) || statePath(after) === 'finished';
      return isDue && findUnpairedCall(after.context.transcript);
    },

  'no message is lost or duplicated: it is in the transcript or in the inbox': ({ after, reference }) => {
    const { transcript, inbox } = after.context;
    for (const message of reference.messages) {
      const count = [...transcript, ...inbox].filter(item => isSame(item, message)).length;
      if (count !== 1) return `${describe(message)} is present ${count} times`;
    }
    return null;
  },

  'no limit is exceeded, except by one closing call': ({ after, reference, before, event }) => {
    const { limits } = reference.config;
    if (reference.overruns.length > 0) return reference.overruns.join('; ');
    const denied = after.context.calls.find(
      ({ callId, status }) => find(reference, callId)?.deniedFor !== undefined && status !== 'settled',
    );
    if (denied !== undefined)
      return `${denied.callId} was admitted although all ${limits.toolCalls} toolCalls were used`;
    const startedId = event?.type === 'tool.started' ? event.callId : undefined;
    if (startedId !== undefined && before && find(before.reference, startedId)?.deniedFor !== undefined)
      return `${startedId} was started although all ${limits.toolCalls} toolCalls were used`;
    const { turns, fromElsewhere } = reference.spending;
    const allowed = limits.turns + (reference.config.onLimit === 'answer' ? 1 : 0);
    return turns > allowed && fromElsewhere === 0 && `${turns} turns of ${limits.turns}`;
  },

  'a run finishes after the outcomes of its background work, unless a rule ends it': ({
    after,
    reference,
  }) => {
    const { background, isStopped } = reference;
    const isEarly = statePath(after) === 'finished' && background.length > 0 && !isStopped;
    return isEarly && `${background.map(({ callId }) => callId).join()} still works`;
  },

  'the answer of a sub-agent that has the conversation is the answer of the run, unless it is sent back': ({
    after,
    reference: { spokeOver, answeredBy },
  }) => {
    if (spokeOver) return 'the model was called again';
    const isAnswered = statePath(after) === 'finished' && after.context.answeredBy !== null;
    return isAnswered && answeredBy === null && 'the run ended with an answer that no sub-agent gave';
  },

  'a paused run starts only what its requested steps allow': ({ after, reference }) => {
    if (reference.unpaid.length > 0) return `${reference.unpaid.join()} was started while paused`;
    const { paused, steps } = after.context;
    if (after.status !== 'active') return null;
    if (paused !== reference.paused) return `the run is ${paused ? '' : 'not '}paused`;
    const isWrong = paused && steps !== reference.steps;
    return isWrong && `expected ${reference.steps} remaining steps, got ${steps}`;
  },

  'a breakpoint holds what it matches until a person continues': ({ after, reference }) => {
    if (reference.unheld.length > 0) return reference.unheld.join();
    if (after.status !== 'active') return null;
    const missing = reference.breakpoints.find(
      one => one.once !== true && !after.context.breakpoints.some(kept => isSame(one, kept)),
    );
    return missing && `the breakpoint ${missing.id} is gone`;
  },

  'a run that is being cancelled starts nothing': ({ before, effects }) => {
    if (before?.reference.cancelling !== true) return null;
    const begun = effects.find(effect => effect.type === 'start');
    return begun && `${begun.service} was started`;
  },

  'the transcript records what happened, in order': ({ after, reference }) => {
    const { transcript, inbox } = after.context;
    const place = reference.transcript.findIndex((item, index) => !fits(item, transcript[index]));
    if (place !== -1)
      return `at ${place}: expected ${describe(reference.transcript[place])}, found ${describe(transcript[place])}`;
    if (transcript.length > reference.transcript.length)
      return `${describe(transcript.at(-1))} did not happen`;
    const isRead = isSame(inbox, reference.inbox);
    return !isRead && `expected ${reference.inbox.length} unread messages, got ${inbox.length}`;
  },

  'text shown by a failed attempt is discarded before the run continues': ({ before, event, effects }) => {
    if (before?.reference.shown !== true || event?.type === 'turn.completed') return null;
    if (event?.type !== 'transcript.edited' && !startsTurn(effects)) return null;
    const isDiscarded = effects.some(
      effect => effect.type === 'publish' && effect.notice.type === 'text.discarded',
    );
    return !isDiscarded && 'no text.discarded was published';
  },

  'what was done is in the ledger, and a call that equals what was done before a compaction needs a decision':
    ({ after, reference }) => {
      const { fresh, past, counts } = after.context.ledger;
      for (const { callId, name, digest, failed, isPast } of reference.deeds) {
        const isRecorded = isPast
          ? (counts[name] ?? 0) > 0 && (failed || Object.hasOwn(past, digest.slice(0, 16)))
          : fresh.some(deed => deed.callId === callId && deed.digest === digest);
        if (!isRecorded) return `${name} (${callId}) is missing`;
      }
      const counted = Object.values(counts).reduce((sum, count) => sum + count, fresh.length);
      return (
        counted !== reference.deeds.length && `${counted} deeds of ${reference.deeds.length} are counted`
      );
    },

  'each request begins with the one before it unless its turn names a break, and no void reasoning is sent':
    ({ reference }) => reference.ungrown.join('; '),

  'a cancelled run lists the calls without a result': ({ after, reference }) => {
    if (statePath(after) !== 'cancelled') return null;
    const open = reference.calls.filter(({ stage }) => stage !== 'settled').map(({ call }) => call.callId);
    const known = after.context.calls
      .filter(({ status }) => status !== 'settled')
      .map(({ callId }) => callId);
    return !isSame(open, known) && `expected [${open}], got [${known}]`;
  },

  "the continuation is the latest turn's, and none after the transcript was edited": ({
    after,
    reference,
  }) => {
    const { continuation } = reference;
    const token = after.context.continuation?.token ?? null;
    return !isSame(token, continuation) && `expected ${describe(continuation)}, got ${describe(token)}`;
  },
};

const ADMITTED: ReadonlySet<CallStatus> = new Set(['ready', 'queued', 'running', 'reconciling', 'waiting']);

function statusOf(calls: readonly Call[], callId: string): CallStatus | 'gone' {
  return calls.find(call => call.callId === callId)?.status ?? 'gone';
}

function isResult(item: Expected): boolean {
  return 'refused' in item || ('type' in item && item.type === 'tool_result');
}

/** A refusal matches any error result with a text. */
function fits(expected: Expected | undefined, actual: Item | undefined): boolean {
  if (expected === undefined || actual === undefined) return expected === actual;
  if ('framed' in expected) return isFramed(actual, expected.framed);
  if ('noted' in expected)
    return (
      actual.type === 'message' && actual.role === 'developer' && textOf(actual).includes(expected.noted)
    );
  if (!('refused' in expected)) return isSame(expected, actual);
  if (actual.type !== 'tool_result' || actual.callId !== expected.refused) return false;
  return actual.isError && typeof actual.output === 'string' && actual.output !== '';
}

/** Whether the text stands in a message of the user's role, between tags that it cannot forge. */
function isFramed(item: Item, text: string): boolean {
  if (item.type !== 'message' || item.role !== 'user') return false;
  const framed = textOf(item);
  const [, tag = ''] = /^<(conversation-[a-z]+)>/.exec(framed) ?? [];
  const [end, ...others] = framed.split(`</${tag}>`).slice(1);
  return end === '' && others.length === 0 && (framed.includes(text) || text.includes('<'));
}

function describe(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'refused' in value)
    return `a refusal of ${value.refused}`;
  return value === undefined ? 'nothing' : JSON.stringify(value);
}

/** Checks that each result follows its call, with no messages in between except the assistant's. */
function findUnpairedCall(transcript: readonly Item[]): string | null {
  const owed: string[] = [];
  for (const item of transcript) {
    if (item.type === 'tool_call') owed.push(item.callId);
    else if (item.type === 'tool_result') {
      const callId = owed.shift();
      if (callId !== item.callId) return `found the result of ${item.callId}, expected that of ${callId}`;
    } else if (item.type === 'message' && item.role !== 'assistant' && owed.length > 0) {
      return `there is a message between ${owed.join()} and its result`;
    }
  }
  return owed.length === 0 ? null : `${owed.join()} has no result`;
}

/** How the chart's own data must fit together. */
export const INTERNAL_INVARIANTS: BuiltInInvariants = {
  'every call has the status that its events imply': ({ after, reference }) => {
    const { calls } = after.context;
    for (const { call, stage } of reference.calls) {
      const status = statusOf(calls, call.callId);
      if (status !== stage) return `expected ${call.callId} to be ${stage}, got ${status}`;
    }
    const { length } = reference.calls;
    return calls.length !== length && `expected ${length} calls, got ${calls.length}`;
  },

  'a settled call never changes, and the counters match the calls': ({ before, after: { context } }) => {
    const { calls, open, batch } = context;
    const settled = before?.state.context.calls.filter(({ status }) => status === 'settled') ?? [];
    const changed = calls.length > 0 && settled.find(call => !calls.includes(call));
    if (changed) return `${changed.callId} changed after it was settled`;
    const unsettled = calls.filter(({ status }) => status !== 'settled').length;
    const owed = calls.filter(({ status }) => BATCHED.has(status)).length;
    if (calls.length > 0 && unsettled === 0) return 'a settled round was not ended';
    return (unsettled !== open || owed !== batch) && `${unsettled} open, ${owed} in the batch`;
  },

  'every service is stopped once, and the running services are those the state waits for': ({
    after,
    reference,
  }) => {
    const [running, awaited] = [JSON.stringify(reference.running), listPending(after)];
    if (reference.misuse.length > 0) return reference.misuse.join();
    return running !== awaited && `running: ${running}; the state waits for: ${awaited}`;
  },

  'nothing runs after the end, and only the expiry timer runs at rest': ({ after, reference }) => {
    const running = Object.keys(reference.running);
    if (running.includes('timer') !== (after.context.timer !== null))
      return 'the timer that runs does not match the time that is set';
    if (after.status !== 'active') return running.length > 0 && `${running.join()} still runs`;
    if (!after.hasTag('rest'))
      return running.length !== 1 && `expected one running service, got [${running.join()}]`;
    return running.some(id => id !== 'timer') && `${running.join()} runs at rest`;
  },

  'no call is active outside a batch, unless the run was quarantined': ({ after }) => {
    const active = after.context.calls.filter(({ status }) => BATCHED.has(status));
    const place = statePath(after);
    const expected =
      place === 'executingTools' ||
      place === 'resting.paused' ||
      place === 'resting.awaitingSignIn' ||
      after.status !== 'active';
    return active.length > 0 && !expected && `${active.length} calls are in no batch`;
  },

  'a run rests only for open calls, a review, a pause or a cancellation': ({ after }) => {
    if (!after.hasTag('rest')) return null;
    const { calls, paused, cancelling } = after.context;
    const waits = (status: CallStatus) => calls.some(call => call.status === status);
    switch (statePath(after)) {
      case 'resting.inDoubt':
        return (!waits('doubted') || waits('ready')) && 'no call is in doubt';
      case 'resting.awaitingApproval':
        return (!waits('gated') || waits('doubted') || waits('ready')) && 'no call needs approval';
      case 'resting.awaitingReview':
        return (after.context.review === null || calls.length > 0) && 'no answer waits for a review';
      case 'resting.awaitingSignIn':
        return after.context.signIns.length === 0 && 'no one has to sign in';
      case 'resting.awaitingAnswers':
        return (!waits('asking') || waits('gated') || waits('doubted')) && 'no tool asks';
      case 'resting.awaitingResults':
        if (after.context.background.length > 0 && calls.length === 0) return null;
        return (
          (!waits('waiting') || waits('gated') || waits('doubted') || waits('asking')) &&
          'no call waits for a result'
        );
      default:
        return !paused && cancelling === null && 'neither a pause nor a cancellation was requested';
    }
  },

  'attempts and models are used in order': ({ before, after: { context } }) => {
    const { attempt, model } = context.turn;
    if (attempt > context.config.attempts) return `attempt ${attempt} of ${context.config.attempts}`;
    if (model >= context.config.models.length) return `there is no model ${model}`;
    return model < (before?.state.context.turn.model ?? 0) && 'the run returned to an earlier model';
  },

  'time and generations never decrease, and every start has its own generation': ({
    before,
    after,
    effects,
  }) => {
    if (before !== null && after.context.now < before.state.context.now) return 'time decreased';
    const starts = effects.filter(effect => effect.type === 'start');
    const from = before?.state.context.generation ?? 0;
    if (after.context.generation !== from + starts.length) return 'a generation was skipped or used twice';
    return starts.some(({ input }) => input.generation <= from) && 'a start has an old generation';
  },

  'every decision is published with its reason': ({ before, after, effects }) => {
    const decided = decisionsOf(effects);
    if (decided.some(({ why }) => why === '')) return 'a decision has no reason';
    const last = decided.at(-1);
    if (last !== undefined) return last !== after.context.next && 'another decision was published';
    return after.context.next !== (before?.state.context.next ?? null) && 'a decision was not published';
  },
};

const BATCHED: ReadonlySet<CallStatus> = new Set(['queued', 'running', 'reconciling']);

/** The names of the invariants that the explorer itself checks. */
const EXACT_EVENTS = 'every valid event is accepted, and every invalid one is ignored';
const NO_STALE_REPORT = 'a report from an older start is ignored';
const ENDED = 'a run that has ended accepts no event';
export const NO_SILENT_CHANGE = 'an ignored event changes nothing and has no effects';
export const RESTORABLE = 'a run restored from its JSON at any point continues as if uninterrupted';
export const JSON_ONLY = 'the state of the chart is plain JSON';
export const STEPS_COMPLETE = 'every step completes: none throws or loops forever';

export const BUILT_IN: readonly string[] = [
  ...Object.keys(SAFETY_INVARIANTS),
  ...Object.keys(INTERNAL_INVARIANTS),
  ...[EXACT_EVENTS, NO_STALE_REPORT, ENDED, NO_SILENT_CHANGE, JSON_ONLY, RESTORABLE, STEPS_COMPLETE],
];

/** Names the invariant that an event broke by being accepted, or by being ignored. */
export function nameMismatch(
  { state, reference }: { state: ChartState; reference: ReferenceModel },
  event: ChartEvent,
  { handled }: Step,
): string {
  if (state.status !== 'active') return ENDED;
  const current = Object.values(reference.running).map(({ generation }) => generation);
  return handled && 'generation' in event && !current.includes(event.generation)
    ? NO_STALE_REPORT
    : EXACT_EVENTS;
}
