import type { ChartState, Step } from '../../machines/step.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import type { ReferenceModel } from '../reference/reference-model.ts';
import { INTERNAL_INVARIANTS } from './internal-invariants.ts';
import { SAFETY_INVARIANTS } from './safety-invariants.ts';

/** The names of the invariants that the explorer itself checks. */
const EXACT_EVENTS = 'every valid event is accepted, and every invalid one is ignored';
const NO_STALE_REPORT = 'a report from an older start is ignored';
const ENDED = 'a run that has ended accepts no event';
export const NO_SILENT_CHANGE = 'an ignored event changes nothing and has no effects';
export const RESTORABLE = 'a run restored from its JSON at any point continues as if uninterrupted';
export const JSON_ONLY = 'the state of the chart is plain JSON';
export const STEPS_COMPLETE = 'every step completes: none throws or loops forever';

/** The names of the built-in invariants. */
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
