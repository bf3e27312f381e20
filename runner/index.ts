/**
 * `agentchart/runner`: drives a run turn by turn from a `for await` loop.
 *
 * `turns` returns a `Runner`, which pauses the run and steps it. `current-turn.ts` holds the current turn with
 * the changes of the loop body, `runner-turn.ts` and `turn-stream.ts` are the two forms in which the body gets
 * it, and `read-journal.ts` finds out where a reopened run was left.
 */
export type { Runner, RunnerParams } from './runner.ts';
export type { RunnerTurn } from './runner-turn.ts';
export type { TurnStream } from './turn-stream.ts';
export { type TurnsInput, type TurnsOptions, turns } from './turns.ts';
