import type { Call, CallStatus, Context } from '../../machines/context.ts';
import { dutiesOf, hasDuties } from '../../machines/duties.ts';
import { ownHistory } from '../../machines/history.ts';
import { wasBegun } from '../../machines/ledger.ts';
import { messageOf } from '../../protocol/error.ts';
import type { CallVerdict, Duties, QualifiedCall } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { oncePer } from '../../protocol/once-per.ts';
import { isRedaction } from '../../protocol/redaction.ts';
import type { HistoryCall, PastCall } from '../../protocol/rule.ts';
import type { ReadApproval, Tool } from '../../protocol/tool.ts';
import {
  type JudgedCall,
  judgeByRules,
  listHistory,
  type Rule,
  type Ruling,
  type Surroundings,
} from '../../rules/rule.ts';
import { combineApprovals } from './guardrails.ts';

/**
 * Judges calls by the rules of the agent.
 *
 * J1 A call is judged when its turn has made it, when a person changes it, and right before its first attempt.
 * J2 The open calls of the round, and background work, count as what may have happened; calls that cannot run do not.
 * J3 A verdict stands with the call: a rule that asked is not asked again about the call as it is.
 */
export type CallJudge = {
  rules: readonly Rule[];
  tools: ReadonlyMap<string, Pick<Tool, 'tags' | 'subAgent'>>;
  context: Pick<
    Context,
    'history' | 'ledger' | 'transcript' | 'edits' | 'runContext' | 'background' | 'people'
  >;
  /** The history of the runs that this one continues. */
  past: readonly PastCall[];
  now: number;
  /** Asks the rules. Default: `judgeByRules`. */
  ask?: typeof judgeByRules;
};

/** A call of the round. Without a status, it is about to be admitted. */
type RoundCall = QualifiedCall & { status?: CallStatus; attempt?: number };

/**
 * Judges qualified calls in their order. `open`: the calls of their round that are known, in whose places those with the
 * same id come.
 */
export function judgeCalls(
  calls: readonly QualifiedCall[],
  open: readonly Call[],
  judge: CallJudge,
): QualifiedCall[] {
  if (judge.rules.length === 0) return [...calls];
  const round = joinRound(calls, open);
  const places = new Map(round.map(({ callId }, place) => [callId, place]));
  return calls.map(call => {
    if (call.error !== undefined) return call;
    const judged = { ...call, ...applyRulings(call, findRulings(call, round, judge), judge.now) };
    const place = places.get(call.callId);
    if (place !== undefined) round[place] = { ...round[place], ...judged };
    return judged;
  });
}

/** A known call that is not changed keeps its status. */
function joinRound(calls: readonly QualifiedCall[], open: readonly Call[]): RoundCall[] {
  const given = new Map(calls.map(call => [call.callId, call]));
  const known = open.map(call => {
    const now = given.get(call.callId) ?? call;
    return now.digest === call.digest ? call : now;
  });
  const ids = new Set(open.map(({ callId }) => callId));
  return [...known, ...calls.filter(({ callId }) => !ids.has(callId))];
}

/** What the rules say of one call of the round that they have not said before. */
export function findRulings(call: RoundCall, round: readonly RoundCall[], judge: CallJudge): Ruling[] {
  const { verdicts = [] } = call;
  const isNew = ({ rule, verdict, isShadow }: Ruling) =>
    !verdicts.some(one => one.rule === rule && one.verdict === verdict && (one.shadow === true) === isShadow);
  const around = { ...surround(call, round, judge), runContext: judge.context.runContext };
  const { ask = judgeByRules, rules } = judge;
  return ask(rules, viewOf(call, judge), around)
    .map(found =>
      found.hasFailed && found.asked ? { ...found, asked: askOthers(found.asked, judge) } : found,
    )
    .filter(isNew);
}

/** If a failed function could not say who may decide: anyone but who started the run, if that is known. */
export function askOthers(asked: ReadApproval, { context }: Pick<CallJudge, 'context'>): ReadApproval {
  const { starters } = context.people;
  const isKnown = starters.length > 0 && starters.every(one => one !== null && !isRedaction(one));
  return hasDuties(asked) || !isKnown ? asked : { ...asked, not: 'starter' };
}

/** What came before a call of the round, for its approval function. */
export function historyBefore(call: MadeCall, round: readonly MadeCall[], judge: CallJudge): HistoryCall[] {
  return listHistory(surround(call, round, judge));
}

/** A call of a round, as far as others are judged by it. */
type MadeCall = Pick<RoundCall, 'callId' | 'name' | 'input' | 'tags' | 'error' | 'status' | 'attempt'>;

