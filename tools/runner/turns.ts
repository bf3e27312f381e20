import type { Item } from '../../protocol/item.ts';
import type { Agent } from '../agent/agent.ts';
import { Runner } from './runner.ts';
import type { RunnerTurn } from './runner-turn.ts';
import type { TurnStream } from './turn-stream.ts';

export type TurnsOptions = {
  /** Give each turn as a stream while it comes. Default false: whole turns. */
  stream?: boolean;
  /** Model calls at most; the run then ends with `incomplete.reason` `turns`, and no call unanswered. */
  maxTurns?: number;
  signal?: AbortSignal;
  runId?: string;
};

/** A message to begin with, or the id of a run of the agent's store to pick up. */
export type TurnsInput = string | readonly Item[] | { runId: string };

/**
 * A run, turn by turn: the model is called, the turn is given to the loop body, what the body changed is
 * taken over, the calls of the turn are run, and so on until the model asks for nothing more.
 *
 * @example
 * const runner = turns(agent, 'Refund order A-1');
 * for await (const turn of runner) console.log(turn.number, turn.text, turn.toolCalls);
 * console.log(await runner.done());
 */
export function turns(
  agent: Agent,
  input: TurnsInput,
  options: TurnsOptions & { stream: true },
): Runner<TurnStream>;
export function turns(agent: Agent, input: TurnsInput, options?: TurnsOptions): Runner<RunnerTurn>;
export function turns(
  agent: Agent,
  input: TurnsInput,
  options: TurnsOptions = {},
): Runner<TurnStream> | Runner<RunnerTurn> {
  const { stream = false, maxTurns, signal, runId } = options;
  const open = () => {
    if (typeof input === 'object' && 'runId' in input) return agent.open(input.runId);
    return agent.start(input, {
      stream,
      paused: true,
      holdsAtEnd: true,
      onLimit: 'stop',
      ...(maxTurns === undefined ? {} : { limits: { turns: maxTurns } }),
      ...(signal === undefined ? {} : { signal }),
      ...(runId === undefined ? {} : { runId }),
    });
  };
  return stream ? new Runner<TurnStream>(open, true) : new Runner<RunnerTurn>(open, false);
}
