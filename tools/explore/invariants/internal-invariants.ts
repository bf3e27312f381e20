import type { CallStatus, Context } from '../../../machines/context.ts';
import { pendingServices } from '../../../machines/snapshot.ts';
import { statePath } from '../../../machines/step.ts';
import type { Properties } from './built-in-invariant.ts';
import { findMisplacedCall } from './safety-invariants.ts';

/** How the chart's own works must fit together. The names are what a report says. */
export const INTERNAL_INVARIANTS: Properties = {
  'every call stands where the events put it': findMisplacedCall,

  'a settled call never changes, and the counters fit the calls': ({ before, after }) =>
    findChangedResult(before?.state.context, after.context) ?? checkCounters(after.context),

  'every service is stopped once, and what runs is what the state waits for': ({ after, reference }) => {
    const pending = Object.fromEntries(pendingServices(after).map(({ id, input }) => [id, input]));
    const [runs, waited] = [JSON.stringify(reference.running), JSON.stringify(pending)];
    if (reference.misuse.length > 0) return reference.misuse.join();
    return runs === waited ? null : `${runs} run, the state waits for ${waited}`;
  },

  'nothing runs at the end, and at rest nothing but the expiry timer': ({ after, reference }) => {
    const running = Object.keys(reference.running);
    if (running.includes('timer') !== (after.context.timer !== null))
      return 'a time is set and no timer runs';
    if (after.status !== 'active') return running.length === 0 ? null : `${running.join()} still runs`;
    if (!after.hasTag('rest')) return running.length === 1 ? null : `[${running.join()}] runs`;
    return running.every(id => id === 'timer') ? null : `${running.join()} runs at rest`;
  },

  'no call moves without a batch, but where the engine quarantined the run': ({ after }) => {
    const moving = after.context.calls.filter(({ status }) => BATCHED.has(status));
    const place = statePath(after);
    const expected = place === 'executingTools' || place === 'resting.paused' || after.status !== 'active';
    return moving.length === 0 || expected ? null : `${moving.length} calls are in no batch`;
  },

  'a run rests for what is open, and for nothing else': ({ after }) => {
    if (!after.hasTag('rest')) return null;
    const { calls, paused, cancelling } = after.context;
    const waits = (status: CallStatus) => calls.some(call => call.status === status);
    switch (statePath(after)) {
      case 'resting.inDoubt':
        return waits('doubted') && !waits('ready') ? null : 'no call is in doubt';
      case 'resting.awaitingApproval':
        return waits('gated') && !waits('doubted') && !waits('ready') ? null : 'no call needs approval';
      case 'resting.awaitingResults':
        return waits('waiting') && !waits('gated') && !waits('doubted') ? null : 'no call runs elsewhere';
      default:
        return paused || cancelling !== null ? null : 'nobody asked for a pause';
    }
  },

  'attempts and models are used up in order': ({ before, after: { context } }) => {
    const { attempt, model } = context.turn;
    if (attempt > context.config.attempts) return `attempt ${attempt} of ${context.config.attempts}`;
    if (model >= context.config.models.length) return `there is no model ${model}`;
    return model < (before?.state.context.turn.model ?? 0) ? 'the run went back to an earlier model' : null;
  },

  'time and generations never go back, and every start has a generation of its own': ({
    before,
    after,
    effects,
  }) => {
    if (before !== null && after.context.now < before.state.context.now) return 'time went back';
    const starts = effects.filter(effect => effect.type === 'start');
    const from = before?.state.context.generation ?? 0;
    if (after.context.generation !== from + starts.length) return 'a generation was skipped or used twice';
    return starts.every(({ input }) => input.generation > from) ? null : 'a start has an old generation';
  },

  'every decision is published with its reason': ({ before, after, effects }) => {
    const published = effects.flatMap(effect => (effect.type === 'publish' ? [effect.notice] : []));
    const decided = published.filter(notice => notice.type === 'decided');
    if (decided.some(({ next }) => next.why === '')) return 'a decision has no reason';
    const last = decided.at(-1)?.next;
    if (last !== undefined) return last === after.context.next ? null : 'another decision was published';
    return after.context.next === (before?.state.context.next ?? null)
      ? null
      : 'a decision was not published';
  },
};

const BATCHED: ReadonlySet<CallStatus> = new Set(['queued', 'running', 'reconciling']);

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

/** Names what JSON cannot carry, or `null`. */
export function findWhatIsNotJson(value: unknown, path: string): string | null {
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
