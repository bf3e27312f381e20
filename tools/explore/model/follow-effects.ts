import type { Effect, NextAction } from '../../../protocol/effect.ts';
import { findSpentLimit } from '../environment/spending.ts';
import type { Ledger } from './ledger.ts';

/** What runs after these effects, and what must not have been started: beyond a limit, or while paused. */
export function followEffects(before: Ledger, effects: readonly Effect[]): Ledger {
  let ledger = before;
  let decided: NextAction | null = null;
  for (const effect of effects) {
    switch (effect.type) {
      case 'publish':
        if (effect.notice.type === 'decided') decided = effect.notice.next;
        break;
      case 'stop':
        ledger = stopService(ledger, effect.id);
        break;
      case 'start':
        ledger = startService(ledger, effect, decided);
    }
  }
  return ledger;
}

function stopService(ledger: Ledger, id: string): Ledger {
  if (!(id in ledger.running))
    return { ...ledger, misuse: [...ledger.misuse, `${id} was stopped and is not running`] };
  const { [id]: _, ...running } = ledger.running;
  return { ...ledger, running };
}

function startService(
  ledger: Ledger,
  { id, service, input }: Extract<Effect, { type: 'start' }>,
  decided: NextAction | null,
): Ledger {
  const misuse =
    id in ledger.running ? [...ledger.misuse, `${id} was started and is running`] : ledger.misuse;
  const begun = { ...ledger, misuse, running: { ...ledger.running, [id]: input } };
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
function beginTurn(ledger: Ledger, decided: NextAction | null): Ledger {
  const { config, spending, closing, unfinished } = ledger;
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
    ...ledger,
    overruns: [...ledger.overruns, ...overruns],
    transcript: ledger.inbox.length === 0 ? ledger.transcript : [...ledger.transcript, ...ledger.inbox],
    inbox: [],
    shown: false,
    final: isFinal,
    closing: closes ? 'begun' : closing,
  };
}

function spendStep(ledger: Ledger, what: string): Ledger {
  if (!ledger.paused) return ledger;
  if (ledger.steps > 0) return { ...ledger, steps: ledger.steps - 1 };
  return { ...ledger, unpaid: [...ledger.unpaid, what] };
}
