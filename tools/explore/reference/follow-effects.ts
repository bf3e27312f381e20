import type { Effect, NextAction } from '../../../protocol/effect.ts';
import { findSpentLimit } from '../environment/spending.ts';
import type { ReferenceModel } from './reference-model.ts';

/** What runs after these effects, and what must not have been started: beyond a limit, or while paused. */
export function followEffects(before: ReferenceModel, effects: readonly Effect[]): ReferenceModel {
  let reference = before;
  let decided: NextAction | null = null;
  for (const effect of effects) {
    switch (effect.type) {
      case 'publish':
        if (effect.notice.type === 'decided') decided = effect.notice.next;
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
    return { ...reference, misuse: [...reference.misuse, `${id} was stopped and is not running`] };
  const { [id]: _, ...running } = reference.running;
  return { ...reference, running };
}

function startService(
  reference: ReferenceModel,
  { id, service, input }: Extract<Effect, { type: 'start' }>,
  decided: NextAction | null,
): ReferenceModel {
  const misuse =
    id in reference.running ? [...reference.misuse, `${id} was started and is running`] : reference.misuse;
  const begun = { ...reference, misuse, running: { ...reference.running, [id]: input } };
  switch (service) {
    case 'timer':
      return begun;
    case 'finishers':
      return spendStep(begun, 'the finishers');
    case 'toolBatch': {
      const calls = begun.calls.map(call =>
        call.stage === 'ready' ? { ...call, stage: 'queued' as const } : call,
      );
      const spending = { ...begun.spending, activeSince: null };
      return spendStep({ ...begun, calls, spending }, 'a batch of tools');
    }
    case 'modelTurn':
      return beginTurn(spendStep(begun, 'a model call'), decided);
  }
}

/** Beyond a limit only one call may begin: the closing one. */
function beginTurn(reference: ReferenceModel, decided: NextAction | null): ReferenceModel {
  const { config, spending, closing, unfinished } = reference;
  const isFinal = decided?.type === 'streamFinal';
  const closes = isFinal && decided.limit !== undefined;
  const reached = findSpentLimit(spending, config.limits);
  const overruns: string[] = [];
  if (closing === 'over') overruns.push('a model was called after the closing call');
  else if (reached !== null && !closes) overruns.push(`a model was called, and ${reached}`);
  else if (reached !== null && config.onLimit === 'stop')
    overruns.push(`a closing call was made, and ${reached}`);
  else if (closing === 'begun' && !unfinished) overruns.push('a second closing call was begun');
  return {
    ...reference,
    overruns: [...reference.overruns, ...overruns],
    transcript:
      reference.inbox.length === 0 ? reference.transcript : [...reference.transcript, ...reference.inbox],
    inbox: [],
    shown: false,
    final: isFinal,
    closing: closes ? 'begun' : closing,
  };
}

function spendStep(reference: ReferenceModel, what: string): ReferenceModel {
  if (!reference.paused) return reference;
  if (reference.steps > 0) return { ...reference, steps: reference.steps - 1 };
  return { ...reference, unpaid: [...reference.unpaid, what] };
}
