/**
 * `agentchart/runner`: drives a run turn by turn from a `for await` loop.
 *
 * `turns` returns a `Runner`, which pauses the run and steps it. `runner-turn.ts` has the two forms in which the
 * body of the loop gets a turn.
 */
export type { Runner, RunnerParams } from './runner.ts';
export type { RunnerTurn, TurnStream } from './runner-turn.ts';
export { type TurnsInput, type TurnsOptions, turns } from './turns.ts';
