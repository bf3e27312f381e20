import type { ChartState } from '../machines/step.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import type { ReferenceModel } from './reference/reference-model.ts';

/** A state of the chart and one way that leads to it. */
export type Place = {
  state: ChartState;
  reference: ReferenceModel;
  /** The number of events from the start. */
  depth: number;
  from: { place: Place; event: ChartEvent } | null;
  /** Whether an invariant broke on the way. From here on only the safety invariants are checked. */
  tainted: boolean;
};

/** One event of a path, the state it leads to, and the reason of the chart's decision; `null` if it made none. */
export type PathEntry = { event: RunStarted | ChartEvent; state: string; why: string | null };

export type Breach = {
  invariant: string;
  message: string;
  before: Place;
  event: ChartEvent | null;
  depth: number;
};
