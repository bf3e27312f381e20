import { callsWith, isOwed } from '../../machines/calls.ts';
import type { Call, Context } from '../../machines/context.ts';
import { hasUncheckedLimit, heldOf, limitsOf, usedOf } from '../../machines/limits.ts';
import { DEFAULT_LIMITS, type Limits } from '../../protocol/config.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import type { Answered, HeldLimits, People, QualifiedCall, Spent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type { CancelOptions, RunCommand, YieldOptions } from '../../protocol/run-command.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import type { RunHappening } from '../events/run-events.ts';
import type { CommandResult, SubmitResult } from '../log/refusal.ts';
import type { Settled } from '../log/settled.ts';

/**
 * Sub-agents: each call of a sub-agent is a run of its own, a child of the calling run, in the same store.
 *
 * C1 The child's id is derived from the call's key and run, so every driver of the call finds the same child.
 * C2 While the child works, it is driven within its parent's batch; once it rests, the call waits.
 * C3 The child's limits are a share of what its parent has left; what it spends counts as spent by the parent.
 * C4 A child whose parent no longer waits for it is cancelled before it does anything else.
 * C5 The child of a background call is the same to its parent as that of a call that waits, except its outcome: it
 *    arrives as a message. What the child may spend is held back from its parent until then.
 */
export interface SubAgentRuns extends Pick<StoryAgent, 'subAgent'> {
  has(tool: string): boolean;
  /** Starts and drives the child run of a call, or attaches to it if it exists. With `onlyCall`, a run of the same agent. */
  begin(tool: string, request: ChildRequest): Promise<RunHandle>;
  open(runId: string): Promise<RunHandle>;
  /** Whether the store has a child run; `unknown` if it has not but the parent came from another store. */
  lookFor(runId: string, parentId: string): Promise<'there' | 'none' | 'unknown'>;
}

/** An agent, as far as the stories of its runs need it. */
export type StoryAgent = {
  name: string;
  filters: readonly (() => TextFilter)[];
  /** The agent that the tool is; `undefined` for another tool. */
  subAgent(tool: string): StoryAgent | undefined;
};

export type ChildRequest = {
  runId: string;
  parent: { runId: string; callId: string };
  people: People;
  input: string | readonly Item[];
  /** Whose transcript it sees before its input; with `continuesAt`, up to that entry. */
  continues?: string;
  continuesAt?: number;
  /** The parent's agent, if the conversation is handed to the child. */
  handedBy?: string;
  /** The parent's; the child takes it if its agent has a `runContext`. */
  runContext: JsonValue | undefined;
  /** All that the child does: a call of a tool of its agent. */
  onlyCall?: QualifiedCall;
  title?: string;
  limits: Partial<Limits>;
  inheritedLabels?: Labels;
  stream: boolean;
  /** Whether the parent's batch is waiting for the child; if so, its end need not be delivered to the parent. */
  isAwaited(): boolean;
};

export type ChildAnswer = { output: JsonValue; isError: boolean; answered?: Answered };

/** Returns the id of a call's child run. A fork keeps the call's key but has its own children. */
export function childRunIdOf(key: string, parentId: string): string {
  return `run_${digestOf({ childOf: key, parentId })}`;
}

/** Returns the ids of the child runs that the open calls of the current round have or may have, and of background work. */
export function childIdsOf({ calls, background, runId }: Context): string[] {
  const open = calls.flatMap(call => {
    if (call.status === 'settled') return [];
    return call.childRunId ?? (call.key === undefined ? [] : childRunIdOf(call.key, runId));
  });
  return [...background.map(({ childRunId }) => childRunId), ...open];
}

/** A call that waits for its child run, or whose child run works in the background. */
export type SuspendedCall = Pick<Call, 'callId' | 'name' | 'key' | 'answers'> & {
  childRunId: string;
  inBackground: boolean;
};

export function suspendedCalls(context: Context): SuspendedCall[] {
  const waiting = callsWith(context, 'waiting').flatMap(({ childRunId, ...call }) =>
    childRunId === undefined ? [] : [{ ...call, childRunId, inBackground: false }],
  );
  return [...context.background.map(work => ({ ...work, inBackground: true })), ...waiting];
}

/** Whether the run, a fork, waits for child runs of its original. Their ends wake the original alone. */
export function waitsForOriginal(context: Context): boolean {
  return suspendedCalls(context).some(
    ({ key, childRunId }) => key === undefined || childRunId !== childRunIdOf(key, context.runId),
  );
}

export function isAwaitedBy(context: Context, callId: string): boolean {
  if (context.background.some(work => work.callId === callId)) return true;
  const call = context.calls.find(other => other.callId === callId);
  return call !== undefined && (isOwed(call) || call.status === 'waiting');
}

/** Returns what a child run that has ended gives its caller: its output or text, or an error that names `agent`. */
export function answerOfChild(agent: string, settled: Exclude<Settled, { status: 'waiting' }>): ChildAnswer {
  switch (settled.status) {
    case 'finished':
      return { output: (settled.output as JsonValue | undefined) ?? settled.text, isError: false };
    case 'failed': {
      const { code, message } = settled.error;
      return { output: `${agent} failed: ${code}: ${message}`, isError: true };
    }
    case 'cancelled':
      return { output: `${agent} was cancelled before it answered.`, isError: true };
  }
}

