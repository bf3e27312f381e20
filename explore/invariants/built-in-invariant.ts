import type { ChartState } from '../../machines/step.ts';
import type { Effect, ServiceName } from '../../protocol/effect.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import type { ReferenceModel } from '../reference/reference-model.ts';

/** An accepted event and its step; the start of a run if `before` is `null`. */
export type CheckedStep = {
  before: { state: ChartState; reference: ReferenceModel } | null;
  event: ChartEvent | null;
  after: ChartState;
  effects: readonly Effect[];
  /** The expected state after the event. */
  reference: ReferenceModel;
};

/** Describes how a step breaks the invariant, or returns `null`. */
export type BuiltInInvariant = (step: CheckedStep) => string | null;

export type BuiltInInvariants = Readonly<Record<string, BuiltInInvariant>>;

/** Whether the effects start the service. */
export function startsService(effects: readonly Effect[], service: ServiceName): boolean {
  return effects.some(effect => effect.type === 'start' && effect.service === service);
}

/** Whether two values are equal as JSON. */
export function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
