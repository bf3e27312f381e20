import { mayRunUnrecorded } from '../../../machines/calls.ts';
import type { Call, CallStatus } from '../../../machines/context.ts';
import { statePath } from '../../../machines/step.ts';
import type { Item } from '../../../protocol/item.ts';
import { find } from '../reference/reference-calls.ts';
import type { Expected, ReferenceCall } from '../reference/reference-model.ts';
import { isSame, type Properties, startsService, type Taken } from './built-in-invariant.ts';

/** What a run promises to those who rely on it, held against the reference of its events. The names are what a report says. */
export const SAFETY_INVARIANTS: Properties = {
  'a call that needs approval is never let through before somebody approved it': ({
    before,
    event,
    after,
    reference,
  }) => {
    if (event?.type === 'tool.started') {
      const called = before === null ? undefined : find(before.reference, event.callId);
      if (called === undefined) return `${event.callId} was started and is no open call`;
      if (called.call.executedBy === 'client')
        return `${event.callId} was started and is for the client to run`;
      if (called.call.gate && !called.approved)
        return `${called.call.name} (${event.callId}) was started without approval`;
    }
    const wrong = after.context.calls.find(({ callId, status }) => {
      const called = find(reference, callId);
      return called?.call.gate === true && !called.approved && LET_THROUGH.has(status);
    });
    return wrong === undefined ? null : `${wrong.name} (${wrong.callId}) is ${wrong.status} without approval`;
  },

  'a call runs as it was proposed, or as the person who approved it changed it': ({ after, reference }) => {
    for (const { callId, name, input, digest } of after.context.calls) {
      const called = find(reference, callId);
      if (called === undefined) continue;
      const [is, must] = [
        [name, input, digest],
        [called.call.name, called.input, called.digest],
      ].map(parts => JSON.stringify(parts));
      if (is !== must) return `${callId} is ${is}, and should be ${must}`;
    }
    return null;
  },

  'a decision counts once: for the open call, as it was seen, before it expires': ({ before, event }) => {
    if (event?.type !== 'approval.decided' || before === null) return null;
    const { callId, decision, digest, at } = event;
    const decided = find(before.reference, callId);
    const what = `to ${decision.type} ${callId} was taken`;
    if (decided === undefined) return `${what}, and it is no open call`;
    if (decided.stage !== 'gated') return `${what}, and it is ${decided.stage} already`;
    if (decided.digest !== digest) return `${what} for another digest`;
    const { expiresAt } = decided.call;
    return expiresAt === undefined || at < expiresAt ? null : `${what} after it had expired`;
  },

  'a call that must not happen twice is started twice only where somebody said it did not happen': ({
    before,
    event,
    after,
    reference,
  }) => {
    if (event?.type === 'tool.started') {
      const called = before === null ? undefined : find(before.reference, event.callId);
      if (called?.call.sideEffect === 'once' && !called.mayStart && called.stage !== 'asking')
        return `${called.call.name} (${event.callId}) was started again`;
    }
    const wrong = after.context.calls.find(({ callId, status }) => {
      const called = find(reference, callId);
      const waits = status === 'ready' || status === 'queued';
      return called?.call.sideEffect === 'once' && waits && !called.mayStart;
    });
    return wrong === undefined
      ? null
      : `${wrong.name} (${wrong.callId}) was started and is ${wrong.status} again`;
  },

  'a call that runs with nothing on disk may run again, unchanged, and nobody had to allow it': ({
    after,
    reference,
  }) => {
    const ahead = after.context.calls.filter(call => call.status === 'queued' && mayRunUnrecorded(call));
    for (const { callId, name } of ahead) {
      const found = find(reference, callId);
      if (found === undefined) return `${callId} may run, and is no open call`;
      const { call, approved, starts, input } = found;
      const isHarmless = call.sideEffect === 'none' && call.executedBy === 'engine';
      if (!isHarmless || call.gate || approved || starts > 0 || !isSame(input, call.input))
        return `${name} (${callId}) may run before the disk knows of it`;
    }
    return null;
  },

  'an interrupted call that must not happen twice is asked about or in doubt': ({
    event,
    after,
    reference,
  }) => {
    if (event?.type !== 'tool.interrupted') return null;
    const called = find(reference, event.callId);
    if (called?.call.sideEffect !== 'once') return null;
    const status = statusOf(after.context.calls, event.callId);
    return status === (called.stage === 'asking' ? 'reconciling' : 'doubted') ? null : `it is ${status}`;
  },

  'every call has exactly one result, the one that was reported, in call order, before the next model call and at the end':
    ({ after, effects, reference }) => {
      const expected = reference.transcript.filter(isResult);
      const actual = after.context.transcript.filter(isResult);
      const place = expected.findIndex((item, index) => !fits(item, actual[index]));
      if (place !== -1) return `expected ${describe(expected[place])}, found ${describe(actual[place])}`;
      if (actual.length > expected.length) return `nobody reported ${describe(actual[expected.length])}`;
      const open = after.context.calls.find(({ callId, result }) => {
        const reported = find(reference, callId)?.result ?? null;
        return reported !== null && !isSame(reported, result);
      });
      if (open !== undefined) {
        return `${describe(find(reference, open.callId)?.result)} was reported for ${open.callId}, and ${describe(open.result)} is kept`;
      }
      if (!startsService(effects, 'modelTurn') && statePath(after) !== 'finished') return null;
      return findUnpairedCall(after.context.transcript);
    },

  'no message is lost or doubled: it is in the transcript or waits to be read': ({ after, reference }) => {
    const { transcript, inbox } = after.context;
    for (const message of reference.messages) {
      const there = countAlike(transcript, message) + countAlike(inbox, message);
      if (there !== 1) return `${describe(message)} is there ${there} times`;
    }
    return null;
  },

  'no limit is passed but by the one closing call': ({ after, reference, before, event }) => {
    const { limits } = reference.config;
    if (reference.overruns.length > 0) return reference.overruns.join('; ');
    const denied = after.context.calls.find(
      ({ callId, status }) => find(reference, callId)?.deniedFor !== undefined && status !== 'settled',
    );
    if (denied !== undefined)
      return `${denied.callId} was let through, and toolCalls were used up: ${limits.toolCalls}`;
    if (
      event?.type === 'tool.started' &&
      before !== null &&
      find(before.reference, event.callId)?.deniedFor !== undefined
    )
      return `${event.callId} was started, and toolCalls were used up: ${limits.toolCalls}`;
    const overrun = reference.spending.turns - limits.turns;
    const allowed = reference.config.onLimit === 'answer' ? 1 : 0;
    return overrun > allowed && reference.spending.fromElsewhere === 0
      ? `${reference.spending.turns} turns of ${limits.turns}`
      : null;
  },

  'a run that is paused spends nothing but the steps it was given': ({ after, reference }) => {
    if (reference.unpaid.length > 0) return `${reference.unpaid.join()} was started while paused`;
    const { paused, steps } = after.context;
    if (after.status !== 'active') return null;
    if (paused !== reference.paused) return `it is ${paused ? '' : 'not '}paused`;
    return !paused || steps === reference.steps ? null : `${reference.steps} steps are left, not ${steps}`;
  },

  'a run that is being cancelled begins nothing more': ({ before, effects }) => {
    if (before?.reference.cancelling !== true) return null;
    const begun = effects.find(effect => effect.type === 'start');
    return begun === undefined ? null : `${begun.service} was started`;
  },

  'the transcript is what happened, in order': ({ after, reference }) => {
    const { transcript, inbox } = after.context;
    const place = reference.transcript.findIndex((item, index) => !fits(item, transcript[index]));
    if (place !== -1)
      return `at ${place}: expected ${describe(reference.transcript[place])}, found ${describe(transcript[place])}`;
    if (transcript.length > reference.transcript.length)
      return `${describe(transcript.at(-1))} did not happen`;
    return isSame(inbox, reference.inbox)
      ? null
      : `${inbox.length} messages are unread, and should be ${reference.inbox.length}`;
  },

  'what a reader saw of an attempt that came to nothing is taken back before anything follows': ({
    before,
    event,
    effects,
  }) => {
    if (before?.reference.shown !== true || event?.type === 'turn.completed') return null;
    if (event?.type !== 'transcript.edited' && !startsService(effects, 'modelTurn')) return null;
    const isTold = effects.some(
      effect => effect.type === 'publish' && effect.notice.type === 'text.discarded',
    );
    return isTold ? null : 'no text.discarded was published';
  },

  'a cancelled run knows which calls have no result': ({ after, reference }) => {
    if (statePath(after) !== 'cancelled') return null;
    const open = reference.calls.filter(({ stage }) => stage !== 'settled').map(({ call }) => call.callId);
    const known = after.context.calls
      .filter(({ status }) => status !== 'settled')
      .map(({ callId }) => callId);
    return isSame(open, known) ? null : `[${open}] have none, and it knows of [${known}]`;
  },

  "the provider's continuation is that of the latest turn, and none once the transcript was edited": ({
    after,
    reference,
  }) => {
    const token = after.context.continuation?.token ?? null;
    return isSame(token, reference.continuation)
      ? null
      : `it is ${describe(token)}, and should be ${describe(reference.continuation)}`;
  },
};

