export type { Runner, RunnerParams } from './runner.ts';
export type { RunnerTurn } from './runner-turn.ts';
export type { TurnStream } from './turn-stream.ts';
export { type TurnsInput, type TurnsOptions, turns } from './turns.ts';
