import type { Context } from '../../machines/context.ts';
import type { Effect } from '../../protocol/effect.ts';
import type { ChartEvent, CommandEvent, JournalEntry } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Standing, Store } from '../../protocol/store.ts';
import type { Refusal } from '../run/explain-refusal.ts';
import type { LateOutcome } from '../services/service.ts';

type StartEffect = Extract<Effect, { type: 'start' }>;

type Unstamped<Type extends ChartEvent['type']> = Omit<Extract<ChartEvent, { type: Type }>, 'at'>;

/** A state, the seq of the last entry folded into it, and how often the run had been redacted when it was read. */
export type Fold<State> = { state: State; seq: number; redactions: number };

/**
 * The interface of a run's log and driver to the state machine that they fold and drive. `State` is immutable: each
 * step returns a new one. The implementation for agents is `agentChart`.
 */
export interface Chart<State> {
  /** The state after an event, and its effects; `handled` is false if the chart does not accept the event. */
  next(state: State, event: ChartEvent): { state: State; effects: readonly Effect[]; handled: boolean };
  /** Folds a stored run. Throws like `fold`, and `run-unknown`. */
  load(store: Store, runId: string): Promise<Fold<State>>;
  /** The state after one more entry. Throws `journal-damaged` for an entry that the chart does not accept. */
  fold(state: State, entry: JournalEntry, runId: string): State;
  /** The services that should be running in this state: what a process starts when it claims the run. */
  pending(state: State): readonly StartEffect[];
  /** Whether the run waits for an input, or for the time `wakeAt`. */
  isAtRest(state: State): boolean;
  /** Whether the run has finished, failed or been cancelled. */
  hasEnded(state: State): boolean;
  /** When a run at rest continues by itself, ms since the epoch; `null` if only an input wakes it. */
  wakeAt(state: State): number | null;
  /** Whether the resting run waits for something whose end wakes no process: processes look for it again and again. */
  polls(state: State): boolean;
  /** The pending request to cancel the run; `null` if there is none. */
  cancellation(state: State): { by?: string; reason?: string } | null;
  /** The input that ends the run. The state must not have ended. */
  cancel(state: State, options: { by?: string; reason?: string }): Unstamped<'run.cancelled'>;
  /** What the store records with an append that leads to `state` and whose last entry is `seq`. */
  standing(state: State, seq: number): Standing;
  /** The state as JSON, for a snapshot; `inherited` is the transcript of a run that came from another store. */
  image(state: State, inherited?: readonly Item[]): JsonValue;
  /** The context that services read. */
  contextOf(state: State): Context;
  /** Why the run has no room for an input that the chart accepts; `null` if it has. */
  findOverflow(state: State, event: ChartEvent): Refusal | null;
  /** Why the chart does not accept one of these inputs (the first such one); `null` if it accepts them all. */
  findRefusal(
    state: State,
    events: readonly CommandEvent[],
    journal: readonly JournalEntry[],
  ): (Refusal & { index: number }) | null;
  /** The outcomes to keep of events that the run no longer accepts; `before`: the state they were first folded into. */
  lateOutcomes(events: readonly CommandEvent[], before: State): LateOutcome[];
}

/** The log's callbacks into the driver that holds this process's lease. */
export type LogFollower = {
  /** Inputs were folded but not committed yet. */
  onInput(effects: readonly Effect[]): void;
  /** The events that had these effects were dropped. */
  onDropped(effects: readonly Effect[]): void;
  /** Another process appended first: the state may differ from the one that produced the effects. */
  onRefolded(): void;
  /** Another process drives the run now. */
  onSuperseded(): void;
  /** The store failed: nothing more can be committed under this lease. */
  onFailed(error: unknown): void;
};
