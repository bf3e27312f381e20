import type { ChartState } from '../../../machines/step.ts';
import type { Effect, ServiceName } from '../../../protocol/effect.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import type { ReferenceModel } from '../reference/reference-model.ts';

/** A step that was taken, or the start of a run, when there is no `before`. */
export type Taken = {
  before: { state: ChartState; reference: ReferenceModel } | null;
  event: ChartEvent | null;
  after: ChartState;
  effects: readonly Effect[];
  /** What has to be after the event. */
  reference: ReferenceModel;
};

/** Says what is wrong with a step, or `null`. */
export type Property = (taken: Taken) => string | null;

export type Properties = Readonly<Record<string, Property>>;

export function startsService(effects: readonly Effect[], service: ServiceName): boolean {
  return effects.some(effect => effect.type === 'start' && effect.service === service);
}

/** Equal as JSON. */
export function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
