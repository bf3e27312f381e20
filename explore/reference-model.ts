import type { CallResult, CallStatus } from '../machines/context.ts';
import type { Limits, RunConfig } from '../protocol/config.ts';
import type { Breakpoint } from '../protocol/debugger/breakpoint.ts';
import type { ServiceInput } from '../protocol/effect.ts';
import type { QualifiedCall, Spent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';

/**
 * The expected state of a run, computed from its events alone. The chart is checked against it, so nothing here
 * uses the chart's guards and actions. Immutable: each event produces a new model.
 */
export type ReferenceModel = {
  config: RunConfig;
  now: number;
  /** The services that were started and not stopped, by id. */
  running: Readonly<Record<string, ServiceInput>>;
  /** Invalid starts and stops in the latest step. */
  misuse: readonly string[];
  /** Model calls in the latest step that a limit should have prevented. */
  overruns: readonly string[];
  /** Services that the latest step started while the run was paused and had no requested step left. */
  unpaid: readonly string[];
  /** Services that the latest step started although a breakpoint matches and the run was not continued. */
  unheld: readonly string[];
  /** Whether the latest event let the run continue. */
  continued: boolean;
  breakpoints: readonly Breakpoint[];
  /** Whether one of them holds the run. The next start passes it, and removes those that match once. */
  held: boolean;
  /** The latest turn, while it may be edited: where it begins in the transcript, and how many calls it made. */
  latest: { from: number; calls: number } | null;
  transcript: readonly Expected[];
  inbox: readonly Item[];
  /** The accepted messages that must be in the transcript or the inbox. */
  messages: readonly Item[];
  calls: readonly ReferenceCall[];
  /** The position in the transcript for the results of an edited round; `null` for the end. */
  resultsAt: number | null;
  /** The calls of finished rounds, in order. */
  done: readonly ReferenceCall[];
  sticky: readonly { tool: string; decision: 'approve' | 'reject' }[];
  paused: boolean;
  cancelling: boolean;
  steps: number;
  spending: Spending;
  /** Whether the current turn has its tools disabled. Stays set over failed attempts. */
  final: boolean;
  /** `begun`: the single closing call was started; `over`: it has completed. */
  closing: 'none' | 'begun' | 'over';
  /** Whether text of the current or the failed attempt has been shown. */
  shown: boolean;
  /** Whether the last attempt of the turn did not complete, so that the next one continues it. */
  unfinished: boolean;
  continuation: JsonValue | null;
};

export type ReferenceCall = {
  call: QualifiedCall;
  /** The status that the events imply. */
  stage: CallStatus;
  /** The sub-agent's run that alone gives the result. */
  childRunId?: string;
  /** The input it runs with, which may have been edited on approval. */
  input: JsonValue;
  digest: string;
  approved: boolean;
  starts: number;
  /** Whether it may be started: it was not started before, or is known not to have happened. */
  mayStart: boolean;
  /** The limit for which it was refused without running. */
  deniedFor?: 'toolCalls';
  /** The reported result; `null` for a refusal, whose text is the chart's. */
  result: CallResult | null;
};

/** An item that must be in the transcript. The chart chooses the text of a refusal. */
export type Expected = Item | { refused: string };

/** Returns an open call of the current round by its id. */
export function find({ calls }: ReferenceModel, callId: string): ReferenceCall | undefined {
  return calls.find(({ call }) => call.callId === callId);
}

/** Changes a call, unless it is settled. */
export function change(
  reference: ReferenceModel,
  callId: string,
  by: Partial<ReferenceCall>,
): ReferenceModel {
  const calls = reference.calls.map(entry =>
    entry.call.callId === callId && entry.stage !== 'settled' ? { ...entry, ...by } : entry,
  );
  return { ...reference, calls };
}

/** Records the result of a call, unless it is settled. */
export function settle(
  reference: ReferenceModel,
  callId: string,
  outcome: NonNullable<ReferenceCall['result']>,
): ReferenceModel {
  const { output, isError, shown, blob } = outcome;
  const result = { output, isError, ...omitUndefined({ shown, blob }) };
  return change(reference, callId, { stage: 'settled', result });
}

/** Settles the matching calls as refused. */
export function refuseCalls(
  reference: ReferenceModel,
  which: (call: ReferenceCall) => boolean,
): ReferenceModel {
  if (!reference.calls.some(which)) return reference;
  const calls = reference.calls.map(call =>
    which(call) ? { ...call, stage: 'settled' as const, result: null } : call,
  );
  return { ...reference, calls };
}

/** Counts the outcome of a call for the limit of repeated failures. */
export function countFailure(
  reference: ReferenceModel,
  digest: string,
  { failed }: { failed: boolean },
): ReferenceModel {
  return { ...reference, spending: countOutcome(reference.spending, digest, failed) };
}

/** Once every call is settled, moves the results to the transcript in call order and ends the round. */
export function closeRound(reference: ReferenceModel): ReferenceModel {
  const { calls, transcript, resultsAt, done } = reference;
  if (calls.length === 0 || calls.some(({ stage }) => stage !== 'settled')) return reference;
  const results = calls.map(({ call, result }): Expected => {
    const { callId } = call;
    if (result === null) return { refused: callId };
    return { type: 'tool_result', callId, ...result };
  });
  const at = resultsAt ?? transcript.length;
  return {
    ...reference,
    calls: [],
    resultsAt: null,
    done: [...done, ...calls],
    transcript: [...transcript.slice(0, at), ...results, ...transcript.slice(at)],
  };
}

/** What a run has spent, computed from its events. */
export type Spending = {
  turns: number;
  /** The turns of sub-agents, included in `turns`. */
  fromElsewhere: number;
  toolCalls: number;
  /** The calls that were refused because the limit `toolCalls` was reached. */
  denied: number;
  tokens: number;
  cost: number;
  activeMs: number;
  /** Until when the time of the running batch has been counted. */
  activeSince: number | null;
  /** Consecutive failures, by call digest. */
  failures: Readonly<Record<string, number>>;
};

export const NOTHING_SPENT: Spending = {
  turns: 0,
  fromElsewhere: 0,
  toolCalls: 0,
  denied: 0,
  tokens: 0,
  cost: 0,
  activeMs: 0,
  activeSince: null,
  failures: {},
};

/** Counts the outcome of a call; a success resets the failures of its digest. */
function countOutcome(spending: Spending, digest: string, failed: boolean): Spending {
  const { [digest]: before = 0, ...others } = spending.failures;
  return { ...spending, failures: failed ? { ...others, [digest]: before + 1 } : others };
}

/** Adds what a sub-agent's run spent. */
export function addSpent(spending: Spending, spent: Spent): Spending {
  const { usage } = spent;
  return {
    ...spending,
    turns: spending.turns + spent.turns,
    fromElsewhere: spending.fromElsewhere + spent.turns,
    toolCalls: spending.toolCalls + spent.toolCalls,
    tokens: spending.tokens + (usage === null ? 0 : usage.inputTokens + usage.outputTokens),
    cost: spending.cost + spent.cost,
    activeMs: spending.activeMs + spent.activeMs,
  };
}

/** Describes the limit that is reached, or returns `null`. `toolCalls` is reached once a call was refused for it. */
export function findSpentLimit(spending: Spending, limits: Limits): string | null {
  const counts: [string, number, number | undefined][] = [
    ['turns', spending.turns, limits.turns],
    [
      'toolCalls',
      spending.denied === 0 ? 0 : spending.toolCalls,
      spending.denied === 0 ? 1 : limits.toolCalls,
    ],
    ['tokens', spending.tokens, limits.tokens],
    ['cost', spending.cost, limits.cost],
    ['activeMs', spending.activeMs, limits.activeMs],
    ['repeatedFailures', mostFailures(spending), limits.repeatedFailures],
  ];
  const reached = counts.find(([, used, limit]) => limit !== undefined && used >= limit);
  return reached === undefined
    ? null
    : `the limit ${reached[0]} was reached (${reached[1]} of ${reached[2]})`;
}

/** Returns the highest number of consecutive failures of one call. */
export function mostFailures({ failures }: Spending): number {
  return Object.values(failures).reduce((most, count) => Math.max(most, count), 0);
}
