import type { Agent } from '../agent/agent.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { Runner } from './runner.ts';
import type { RunnerTurn, TurnStream } from './runner-turn.ts';

/** The options of `turns`. */
export type TurnsOptions = {
  /** Yield each turn as a `TurnStream` while it streams. Default `false`: completed turns. */
  stream?: boolean;
  /** The most model calls. The calls of the last are run, then the run ends with `incomplete.reason` `turns`. */
  maxTurns?: number;
  /** Cancels the run when aborted. */
  signal?: AbortSignal;
  /** The id of a new run. Default: a random one. */
  runId?: string;
  /** The run context, for an agent that requires one. */
  runContext?: unknown;
};

const NAMES = optionNames<TurnsOptions>()('stream maxTurns signal runId runContext');

/** The input of a new run, or the id of a run to continue. Options other than `stream` apply to new runs only. */
export type TurnsInput = string | readonly Item[] | { runId: string };

/**
 * Drives a run turn by turn. Each iteration makes one model call and yields the turn; when the loop body ends,
 * its changes are applied and the calls of the turn are run. Ends when the model asks for no more tools, or
 * when a call waits for a decision. Nothing starts before the iteration.
 *
 * @example
 * const runner = turns(agent, 'Refund order A-1001');
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
  refuseUnknownOptions('turns', options, NAMES, 'input-invalid');
  const { stream = false, maxTurns, signal, runId, runContext } = options;
  const open = () => {
    if (typeof input === 'object' && 'runId' in input) return agent.open(input.runId);
    return agent.start(input, {
      stream,
      paused: true,
      holdsAtEnd: true,
      onLimit: 'stop',
      runContext,
      ...omitUndefined({ limits: maxTurns === undefined ? undefined : { turns: maxTurns }, signal, runId }),
    });
  };
  return stream ? new Runner<TurnStream>(open, true) : new Runner<RunnerTurn>(open, false);
}
