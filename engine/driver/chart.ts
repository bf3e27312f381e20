import type { Context } from '../../machines/context.ts';
import type { Effect } from '../../protocol/effect.ts';
import type { ChartEvent, JournalEntry } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Standing, Store } from '../../protocol/store.ts';
import type { Refusal } from '../run/explain-refusal.ts';
import type { LateOutcome } from '../services/service.ts';

export type StartEffect = Extract<Effect, { type: 'start' }>;

type Unstamped<Type extends ChartEvent['type']> = Omit<Extract<ChartEvent, { type: Type }>, 'at'>;

/**
 * All that a run's log and its driver know of the machine they fold and drive. `State` never changes: a step
 * gives another. The agent's own is `agentChart`.
 */
export interface Chart<State> {
  /** Where an event leads, and what it asks for; `handled` is false for one that the chart does not take. */
  next(state: State, event: ChartEvent): { state: State; effects: readonly Effect[]; handled: boolean };
  /** The fold of all that the store has of a run, and the seq of its last entry. Throws as `fold`, and `run-unknown`. */
  load(store: Store, runId: string): Promise<{ state: State; seq: number }>;
  /** The state after one more entry of the run's journal. Throws `journal-damaged` for one that does not fit. */
  fold(state: State, entry: JournalEntry, runId: string): State;
  /** What has to be started when a process takes the run over. */
  pending(state: State): readonly StartEffect[];
  /** Nothing is to be done until an input comes, or until `wakeAt`. */
  isAtRest(state: State): boolean;
  hasEnded(state: State): boolean;
  /** When a run at rest goes on by itself, ms since the epoch. */
  wakeAt(state: State): number | null;
  /** What ends the run, once somebody in another process has asked for that. */
  cancellation(state: State): { by?: string; reason?: string } | null;
  /** The input that ends the run, in a state that has not ended. */
  cancel(state: State, said: { by?: string; reason?: string }): Unstamped<'run.cancelled'>;
  /** What a store keeps beside an append that leads there, with entry `seq`. */
  standing(state: State, seq: number): Standing;
  /** The state as JSON, for a snapshot; `inherited` is the transcript of a run that came from another store. */
  image(state: State, inherited?: readonly Item[]): JsonValue;
  /** What services see. */
  contextOf(state: State): Context;
  /** Why an input that the chart would take is too much for the run now. */
  findOverflow(state: State, event: ChartEvent): Refusal | null;
  /** Why the first of these inputs that is not taken is not; `null` when all are. */
  findRefusal(
    state: State,
    events: readonly ChartEvent[],
    journal: readonly JournalEntry[],
  ): (Refusal & { index: number }) | null;
  /** What events that the run does not take any more still tell; `before` is where they were first folded. */
  lateOutcomes(events: readonly ChartEvent[], before: State): LateOutcome[];
}
