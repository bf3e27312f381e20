import type { CallStatus, Context } from '../../machines/context.ts';
import { pendingServices } from '../../machines/snapshot.ts';
import type { ChartState } from '../../machines/step.ts';
import type { Effect } from '../../protocol/effect.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { placeOf } from './builders.ts';
import type { History } from './history.ts';

/** A step that was taken, or the start of a run, when there is no `before`. */
export type Taken = {
  before: ChartState | null;
  event: ChartEvent | null;
  after: ChartState;
  effects: readonly Effect[];
  history: History;
};

/** Says what is wrong with a step, or `null`. */
export type Property = (taken: Taken) => string | null;

/** What holds at every step of every run. The names are those of the tests. */
export const RUN_PROPERTIES: Readonly<Record<string, Property>> = {
  'every call has exactly one result, in call order, before the next model call and at the end': ({
    after,
    effects,
  }) =>
    startsService(effects, 'modelTurn') || placeOf(after) === 'finished'
      ? findUnpairedCall(after.context.transcript)
      : null,

  'the transcript only grows, at its end or where an edited round ends, unless somebody edits it': ({
    before,
    event,
    after,
  }) => {
    if (event?.type === 'transcript.edited') return null;
    const earlier = before?.context.transcript ?? [];
    const places = earlier.map(item => after.context.transcript.indexOf(item));
    const inserted = (before?.context.resultsAt ?? null) !== null;
    const kept = places.every((place, index) =>
      inserted ? place > (places[index - 1] ?? -1) : place === index,
    );
    return kept ? null : 'an item was changed, moved or removed';
  },

  'a settled call never changes, and the counters fit the calls': ({ before, after }) =>
    findChangedResult(before?.context, after.context) ?? checkCounters(after.context),

  'no gated call is started unless somebody approved it': ({ before, event, history }) => {
    if (event?.type !== 'tool.started') return null;
    const call = before?.context.calls.find(({ callId }) => callId === event.callId);
    if (call === undefined) return `${event.callId} is no call of this round`;
    if (call.executedBy === 'client') return `${call.callId} is for the client to run`;
    const approved = history.approvedCalls.includes(call.callId) || history.approvedTools.includes(call.name);
    return !call.gate || approved ? null : `${call.callId} was not approved`;
  },

  'no limit is passed but by the one closing call': ({ after: { context }, history }) => {
    const { turns, toolCalls } = context.config.limits;
    const overrun = context.turns - turns;
    if (overrun > (context.config.onLimit === 'answer' ? 1 : 0)) return `${context.turns} of ${turns} turns`;
    if (overrun === 1 && context.closing === null) return 'the turn over the limit was no closing call';
    if (context.toolCalls > toolCalls) return `${context.toolCalls} of ${toolCalls} tool calls`;
    return history.started.length > toolCalls ? `${history.started.length} calls were started` : null;
  },

  'no message is lost or doubled: it is in the transcript or in the inbox': ({ after, history }) => {
    const kept = new Map<string, number>();
    for (const item of [...after.context.transcript, ...after.context.inbox]) {
      const text = JSON.stringify([item]);
      kept.set(text, (kept.get(text) ?? 0) + 1);
    }
    const wrong = history.messages.find(message => kept.get(message) !== 1);
    return wrong === undefined ? null : `${wrong} is there ${kept.get(wrong) ?? 0} times`;
  },

  'every service is stopped once, and what runs is what the state waits for': ({ after, history }) => {
    const pending = Object.fromEntries(pendingServices(after).map(({ id, input }) => [id, input]));
    const [runs, waited] = [JSON.stringify(history.running), JSON.stringify(pending)];
    if (history.misuse.length > 0) return history.misuse.join();
    return runs === waited ? null : `${runs} run, the state waits for ${waited}`;
  },

  'nothing runs at the end, and at rest nothing but the expiry timer': ({ after, history }) => {
    const running = Object.keys(history.running);
    if (running.includes('timer') !== (after.context.timer !== null))
      return 'a time is set and no timer runs';
    if (after.status !== 'active') return running.length === 0 ? null : `${running.join()} still runs`;
    if (!after.hasTag('rest')) return running.length === 1 ? null : `[${running.join()}] runs`;
    return running.every(id => id === 'timer') ? null : `${running.join()} runs at rest`;
  },

  'one batch runs at a time, and no call moves without it': ({ after, effects }) => {
    const acting = after.context.calls.filter(
      ({ status }) => status === 'running' || status === 'reconciling',
    );
    if (startsService(effects, 'toolBatch') && acting.length > 0) return 'a second batch was started';
    const moving = after.context.calls.filter(({ status }) => BATCHED.has(status));
    const expected = placeOf(after) === 'executingTools' || after.status !== 'active';
    return moving.length === 0 || expected ? null : `${moving.length} calls are in no batch`;
  },

  'a run that is paused spends nothing but the steps it was given': ({ before, event, after, effects }) => {
    const spends = (['modelTurn', 'toolBatch', 'finishers'] as const).some(service =>
      startsService(effects, service),
    );
    if (!after.context.paused || !spends) return null;
    const given = (before?.context.steps ?? 0) + (event?.type === 'step.requested' ? 1 : 0);
    return given === after.context.steps + 1 ? null : `${given} steps were left`;
  },

  'a run rests for what is open, and for nothing else': ({ after }) => {
    if (!after.hasTag('rest')) return null;
    const { calls, paused } = after.context;
    const waits = (status: CallStatus) => calls.some(call => call.status === status);
    switch (placeOf(after)) {
      case 'resting.inDoubt':
        return waits('doubted') && !waits('ready') ? null : 'no call is in doubt';
      case 'resting.awaitingApproval':
        return waits('gated') && !waits('doubted') && !waits('ready') ? null : 'no call needs approval';
      case 'resting.awaitingResults':
        return waits('waiting') && !waits('gated') && !waits('doubted') ? null : 'no call runs elsewhere';
      default:
        return paused ? null : 'nobody asked for a pause';
    }
  },

  'attempts and models are used up in order': ({ before, after: { context } }) => {
    const { attempt, model } = context.turn;
    if (attempt > context.config.attempts) return `attempt ${attempt} of ${context.config.attempts}`;
    if (model >= context.config.models.length) return `there is no model ${model}`;
    return model < (before?.context.turn.model ?? 0) ? 'the run went back to an earlier model' : null;
  },

  'time and generations never go back, and every start has a generation of its own': ({
    before,
    after,
    effects,
  }) => {
    if (before !== null && after.context.now < before.context.now) return 'time went back';
    const starts = effects.filter(effect => effect.type === 'start');
    const from = before?.context.generation ?? 0;
    if (after.context.generation !== from + starts.length) return 'a generation was skipped or used twice';
    return starts.every(({ input }) => input.generation > from) ? null : 'a start has an old generation';
  },

  'every decision is published with its reason': ({ after, effects }) => {
    const published = effects.flatMap(effect => (effect.type === 'publish' ? [effect.notice] : []));
    const decided = published.filter(notice => notice.type === 'decided');
    if (decided.some(({ next }) => next.why === '')) return 'a decision has no reason';
    const last = decided.at(-1);
    return last === undefined || last.next === after.context.next ? null : 'another decision was published';
  },

  'everything the chart knows is JSON': ({ before, after }) => {
    const known = new Set<unknown>(Object.values(before?.context ?? {}));
    const changed = Object.entries(after.context).filter(([, value]) => !known.has(value));
    return findWhatIsNotJson(Object.fromEntries(changed), 'context');
  },
};