const LET_THROUGH: ReadonlySet<CallStatus> = new Set([
  'ready',
  'queued',
  'running',
  'reconciling',
  'waiting',
]);

function statusOf(calls: readonly Call[], callId: string): CallStatus | 'gone' {
  return calls.find(call => call.callId === callId)?.status ?? 'gone';
}

function isResult(item: Expected): boolean {
  return 'refused' in item || item.type === 'tool_result';
}

/** A refusal is an error, in words of the chart's own. */
function fits(expected: Expected | undefined, actual: Item | undefined): boolean {
  if (expected === undefined || actual === undefined) return expected === actual;
  if (!('refused' in expected)) return isSame(expected, actual);
  if (actual.type !== 'tool_result' || actual.callId !== expected.refused) return false;
  return actual.isError && typeof actual.output === 'string' && actual.output !== '';
}

function countAlike(items: readonly Item[], message: Item): number {
  return items.filter(item => isSame(item, message)).length;
}

function describe(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'refused' in value)
    return `a refusal of ${value.refused}`;
  return value === undefined ? 'nothing' : JSON.stringify(value);
}

/** A result follows its call before anybody else but the model speaks. */
function findUnpairedCall(transcript: readonly Item[]): string | null {
  const owed: string[] = [];
  for (const item of transcript) {
    if (item.type === 'tool_call') owed.push(item.callId);
    else if (item.type === 'tool_result') {
      const callId = owed.shift();
      if (callId !== item.callId) return `the result of ${item.callId} stands where ${callId}'s belongs`;
    } else if (item.type === 'message' && item.role !== 'assistant' && owed.length > 0) {
      return `a message stands between ${owed.join()} and its result`;
    }
  }
  return owed.length === 0 ? null : `${owed.join()} has no result`;
}

/** Where the events put a call, as the chart has it. */
const STATUSES: Readonly<Record<ReferenceCall['stage'], CallStatus>> = {
  gated: 'gated',
  ready: 'ready',
  queued: 'queued',
  running: 'running',
  asking: 'reconciling',
  away: 'waiting',
  doubted: 'doubted',
  settled: 'settled',
};

/** The calls of the round, each where the events put it. */
export function findMisplacedCall({ after, reference }: Taken): string | null {
  const { calls } = after.context;
  const wrong = reference.calls.find(({ call, stage }) => statusOf(calls, call.callId) !== STATUSES[stage]);
  if (wrong !== undefined) {
    return `${wrong.call.callId} is ${statusOf(calls, wrong.call.callId)}, and should be ${STATUSES[wrong.stage]}`;
  }
  return calls.length === reference.calls.length
    ? null
    : `there are ${calls.length} calls, and should be ${reference.calls.length}`;
}
