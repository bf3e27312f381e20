import type { CallStatus, Context } from '../../machines/context.ts';
import { pendingServices } from '../../machines/snapshot.ts';
import { statePath } from '../../machines/step.ts';
import type { BuiltInInvariants } from './built-in-invariant.ts';
import { findMisplacedCall } from './safety-invariants.ts';

/** How the chart's own data must fit together. The keys are the names in a report. */
export const INTERNAL_INVARIANTS: BuiltInInvariants = {
  'every call has the status that its events imply': findMisplacedCall,

  'a settled call never changes, and the counters match the calls': ({ before, after }) =>
    findChangedResult(before?.state.context, after.context) ?? checkCounters(after.context),

  'every service is stopped once, and the running services are those the state waits for': ({
    after,
    reference,
  }) => {
    const pending = Object.fromEntries(pendingServices(after).map(({ id, input }) => [id, input]));
    const [running, awaited] = [JSON.stringify(reference.running), JSON.stringify(pending)];
    if (reference.misuse.length > 0) return reference.misuse.join();
    return running === awaited ? null : `running: ${running}; the state waits for: ${awaited}`;
  },

  'nothing runs after the end, and only the expiry timer runs at rest': ({ after, reference }) => {
    const running = Object.keys(reference.running);
    if (running.includes('timer') !== (after.context.timer !== null))
      return 'the timer that runs does not match the time that is set';
    if (after.status !== 'active') return running.length === 0 ? null : `${running.join()} still runs`;
    if (!after.hasTag('rest'))
      return running.length === 1 ? null : `expected one running service, got [${running.join()}]`;
    return running.every(id => id === 'timer') ? null : `${running.join()} runs at rest`;
  },

  'no call is active outside a batch, unless the run was quarantined': ({ after }) => {
    const active = after.context.calls.filter(({ status }) => BATCHED.has(status));
    const place = statePath(after);
    const expected = place === 'executingTools' || place === 'resting.paused' || after.status !== 'active';
    return active.length === 0 || expected ? null : `${active.length} calls are in no batch`;
  },

  'a run rests only for open calls, a pause or a cancellation': ({ after }) => {
    if (!after.hasTag('rest')) return null;
    const { calls, paused, cancelling } = after.context;
    const waits = (status: CallStatus) => calls.some(call => call.status === status);
    switch (statePath(after)) {
      case 'resting.inDoubt':
        return waits('doubted') && !waits('ready') ? null : 'no call is in doubt';
      case 'resting.awaitingApproval':
        return waits('gated') && !waits('doubted') && !waits('ready') ? null : 'no call needs approval';
      case 'resting.awaitingResults':
        return waits('waiting') && !waits('gated') && !waits('doubted') ? null : 'no call waits for a result';
      default:
        return paused || cancelling !== null ? null : 'neither a pause nor a cancellation was requested';
    }
  },

  'attempts and models are used in order': ({ before, after: { context } }) => {
    const { attempt, model } = context.turn;
    if (attempt > context.config.attempts) return `attempt ${attempt} of ${context.config.attempts}`;
    if (model >= context.config.models.length) return `there is no model ${model}`;
    return model < (before?.state.context.turn.model ?? 0) ? 'the run returned to an earlier model' : null;
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
  if (calls.length > 0 && unsettled === 0) return 'a settled round was not ended';
  return unsettled === open && owed === batch ? null : `${unsettled} open, ${owed} in the batch`;
}

/** Returns the path and kind of a value that is not plain JSON, or `null`. */
export function findNonJson(value: unknown, path: string): string | null {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return null;
  if (typeof value === 'number') return Number.isFinite(value) ? null : `${path} is ${value}`;
  if (typeof value !== 'object') return `${path} is ${typeof value}`;
  const plain = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  if (!plain) return `${path} is a ${value.constructor.name}`;
  for (const [key, member] of Object.entries(value)) {
    const wrong = findNonJson(member, `${path}.${key}`);
    if (wrong !== null) return wrong;
  }
  return null;
}
