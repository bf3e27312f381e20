import { type CallJudge, combineRulings, findRulings, judgeCalls } from '../engine/services/judge-calls.ts';
import { qualifiedOf } from '../machines/calls.ts';
import type { Call } from '../machines/context.ts';
import { dutiesOf } from '../machines/duties.ts';
import type { ChartState } from '../machines/step.ts';
import type { ChartEvent, QualifiedCall } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Condition } from '../rules/condition.ts';
import { judgeByRules, type Rule } from '../rules/rule.ts';
import { isSame } from './built-in-invariants.ts';
import type { ExploredTool } from './describe-agent.ts';

/** Where a condition's automata are, after the calls that have settled. */
export type StatesOf = (condition: Condition) => readonly number[];

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

/**
 * What the engine makes of an event before the chart gets it, because of the agent's rules: it judges the calls that a turn
 * has made, those that people change, and those that are about to start. Functions are not called, and what is in the shadow
 * changes nothing.
 */
export class RuleEnforcer {
  readonly #rules: readonly Rule[];
  readonly #tools: readonly ExploredTool[];
  readonly #known: CallJudge['tools'];

  constructor(rules: readonly Rule[], tools: readonly ExploredTool[]) {
    this.#rules = rules.filter(({ when, isShadow }) => typeof when !== 'function' && !isShadow);
    this.#tools = tools;
    this.#known = new Map(
      tools.map(({ name, tags, isSubAgent }) => [
        name,
        omitUndefined({ tags, subAgent: isSubAgent ? { name } : undefined }),
      ]),
    );
  }

  /** The event as it reaches the chart; `null` if the engine refuses the command. */
  apply({ context }: ChartState, event: ChartEvent, statesOf: StatesOf): ChartEvent | null {
    if (this.#rules.length === 0) return event;
    const { runContext, transcript, ledger, edits, background, people } = context;
    const judge: CallJudge = {
      rules: this.#rules,
      tools: this.#known,
      context: {
        history: [],
        transcript,
        ledger,
        edits,
        background,
        people,
        ...omitUndefined({ runContext }),
      },
      past: [],
      now: event.at,
      ask: (rules, call, around) => judgeByRules(rules, call, { ...around, statesOf }),
    };
    switch (event.type) {
      case 'turn.completed':
        return { ...event, calls: judgeCalls(event.calls, [], judge) };
      case 'turn.edited':
      case 'transcript.edited':
        return this.#judgeRound(event, context.calls, judge);
      case 'call.edited': {
        const [call] = judgeCalls([this.#bare(event.call)], context.calls, judge);
        return call === undefined || isRefused(call) ? null : { ...event, call };
      }
      case 'approval.decided':
        return this.#judgeApproval(event, context.calls, judge);
      case 'tool.started':
        return judgeStart(event, context.calls, judge);
      default:
        return event;
    }
  }

  /** A call that is known keeps what is known of it. */
  #judgeRound(
    event: Of<'turn.edited'> | Of<'transcript.edited'>,
    open: readonly Call[],
    judge: CallJudge,
  ): ChartEvent | null {
    const isKnown = ({ callId, digest }: QualifiedCall) =>
      open.some(one => one.callId === callId && one.digest === digest);
    const ids = new Set(event.calls.map(({ callId }) => callId));
    const kept = open.filter(({ callId }) => ids.has(callId));
    const bare = event.calls.map(call => (isKnown(call) ? call : this.#bare(call)));
    const judged = judgeCalls(bare, kept, judge);
    const calls = event.calls.map((call, at) => (isKnown(call) ? call : (judged[at] ?? call)));
    const isRefusal = event.type === 'turn.edited' && calls.some(call => !isKnown(call) && isRefused(call));
    return isRefusal ? null : { ...event, calls };
  }

  /** An edited input is judged as the call that it makes. */
  #judgeApproval(event: Of<'approval.decided'>, open: readonly Call[], judge: CallJudge): ChartEvent | null {
    const { decision, callId } = event;
    const known = open.find(call => call.callId === callId);
    if (known === undefined || decision.type !== 'approve' || decision.input === undefined) return event;
    const { input, editDigest = known.digest } = decision;
    const edited = this.#bare({ ...qualifiedOf(known), input, digest: editDigest });
    const [call] = judgeCalls([edited], open, judge);
    if (call === undefined || isRefused(call)) return null;
    const { duties: _, ...rest } = decision;
    const duties = dutiesOf(call);
    const hasAny = Object.keys(duties).length > 0;
    const judged = { ...(hasAny && { duties }), ...omitUndefined({ verdicts: call.verdicts }) };
    return { ...event, decision: { ...rest, ...judged } };
  }

  /** The call as its tool alone would have it: the approval that it may do without, if it may. */
  #bare({ verdicts, by, not, quorum, reason, gate: _, ...call }: QualifiedCall): QualifiedCall {
    const tool = this.#tools.find(({ name }) => name === call.name);
    const gates = tool?.calls.find(({ input }) => isSame(input, call.input))?.gates ?? [];
    const { expiresInMs: __, ...gate } = gates.find(one => !one.gate) ?? gates[0] ?? { gate: false };
    return { ...call, ...gate };
  }
}

/** What is said of a call right before its first attempt, in place of its start. */
function judgeStart(event: Of<'tool.started'>, calls: readonly Call[], judge: CallJudge): ChartEvent {
  const { callId, at, generation } = event;
  const call = calls.find(one => one.callId === callId);
  if (call?.status !== 'queued' || call.attempt > 0) return event;
  const { verdicts, refusal, gate } = combineRulings(findRulings(call, calls, judge), undefined, at);
  if (verdicts === undefined) return event;
  return {
    type: 'call.judged',
    callId,
    verdicts,
    ...omitUndefined({ reason: refusal }),
    ...gate,
    at,
    generation,
  };
}

function isRefused({ verdicts, error }: QualifiedCall): boolean {
  return verdicts !== undefined && error !== undefined;
}