const BATCHED: ReadonlySet<CallStatus> = new Set(['queued', 'running', 'reconciling']);

function startsService(
  effects: readonly Effect[],
  service: Extract<Effect, { type: 'start' }>['service'],
): boolean {
  return effects.some(effect => effect.type === 'start' && effect.service === service);
}

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

function findChangedResult(before: Context | undefined, { calls }: Context): string | null {
  if (calls.length === 0) return null;
  const settled = before?.calls.filter(({ status }) => status === 'settled') ?? [];
  const changed = settled.find(call => !calls.includes(call));
  return changed === undefined ? null : `${changed.callId} changed after it was settled`;
}

function checkCounters({ calls, open, batch }: Context): string | null {
  const unsettled = calls.filter(({ status }) => status !== 'settled').length;
  const owed = calls.filter(({ status }) => BATCHED.has(status)).length;
  if (calls.length > 0 && unsettled === 0) return 'a settled round is still there';
  return unsettled === open && owed === batch ? null : `${unsettled} open, ${owed} in the batch`;
}

function findWhatIsNotJson(value: unknown, path: string): string | null {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return null;
  if (typeof value === 'number') return Number.isFinite(value) ? null : `${path} is ${value}`;
  if (typeof value !== 'object') return `${path} is ${typeof value}`;
  const plain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  if (!plain) return `${path} is a ${value.constructor.name}`;
  for (const [key, member] of Object.entries(value)) {
    const wrong = findWhatIsNotJson(member, `${path}.${key}`);
    if (wrong !== null) return wrong;
  }
  return null;
}
