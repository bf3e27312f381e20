import { callsWith, isOwed } from '../../machines/calls.ts';
import type { Call, CallStatus, Context } from '../../machines/context.ts';
import { limitsOf } from '../../machines/limits.ts';
import type { Limits } from '../../protocol/config.ts';
import type { Spent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { digestOf } from '../journal/digest.ts';
import type { CommandOptions, RunCommand } from '../run/command.ts';
import type { CommandResult, SubmitResult } from '../run/explain-refusal.ts';
import type { Settled } from '../run/settled.ts';

/**
 * Sub-agents: a call of one is a run of its own, a child of the run that made the call, in the same store.
 *
 * C1 The child's id follows from the call's key and run: whoever drives the call finds the one child there is.
 * C2 While the child works it is driven inside its parent's batch; once it rests, the call waits.
 * C3 What the child may spend is a share of what its parent has left, and counts as spent by the parent.
 * C4 A child whose parent does not wait for it any more is cancelled before it does anything else.
 */
export interface ChildRuns {
  /** Whether calls of this tool are runs of another agent. */
  has(tool: string): boolean;
  /** Begins the run of a call and drives it; attaches to it where it has begun. */
  begin(tool: string, request: ChildRequest): Promise<RunHandle>;
  /** Attaches to a run of any agent below. */
  open(runId: string): Promise<RunHandle>;
  /** Whether the store has a child; `unknown` where it has not, and its parent came from another store. */
  lookFor(runId: string, parentId: string): Promise<'there' | 'none' | 'unknown'>;
}

export type ChildRequest = {
  runId: string;
  parent: { runId: string; callId: string };
  input: string;
  limits: Partial<Limits>;
  stream: boolean;
  /** Whether somebody waits for the child's end right here: then nobody else has to be told. */
  isAwaited(): boolean;
};

/** What a child's end is for the call it answers. */
export type ChildAnswer = { output: JsonValue; isError: boolean };

/** `key` is the call's; a fork keeps it, and has children of its own. */
export function childRunIdOf(key: string, parentId: string): string {
  return `run_${digestOf({ childOf: key, parentId })}`;
}

/** The children that calls of the open round have, or may have. */
export function childIdsOf({ calls, runId }: Context): string[] {
  return calls.flatMap(call => {
    if (call.status === 'settled') return [];
    return call.childRunId ?? (call.key === undefined ? [] : childRunIdOf(call.key, runId));
  });
}

/** An open call somebody speaks of; `digest` and `runId` tell it from others with its id. */
export type SoughtCall = {
  callId: string;
  fitting: readonly CallStatus[];
  digest?: string | undefined;
  runId?: string | undefined;
};

/** A call that waits for a run of another agent. */
export type SuspendedCall = Call & { childRunId: string };

export function suspendedCalls(context: Context): SuspendedCall[] {
  return callsWith(context, 'waiting').filter(call => call.childRunId !== undefined) as SuspendedCall[];
}

/** Whether the run still waits for what this call's child will say. */
export function isAwaitedBy(context: Context, callId: string): boolean {
  const call = context.calls.find(other => other.callId === callId);
  return call !== undefined && (isOwed(call) || call.status === 'waiting');
}

export function answerOfChild(agent: string, settled: Exclude<Settled, { status: 'waiting' }>): ChildAnswer {
  switch (settled.status) {
    case 'finished':
      return { output: settled.output ?? settled.text, isError: false };
    case 'failed':
      return failed(`${agent} failed: ${settled.error.code}: ${settled.error.message}`);
    case 'cancelled':
      return failed(`${agent} was cancelled before it answered.`);
  }
}

function failed(output: string): ChildAnswer {
  return { output, isError: true };
}

/** `outside`: whether the parent's own clock did not run while the child worked. */
export function spentBy({ turns, toolCalls, usage, cost, activeMs }: Context, outside: boolean): Spent {
  return { turns, toolCalls, usage, cost, activeMs: outside ? activeMs : 0 };
}

/** Kept back for the call that a child at its limits answers with. */
const CLOSING_TURN = 1;

/**
 * What one child may spend: an equal share of what is left, among the children the round has open.
 * `null` when nothing is left of something.
 */
export function shareLimits(context: Context, isChild: (tool: string) => boolean): Partial<Limits> | null {
  const open = context.calls.filter(call => call.status !== 'settled' && isChild(call.name)).length;
  const { turns, toolCalls, tokens, cost, activeMs } = limitsOf(context);
  const share = (left: number) => left / Math.max(1, open);
  const turnsLeft = Math.floor(share(turns - context.turns));
  const usedTokens = (context.usage?.inputTokens ?? 0) + (context.usage?.outputTokens ?? 0);
  const limits = {
    turns: Math.max(1, turnsLeft - CLOSING_TURN),
    toolCalls: Math.max(0, Math.floor(share(toolCalls - context.toolCalls))),
    ...(tokens === undefined ? {} : { tokens: share(tokens - usedTokens) }),
    ...(cost === undefined ? {} : { cost: share(cost - context.cost) }),
    ...(activeMs === undefined ? {} : { activeMs: share(activeMs - context.activeMs) }),
  };
  const isSpent =
    turnsLeft < 1 ||
    [limits.tokens, limits.cost, limits.activeMs].some(left => left !== undefined && left <= 0);
  return isSpent ? null : limits;
}

/** The stricter of the two, limit by limit. */
export function narrowLimits(own: Limits, share: Partial<Limits>): Limits {
  const narrowed = { ...own };
  for (const [limit, allowed] of Object.entries(share) as [keyof Limits, number | undefined][]) {
    if (allowed !== undefined) narrowed[limit] = Math.min(narrowed[limit] ?? allowed, allowed);
  }
  return narrowed;
}

/** What one run needs of another: of a sub-agent's, or of the one that waits for it. `Run` says what each promises. */
export interface RunHandle {
  readonly id: string;
  readonly context: Readonly<Context>;
  settled(): Promise<Settled>;
  submit(commands: readonly RunCommand[]): Promise<SubmitResult>;
  cancel(options?: CommandOptions & { reason?: string }): Promise<CommandResult>;
}