function surround(
  call: MadeCall,
  round: readonly MadeCall[],
  judge: CallJudge,
): Omit<Surroundings, 'runContext'> {
  const place = round.findIndex(({ callId }) => callId === call.callId);
  const siblings = round.flatMap((one, at) =>
    at === place || one.error !== undefined || one.status === 'settled'
      ? []
      : [{ isEarlier: at < place || hasBegun(one), view: viewOf(one, judge) }],
  );
  return {
    past: tagAll(judge.past)(judge.tools),
    own: ownHistory(judge.context).map(tagPast(judge.tools)),
    earlier: [
      ...judge.context.background.map(work => viewOf(work, judge)),
      ...siblings.flatMap(({ isEarlier, view }) => (isEarlier ? view : [])),
    ],
    later: siblings.flatMap(({ isEarlier, view }) => (isEarlier ? [] : view)),
  };
}

function hasBegun({ status, attempt = 0 }: MadeCall): boolean {
  return status !== undefined && wasBegun({ status, attempt });
}

function viewOf({ callId, name, input, tags }: MadeCall, { tools }: CallJudge): JudgedCall {
  const isSubAgent = tools.get(name)?.subAgent !== undefined;
  return { callId, name, input, tags: tagsOf({ name, tags }, tools), isSubAgent };
}

type Tools = CallJudge['tools'];

/** Those that the call was recorded with, and those that its tool has now. */
function tagsOf(
  { name, tags = [] }: { name: string; tags?: readonly string[] | undefined },
  tools: Tools,
): string[] {
  return [...new Set([...tags, ...(tools.get(name)?.tags ?? [])])];
}

function tagCall(call: PastCall, tools: Tools): PastCall {
  const tags = tagsOf(call, tools);
  return tags.length === 0 ? call : { ...call, tags };
}

/** Earlier runs do not change: each run of a long thread has all calls before it. */
const tagAll = oncePer((past: readonly PastCall[]) =>
  oncePer((tools: Tools): readonly PastCall[] => past.map(tagPast(tools))),
);

const tagPast = oncePer((tools: Tools) => oncePer((call: PastCall) => tagCall(call, tools)));

/** What rulings make of a call that was not admitted. */
function applyRulings(call: QualifiedCall, rulings: readonly Ruling[], now: number): Partial<QualifiedCall> {
  const { gate: required, reason, expiresAt } = call;
  const own = {
    required,
    ...dutiesOf(call),
    ...omitUndefined({ reason, expiresInMs: expiresAt && expiresAt - now }),
  };
  const { verdicts, refusal, gate } = combineRulings(rulings, own, now);
  if (verdicts === undefined) return {};
  if (refusal !== undefined) return { verdicts, gate: false, error: `Not run: ${refusal}` };
  if (gate === undefined) return { verdicts };
  const { duties, ...asked } = gate;
  return { verdicts, gate: true, ...duties, ...asked };
}

type Combined = {
  /** Absent if every rule allows the call. */
  verdicts?: CallVerdict[];
  /** Why the call is not run. */
  refusal?: string;
  gate?: { reason?: string; duties?: Duties; expiresAt?: number };
};

/** `own`: what the call needs anyway. */
export function combineRulings(
  rulings: readonly Ruling[],
  own: ReadApproval | undefined,
  now: number,
): Combined {
  if (rulings.length === 0) return {};
  const verdicts = rulings.map(({ rule, verdict, isShadow }) => ({
    rule,
    verdict,
    ...(isShadow && { shadow: true as const }),
  }));
  const enforced = rulings.filter(({ isShadow }) => !isShadow);
  const refusing =
    enforced.find(({ verdict }) => verdict === 'stop') ?? enforced.find(({ verdict }) => verdict === 'block');
  if (refusing !== undefined) return { verdicts, refusal: asSentence(refusing.reason) };
  const asks = enforced.flatMap(({ asked }) => asked ?? []);
  if (asks.length === 0) return { verdicts };
  try {
    const asked = asks.reduce(combineApprovals, own);
    const { reason, expiresInMs } = asked ?? {};
    const duties = asked && dutiesOf(asked);
    const hasAny = duties !== undefined && Object.keys(duties).length > 0;
    const expiresAt = expiresInMs === undefined ? undefined : now + expiresInMs;
    return { verdicts, gate: omitUndefined({ reason, duties: hasAny ? duties : undefined, expiresAt }) };
  } catch (error) {
    const blocked = verdicts.map(one => (one.shadow === true ? one : { ...one, verdict: 'block' as const }));
    return { verdicts: blocked, refusal: asSentence(messageOf(error)) };
  }
}

function asSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
