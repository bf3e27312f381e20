import { setImmediate as turn } from 'node:timers/promises';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { StartOptions } from '../../agent/begin-journal.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type { Tool, ToolCallContext } from '../../protocol/tool.ts';
import type { Outside } from './outside.ts';
import type { CrashPoint } from './scenario.ts';

/** A person's reaction to a call that waits. `send` sends a message instead, which supersedes the call. */
type Decision =
  | { type: 'approve'; input?: JsonObject; sticky?: boolean }
  | { type: 'reject'; reason: string }
  | { type: 'answer'; output: JsonValue }
  | { type: 'send'; text: string };

/** An editor's reaction to an answer under review. */
type Review = { by: string } & ({ type: 'approve'; answer?: string } | { type: 'reject'; reason: string });

/**
 * A message to a running run: after its start, when a tool acts, or while an answer is under review; optionally from
 * another handle on the same run.
 */
export type Message = { text: string; when: 'started' | 'reviewed' | { acts: string }; elsewhere: boolean };

/** A complete scenario: the agent, and the people around it. */
export type CrashAgent = {
  name: string;
  makeModels(): readonly ModelAdapter[];
  makeTools(world: Environment): readonly Tool[];
  options?: Partial<AgentOptions>;
  start?: StartOptions;
  decide?(call: { name: string; input: JsonValue }): Decision;
  /** `approvedBy`: those who have approved the answer as it is. */
  review?(answer: string, approvedBy: readonly string[]): Review;
  messages?: readonly Message[];
  /** People decide as soon as they see any act, while other calls run. */
  decidesEarly?: boolean;
  /** Calls of its sub-agents are decided on their own runs, by another handle. */
  decidesBelow?: boolean;
  /** The number of extra journal entries, so that there are snapshots. */
  notes?: number;
  /** Calls in doubt of these tools are resolved as failed, whether or not they happened. */
  writtenOff?: readonly string[];
};

export type Environment = {
  outside: Outside;
  reach(point: CrashPoint): void;
  onAct(tool: string): void;
};

/**
 * A tool function that acts and records the act itself: immediately, or `later` in the next turn
 * of the event loop. It returns one turn after it acted.
 */
export function actIn(world: Environment, tool: string, pace: 'at once' | 'later' = 'at once') {
  return async (input: unknown, { runId, callId, key }: ToolCallContext): Promise<string> => {
    if (pace === 'later') await turn();
    world.reach('act.before');
    world.outside.act({ tool, runId, callId, key, input: input as JsonValue });
    world.reach('act.after');
    world.onAct(tool);
    await turn();
    return `${tool} ran`;
  };
}
