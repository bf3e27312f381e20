import type { Breakpoint } from '../../protocol/debugger/breakpoint.ts';
import type { Effect, NextAction } from '../../protocol/effect.ts';
import { findSpentLimit } from '../environment/spending.ts';
import type { ReferenceModel } from './reference-model.ts';

/** Applies a step's effects: updates the running services and records invalid starts and stops. */
export function followEffects(before: ReferenceModel, effects: readonly Effect[]): ReferenceModel {
  let reference = before;
  let decided: NextAction | null = null;
  for (const effect of effects) {
    switch (effect.type) {
      case 'publish':
        if (effect.notice.type === 'decided') decided = effect.notice.next;
        if (decided?.type === 'pause' && decided.breakpoint !== undefined)
          reference = { ...reference, paused: true, held: true };
        break;
      case 'stop':
        reference = stopService(reference, effect.id);
        break;
      case 'start':
        reference = startService(reference, effect, decided);
    }
  }
  return reference;
}

function stopService(reference: ReferenceModel, id: string): ReferenceModel {
  if (!(id in reference.running))
    return { ...reference, misuse: [...reference.misuse, `${id} was stopped and was not running`] };
  const { [id]: _, ...running } = reference.running;
  return { ...reference, running };
}

function startService(
  reference: ReferenceModel,
  { id, service, input }: Extract<Effect, { type: 'start' }>,
  decided: NextAction | null,
): ReferenceModel {
  const misuse =
    id in reference.running
      ? [...reference.misuse, `${id} was started and was already running`]
      : reference.misuse;
  const started = { ...reference, misuse, running: { ...reference.running, [id]: input } };
  if (service === 'timer' || decided === null) return started;
  const breakpoints = reference.breakpoints.filter(
    one => !(reference.held && one.once === true && matches(one, decided, reference)),
  );
  const begun = { ...started, unheld: findUnheld(reference, decided), breakpoints, held: false };
  switch (service) {
    case 'finishers':
      return spendStep(begun, 'finishers');
    case 'toolBatch': {
      const calls = begun.calls.map(call =>
        call.stage === 'ready' ? { ...call, stage: 'queued' as const } : call,
      );
      const spending = { ...begun.spending, activeSince: null };
      return spendStep({ ...begun, calls, spending }, 'a tool batch');
    }
    case 'modelTurn':
      return beginTurn(spendStep(begun, 'a model call'), decided);
  }
}

/**
 * The breakpoints that should have held this start. None if a person let it past, asked for this step, or it repeats a
 * turn that did not complete.
 */
function findUnheld(reference: ReferenceModel, decided: NextAction): string[] {
  const { breakpoints, continued, paused, steps, unfinished } = reference;
  if (continued || (paused && steps > 0)) return [];
  if (unfinished && decided.type !== 'executeTools') return [];
  return breakpoints
    .filter(one => matches(one, decided, reference))
    .map(({ id }) => `${decided.type} started at the breakpoint ${id}`);
}

/** Whether a breakpoint on an action and a tool alone matches the action. */
function matches(
  { next, tool, turn, costOver, where }: Breakpoint,
  decided: NextAction,
  { calls }: ReferenceModel,
): boolean {
  if (turn !== undefined || costOver !== undefined || where !== undefined) return false;
  const named = 'calls' in decided ? decided.calls : [];
  const isAbout = calls.some(({ call }) => call.name === tool && named.includes(call.callId));
  return (next === undefined || next === decided.type) && (tool === undefined || isAbout);
}

/** Once a limit is reached, only one model call may start: the closing call. */
function beginTurn(reference: ReferenceModel, decided: NextAction | null): ReferenceModel {
  const { config, spending, closing, unfinished } = reference;
  const isFinal = decided?.type === 'streamFinal';
  const isClosing = isFinal && decided.limit !== undefined;
  const reached = findSpentLimit(spending, config.limits);
  const overruns: string[] = [];
  if (closing === 'over') overruns.push('a model was called after the closing call');
  else if (reached !== null && !isClosing) overruns.push(`a model was called although ${reached}`);
  else if (reached !== null && config.onLimit === 'stop')
    overruns.push(`a closing call was made although ${reached} and onLimit is "stop"`);
  else if (closing === 'begun' && !unfinished) overruns.push('a second closing call was started');
  return {
    ...reference,
    overruns: [...reference.overruns, ...overruns],
    transcript:
      reference.inbox.length === 0 ? reference.transcript : [...reference.transcript, ...reference.inbox],
    inbox: [],
    shown: false,
    latest: null,
    final: isFinal,
    closing: isClosing ? 'begun' : closing,
  };
}

/** A paused run spends one requested step per service. */
function spendStep(reference: ReferenceModel, service: string): ReferenceModel {
  if (!reference.paused) return reference;
  if (reference.steps > 0) return { ...reference, steps: reference.steps - 1 };
  return { ...reference, unpaid: [...reference.unpaid, service] };
}
