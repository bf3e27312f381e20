import type { RunEvent } from '../../protocol/event.ts';
import type { FoldedCommands } from '../run/command.ts';
import type { Refusal } from '../run/explain-refusal.ts';

/** Builds events for a state and folds them into it. */
export type Refold<State> = (before: State) => FoldedCommands<State> | (Refusal & { index: number });

/** Who waits for the outcome of admitted events. */
export type Waiter = { resolve(outcome: 'appended' | 'dropped'): void; reject(error: unknown): void };

export const NO_WAITER: Waiter = { resolve() {}, reject() {} };

/** An admitted event, or several that are appended together or not at all. */
export type Pending<State> = Pick<FoldedCommands<State>, 'events' | 'effects'> & {
  refold: Refold<State>;
  /** The state that the events were first admitted in. */
  before: State;
  after: State;
  /** Being appended when this process stopped driving: not retried. */
  isAbandoned: boolean;
  waiter: Waiter;
};

/** Returns the events of a batch, in order. */
export function eventsOf<State>(batch: readonly Pending<State>[]): RunEvent[] {
  const all: RunEvent[] = [];
  for (const { events } of batch) for (const event of events) all.push(event);
  return all;
}
