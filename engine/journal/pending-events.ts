import type { FoldedCommands } from '../run/command.ts';
import type { Refusal } from '../run/explain-refusal.ts';

/** Builds events for a state and folds them into it. */
export type Refold<State> = (before: State) => FoldedCommands<State> | (Refusal & { index: number });

/** Who waits for the outcome of admitted events. */
export type Waiter = { resolve(outcome: 'appended' | 'dropped'): void; reject(error: unknown): void };

export const NO_WAITER: Waiter = { resolve() {}, reject() {} };

export type Pending<State> = Waiter &
  Pick<FoldedCommands<State>, 'events' | 'effects'> & {
    refold: Refold<State>;
    /** The state that the events were first admitted in. */
    before: State;
    after: State;
    /** Being appended when this process stopped driving: not retried. */
    isAbandoned: boolean;
  };