/** As `answerOfChild`. If the call answers for the run, with what its answer is taken from. */
export function answerFor(
  call: Pick<Call, 'answers'> | undefined,
  child: Context,
  settled: Exclude<Settled, { status: 'waiting' }>,
): ChildAnswer {
  const { name } = child.agent;
  if (call?.answers !== 'directly' || settled.status !== 'finished') return answerOfChild(name, settled);
  const { text, agent, incomplete } = settled;
  const answered = { agent, runId: child.runId };
  if (child.answeredBy?.type === 'back') {
    const output = `${name} handed the conversation back${text === '' ? '.' : `: ${text}`}`;
    return { output, isError: false, answered: { ...answered, handedBack: true } };
  }
  const output = settled.output as JsonValue | undefined;
  const how = omitUndefined({ output, incomplete: incomplete?.reason });
  return { output: text, isError: false, answered: { ...answered, ...how } };
}

/** Returns what a run has spent so far, as the result of a child run reports it. `activeMs` is in ms. */
export function spentBy({ turns, toolCalls, usage, usageUnknown, cost, activeMs }: Context): Spent {
  return { turns, toolCalls, usage, ...(usageUnknown && { usageUnknown }), cost, activeMs };
}

/** Reserved for the closing call of a child that reached its limits. */
const CLOSING_TURN = 1;

export type Share = { type: 'share'; limits: Partial<Limits> } | { type: 'spent'; reason: string };

/**
 * Returns the limits of one child run: an equal share of what the parent has left, among the open children of the round. A
 * parent that continues meanwhile keeps a share too.
 */
export function shareLimits(context: Context, isChild: (tool: string) => boolean): Share {
  const children = context.calls.filter(call => call.status !== 'settled' && isChild(call.name));
  const goesOn = children.some(call => call.background === true);
  const open = Math.max(1, children.length) + (goesOn ? 1 : 0);
  if (hasUncheckedLimit(context)) return uncounted(context);
  const { turns, toolCalls, ...others } = limitsOf(context);
  const used = usedOf(context);
  const held = heldOf(context);
  for (const limit in used) used[limit as keyof typeof used] += held[limit as keyof typeof held];
  const turnsLeft = turns - used.turns;
  if (turnsLeft < open) return spent(context, { limit: 'turns', used: used.turns, open });
  const limits: Partial<Limits> = {
    turns: Math.max(1, Math.floor(turnsLeft / open) - CLOSING_TURN),
    toolCalls: Math.max(0, Math.floor((toolCalls - used.toolCalls) / open)),
  };
  for (const limit of ['tokens', 'cost', 'activeMs'] as const) {
    const allowed = others[limit];
    if (allowed === undefined) continue;
    if (used[limit] >= allowed) return spent(context, { limit, used: used[limit], open });
    limits[limit] = (allowed - used[limit]) / open;
  }
  return { type: 'share', limits };
}

function uncounted({ runId, agent }: Context): Share {
  const reason = [
    `run ${runId} (agent "${agent.name}") has a limit on tokens or cost, and a turn of it reported no usage,`,
    'so what is left for a sub-agent is unknown.',
    `Give "${agent.name}" onUnknownUsage: 'estimate', or a model whose provider reports usage.`,
  ];
  return { type: 'spent', reason: reason.join(' ') };
}

/** What a child run with these limits may spend: its closing call is beyond its limit. */
export function heldBy({ turns, ...others }: Partial<Limits>): HeldLimits {
  const { toolCalls, tokens, cost, activeMs } = others;
  return omitUndefined({ turns: turns && turns + CLOSING_TURN, toolCalls, tokens, cost, activeMs });
}

type SpentLimit = { limit: 'turns' | 'tokens' | 'cost' | 'activeMs'; used: number; open: number };

function spent(context: Context, { limit, used, open }: SpentLimit): Share {
  const { runId, agent } = context;
  const isShared = limit === 'turns' && open > 1;
  const reason = [
    `the limit ${limit} of run ${runId} (agent "${agent.name}") is ${limitsOf(context)[limit]}, ${originOf(context, limit)},`,
    `and ${used} of it are spent${isShared ? `; ${open} sub-agents share the rest and need 1 each` : ''}.`,
    'Sub-agents spend from the limits of the run that calls them:',
    `raise limits.${limit} of "${agent.name}"${isShared ? ', or call fewer of them at once' : ''}.`,
  ];
  return { type: 'spent', reason: reason.join(' ') };
}

function originOf(context: Context, limit: SpentLimit['limit']): string {
  const changed: Partial<Limits> = context.params.limits ?? {};
  if (changed[limit] !== undefined) return 'changed during the run';
  if (context.parent !== null) return `at most its share of what run ${context.parent.runId} had left`;
  return context.config.limits[limit] === DEFAULT_LIMITS[limit] ? 'the default' : 'set';
}

export function narrowLimits(own: Limits, share: Partial<Limits>): Limits {
  const narrowed = { ...own };
  for (const [limit, allowed] of Object.entries(share) as [keyof Limits, number | undefined][]) {
    if (allowed !== undefined) narrowed[limit] = Math.min(narrowed[limit] ?? allowed, allowed);
  }
  return narrowed;
}

/** The methods that parent and child runs use on each other; documented in `Run`. */
export interface RunHandle {
  readonly id: string;
  readonly context: Readonly<Context>;
  /** @internal */
  readonly durable: { seq: number };
  settled(): Promise<Settled>;
  submit(commands: readonly RunCommand[]): Promise<SubmitResult>;
  cancel(options?: CancelOptions): Promise<CommandResult>;
  eventBatches(options: { after: number; follow: boolean }): AsyncGenerator<readonly RunHappening[]>;
  yield(options?: YieldOptions): Promise<void>;
}
