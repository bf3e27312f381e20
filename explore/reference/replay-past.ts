import type { Stepper } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../../protocol/event.ts';
import type { CheckedStep } from '../invariants/built-in-invariant.ts';
import { followReference, startReference } from './follow-reference.ts';

/**
 * Follows the events of a run, and returns the last step. Nothing is checked: these events have happened. Throws
 * `journal-damaged` for an event that the chart does not accept.
 */
export function replayPast(
  stepper: Pick<Stepper, 'initial' | 'next'>,
  started: RunStarted,
  past: readonly ChartEvent[],
): CheckedStep {
  const step = stepper.initial(started);
  let last: CheckedStep = {
    before: null,
    event: null,
    after: step.state,
    effects: step.effects,
    reference: startReference(started, step),
  };
  for (const [index, event] of past.entries()) {
    const before = { state: last.after, reference: last.reference };
    const taken = stepper.next(before.state, event);
    if (!taken.handled)
      throw new EngineError(
        'journal-damaged',
        `The chart does not accept event ${index + 1} after the start, ${event.type}.`,
      );
    const { state: after, effects } = taken;
    const { transcript, inbox } = after.context;
    const reference = { ...followReference(before.reference, event, taken), transcript, inbox };
    last = { before, event, after, effects, reference };
  }
  return last;
}
