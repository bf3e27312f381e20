import {
  type CallJudge,
  combineRulings,
  findRulings,
  historyBefore,
  judgeCalls,
} from '../../engine/services/judge-calls.ts';
import { askApproval } from '../../engine/services/qualify-calls.ts';
import { toolsIn } from '../../engine/sub-agents/hand-back.ts';
import { findCall, qualifiedOf } from '../../machines/calls.ts';
import type { Call, Context } from '../../machines/context.ts';
import { dutiesOf } from '../../machines/duties.ts';
import { recordItems } from '../../machines/ledger.ts';
import { messageOf } from '../../protocol/error.ts';
import type { CallVerdict, Duties, JournalEntry, QualifiedCall } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import type { PastCall } from '../../protocol/rule.ts';
import { type ApprovalCall, type ReadApproval, readApproval, type Tool } from '../../protocol/tool.ts';
import { isCondition, selects } from '../../rules/condition.ts';
import { type JudgedCall, judgeByRule, type Rule, type Ruling, type Surroundings } from '../../rules/rule.ts';
import type { RuledAgent } from '../ruled-agents.ts';
import type { RedactionWatch } from './redaction-watch.ts';
import {
  type BacktestCase,
  describeThen,
  didSame,
  type RecordedOutcome,
  type Tally,
  type Unjudged,
  type UnjudgedCode,
} from './report.ts';
import { type ThreadHistory, watchInput } from './thread-history.ts';

/** What is counted of an agent: by rule, and by tool for approval functions. */
export type Tallies = { rules: ReadonlyMap<string, Tally>; approvals: ReadonlyMap<string, Tally> };

export type Finding =
  | { type: 'case'; tally: Tally; found: BacktestCase }
  | { type: 'unjudged'; tally: Tally | null; found: Omit<Unjudged, 'count'> };

type Parts = {
  runId: string;
  agent: RuledAgent;
  tallies: Tallies;
  watch: RedactionWatch;
  /** The rules that have read something redacted of a thread: what they made of it is kept. */
  misled: WeakMap<readonly PastCall[], Set<Rule>>;
  history: ThreadHistory;
  isRedacted: boolean;
  /** It begins with the entries of another run. */
  isCopy: boolean;
};

/** What the rules said of one call, and of which rules nothing is known. */
type Heard = { rulings: Ruling[]; unjudged: Map<string, { code: UnjudgedCode; message: string }> };

type Judging = {
  seq: number;
  place: BacktestCase['place'];
  /** As the judge of the run had it. */
  context: Context;
  open?: readonly Call[];
  /** Calls that the entry leaves as they were are judged by, and not judged. */
  isNew?(call: QualifiedCall): boolean;
  /** The person who changed the call has approved it. */
  isApproved?: true;
};

type Qualifying = Judging & { round: readonly QualifiedCall[]; judge: CallJudge };

/**
 * Judges the calls of a run by rules and approval functions of today, with the functions and at the places of the engine.
 *
 * K1 A run is judged as it went: what it refused has not happened, and what it did has, whatever the rules say of it now.
 * K2 A call is judged where its turn made it, where a person changed it, and where it began; there not again what was said
 *    before, and not at all if it would have been refused.
 * K3 What a fork or a migration has copied is not counted again.
 * K4 No rule counts that has read something redacted, that depends on a history that is not known, or that fails.
 */
export class RunJudge {
  readonly findings: Finding[] = [];
  calls = 0;
  readonly #parts: Parts;
  readonly #unjudged = new Map<Tally | null, Set<string>>();
  /** By call, rule and verdict. */
  readonly #told = new Map<string, BacktestCase>();
  #isCopy: boolean;
  /** By call of the round. */
  #said = new Map<string, CallVerdict[]>();
  #refused = new Set<string>();
  #heard = new Map<string, Heard>();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#isCopy = parts.isCopy;
  }

  /** Judges the calls that an entry makes, changes or begins. `context`: before the entry. */
  async take(context: Context, { seq, event }: JournalEntry): Promise<void> {
    switch (event.type) {
      case 'run.claimed':
        this.#isCopy = false;
        return;
      case 'turn.completed':
        if (event.calls.length === 0) return;
        this.#said.clear();
        this.#refused.clear();
        return await this.#judgeMade(event.calls, {
          seq,
          place: 'turn',
          context: recordItems(context, event.items),
        });
      case 'turn.edited':
      case 'transcript.edited': {
        const ids = new Set(event.calls.map(({ callId }) => callId));
        const known = new Map(context.calls.map(({ callId, digest }) => [callId, digest]));
        const given = 'results' in event ? (event.results ?? []) : [];
        for (const { callId } of given) ids.delete(callId);
        const isNew = ({ callId, digest }: QualifiedCall) => ids.has(callId) && known.get(callId) !== digest;
        const open = context.calls.filter(({ callId }) => ids.has(callId));
        return await this.#judgeMade(event.calls, { seq, place: 'edit', context, open, isNew });
      }
      case 'call.edited':
        return await this.#judgeMade([event.call], { seq, place: 'edit', context, open: context.calls });
      case 'approval.decided': {
        const { callId, decision } = event;
        const call = findCall(context, callId);
        if (decision.type !== 'approve' || decision.input === undefined || call === undefined) return;
        const { editDigest = call.digest, input, duties, verdicts } = decision;
        const { verdicts: _, ...bare } = qualifiedOf(call);
        const edited = { ...bare, input, digest: editDigest, ...duties, ...omitUndefined({ verdicts }) };
        const isApproved = true;
        return await this.#judgeMade([edited], {
          seq,
          place: 'edit',
          context,
          open: context.calls,
          isApproved,
        });
      }
      case 'call.judged': {
        const { callId, verdicts, duties = {} } = event;
        const enforced = verdicts.filter(({ shadow }) => shadow !== true);
        const asks = enforced.length > 0 && enforced.every(({ verdict }) => verdict === 'ask');
        return this.#judgeStart(callId, { seq, context, recorded: { verdicts, gate: asks, duties } });
      }
      case 'tool.started': {
        const call = findCall(context, event.callId);
        if (call === undefined) return;
        const recorded = { verdicts: [], gate: call.gate, duties: dutiesOf(call) };
        return this.#judgeStart(event.callId, { seq, context, recorded });
      }
      default:
    }
  }

  async #judgeMade(recorded: readonly QualifiedCall[], judging: Judging): Promise<void> {
    const { context, open = [], isNew = () => true, isApproved = false } = judging;
    const judge = this.#judgeIn(context);
    const round = recorded.map(call => this.#watch(call));
    const made: QualifiedCall[] = [];
    for (const [index, call] of round.entries()) {
      const bare = unruled(call);
      const isWatched = call !== recorded[index];
      made.push(
        isNew(call) ? await this.#qualify(bare, call, { ...judging, round, judge, isWatched }) : bare,
      );
    }
    this.#heard.clear();
    const judged = judgeCalls(
      made,
      open.map(call => this.#watch(call)),
      judge,
    );
    for (const [index, { callId, name, verdicts = [], error }] of judged.entries()) {
      const call = recorded[index];
      if (call === undefined || !isNew(call)) continue;
      this.#said.set(callId, verdicts);
      if (error === undefined) this.#refused.delete(callId);
      else this.#refused.add(callId);
      const was = { verdicts: call.verdicts ?? [], gate: isApproved || call.gate, duties: dutiesOf(call) };
      if (made[index]?.error === undefined) this.#tell({ callId, name }, verdicts, was, judging);
    }
  }

  /** The call as the agent has it now, with what its approval says. One that it would refuse has an `error`. */
  async #qualify(
    call: QualifiedCall,
    recorded: QualifiedCall,
    judging: Qualifying & { isWatched: boolean },
  ): Promise<QualifiedCall> {
    if (call.error !== undefined) return call;
    const { name, input } = call;
    const { agent } = this.#parts;
    const tool = toolsIn(agent.tools, judging.context).get(name);
    const refuse = (code: UnjudgedCode, message: string) => {
      this.#note(null, call, { code, message, seq: judging.seq });
      return { ...call, error: `Not run: ${message}` };
    };
    if (tool === undefined && agent.lacks === undefined)
      return refuse('tool-missing', `the agent has no tool "${name}"`);
    const fault = tool && !judging.isWatched ? await findFault(tool, input) : undefined;
    if (fault !== undefined)
      return refuse('input-invalid', `the tool "${name}" does not take the input: ${fault}`);
    if (!this.#isCopy) this.calls += 1;
    const approval = tool && (await this.#askApproval(tool, call, recorded, judging));
    return { ...call, gate: approval?.required ?? false, ...(approval?.required && dutiesOf(approval)) };
  }

  /** What the tool's approval says now. A function is counted. */
  async #askApproval(
    tool: Tool,
    call: QualifiedCall,
    recorded: QualifiedCall,
    { seq, place, isApproved, round, judge }: Qualifying,
  ): Promise<ReadApproval | undefined> {
    if (tool.fixedApproval !== undefined) return readApproval(tool.fixedApproval);
    const tally = this.#parts.tallies.approvals.get(tool.name);
    if (tally === undefined || isApproved) return undefined;
    const { callId, name, input } = call;
    const { runId, history, watch } = this.#parts;
    let readsHistory = false;
    const asked = { callId, runId, name, input, runContext: judge.context.runContext };
    const get = () => {
      readsHistory = true;
      return historyBefore(call, round.map(bareCall), judge);
    };
    watch.take();
    const found = await askApproval(tool, Object.defineProperty(asked, 'history', { get }) as ApprovalCall);
    const why = whyUnjudged({
      isRedacted: watch.take(),
      missing: readsHistory ? history.missing : undefined,
      failed: found.hasFailed ? found.reason : undefined,
    });
    if (why !== undefined) {
      this.#note(tally, call, { ...why, seq });
      return undefined;
    }
    const was = { verdicts: recorded.verdicts ?? [], gate: recorded.gate, duties: dutiesOf(recorded) };
    const duties = dutiesOf(found);
    const at = { runId, seq, callId, tool: name, place, ...describeThen(was) };
    if (found.required) {
      const same = didSame({ rule: '', verdict: 'ask' }, duties, was);
      const { reason } = found;
      this.#add(tally, { ...at, now: 'ask', same, ...duties, ...omitUndefined({ reason }) });
    } else if (recorded.gate && !was.verdicts.some(isEnforced) && !this.#parts.agent.hasGuardrails)
      this.#add(tally, { ...at, now: 'allow', same: false });
    return found;
  }

  /** Right before its first attempt, a call is judged by what has happened since its turn. */
  #judgeStart(
    callId: string,
    { seq, context, recorded }: { seq: number; context: Context; recorded: RecordedOutcome },
  ): void {
    const call = findCall(context, callId);
    if (call?.status !== 'queued' || call.attempt > 0) return;
    if (context.config.playsResultsOf !== undefined) return;
    // What is said where the turn made the call, the run may have said here.
    for (const verdict of recorded.verdicts) {
      const told = this.#told.get(keyOf(callId, verdict));
      if (told !== undefined) told.same = true;
    }
    const judge = this.#judgeIn(context);
    const isKnown = judge.tools.has(call.name) || this.#parts.agent.lacks !== undefined;
    if (!isKnown || this.#refused.has(callId)) return;
    const said = this.#said.get(callId) ?? [];
    this.#heard.clear();
    const { verdicts: _, ...bare } = this.#watch(call);
    const asked = said.length === 0 ? bare : { ...bare, verdicts: said };
    const round = context.calls.map(one => this.#watch(one));
    const { verdicts = [], refusal } = combineRulings(
      findRulings(asked, round, judge),
      undefined,
      context.now,
    );
    this.#said.set(callId, [...said, ...verdicts]);
    if (refusal !== undefined) this.#refused.add(callId);
    this.#tell(call, verdicts, recorded, { seq, place: 'start', context });
  }

  #judgeIn(context: Context): CallJudge {
    const { agent, history, isRedacted, watch } = this.#parts;
    const watched = isRedacted
      ? {
          ...context,
          history: (context.history ?? []).map(call => watchInput(call, watch)),
          ...(countRedactions(context.runContext) > 0 && { runContext: watch.over(context.runContext) }),
        }
      : context;
    return {
      rules: agent.rules,
      tools: toolsIn(agent.tools, context),
      context: watched,
      past: history.calls,
      now: context.now,
      ask: (rules, call, around) => this.#ask(rules, call, around),
    };
  }

  #ask(rules: readonly Rule[], call: JudgedCall, around: Surroundings): Ruling[] {
    const heard: Heard = { rulings: [], unjudged: new Map() };
    this.#heard.set(call.callId, heard);
    for (const rule of rules) {
      const { watch, history } = this.#parts;
      watch.take();
      const ruling = judgeByRule(rule, call, around);
      const isConcerned = !isCondition(rule.when) || rule.when.about.some(one => selects(one, call));
      const why = isConcerned
        ? whyUnjudged({
            isRedacted: this.#isMisled(rule, around.past),
            missing: dependsOnThread(rule) ? history.missing : undefined,
            failed: ruling?.hasFailed ? ruling.reason : undefined,
          })
        : undefined;
      if (why !== undefined) heard.unjudged.set(rule.name, why);
      else if (ruling !== undefined) heard.rulings.push(ruling);
    }
    return heard.rulings;
  }

  #isMisled(rule: Rule, past: readonly PastCall[]): boolean {
    const { watch, history, misled } = this.#parts;
    const wasRead = watch.take();
    if (!history.isRedacted || rule.per === 'run') return wasRead;
    const known = misled.get(past) ?? new Set();
    misled.set(past, known);
    if (wasRead) known.add(rule);
    return known.has(rule);
  }

  /** Counts what the rules say of a call, and what they said in the run and no longer say. */
  #tell(
    { callId, name }: Pick<QualifiedCall, 'callId' | 'name'>,
    verdicts: readonly CallVerdict[],
    recorded: RecordedOutcome,
    { seq, place }: Pick<Judging, 'seq' | 'place' | 'context'>,
  ): void {
    const { runId, tallies } = this.#parts;
    const { rulings = [], unjudged = new Map() } = this.#heard.get(callId) ?? {};
    const at = { runId, seq, callId, tool: name, place, ...describeThen(recorded) };
    for (const [rule, why] of unjudged)
      this.#note(tallies.rules.get(rule) ?? null, { callId, name }, { ...why, seq });
    for (const verdict of verdicts) {
      const tally = tallies.rules.get(verdict.rule);
      const ruling = rulings.find(({ rule }) => rule === verdict.rule);
      if (tally === undefined || ruling === undefined) continue;
      const duties: Duties = ruling.asked === undefined ? {} : dutiesOf(ruling.asked);
      const { verdict: now } = verdict;
      const same = didSame(verdict, duties, recorded);
      const found = { ...at, now, same, ...duties, reason: ruling.reason };
      this.#told.set(keyOf(callId, verdict), found);
      this.#add(tally, found);
    }
    const said = this.#said.get(callId) ?? [];
    for (const { rule } of recorded.verdicts) {
      const tally = tallies.rules.get(rule);
      if (tally === undefined || unjudged.has(rule) || said.some(one => one.rule === rule)) continue;
      this.#add(tally, { ...at, now: 'allow', same: false });
    }
  }

  #add(tally: Tally, found: BacktestCase): void {
    if (!this.#isCopy) this.findings.push({ type: 'case', tally, found });
  }

  /** A call that cannot be judged at several places counts once. */
  #note(
    tally: Tally | null,
    { callId, name }: Pick<QualifiedCall, 'callId' | 'name'>,
    { code, message, seq }: { code: UnjudgedCode; message: string; seq: number },
  ): void {
    const known = this.#unjudged.get(tally) ?? new Set();
    this.#unjudged.set(tally, known);
    if (this.#isCopy || known.has(callId)) return;
    known.add(callId);
    const found = { code, message, runId: this.#parts.runId, seq, callId, tool: name };
    this.findings.push({ type: 'unjudged', tally, found });
  }

  #watch<Made extends QualifiedCall>(call: Made): Made {
    return this.#parts.isRedacted ? watchInput(call, this.#parts.watch) : call;
  }
}

/** The call before the rules were asked about it. */
function unruled({ verdicts, error, ...call }: QualifiedCall): QualifiedCall {
  const isRefused = verdicts?.some(isEnforced) === true;
  return error === undefined || isRefused ? call : { ...call, error };
}

function keyOf(callId: string, verdict: CallVerdict): string {
  return JSON.stringify([callId, verdict.rule, verdict.verdict, verdict.shadow === true]);
}

function isEnforced({ shadow }: CallVerdict): boolean {
  return shadow !== true;
}

function bareCall({ callId, name, input }: QualifiedCall) {
  return { callId, name, input };
}

/** Why the tool does not take an input; `undefined` if it does. */
async function findFault(tool: Tool, input: QualifiedCall['input']): Promise<string | undefined> {
  try {
    const validation = await tool.validate(input);
    return validation.valid ? undefined : validation.message;
  } catch (error) {
    return messageOf(error);
  }
}

/** Whether a rule may depend on calls of earlier runs. */
function dependsOnThread({ when, per }: Rule): boolean {
  return per === 'thread' && (!isCondition(when) || when.automata.length > 0);
}

function whyUnjudged({
  isRedacted,
  missing,
  failed,
}: {
  isRedacted: boolean;
  missing: string | undefined;
  failed: string | undefined;
}): { code: UnjudgedCode; message: string } | undefined {
  if (missing !== undefined) return { code: 'history-missing', message: missing };
  if (isRedacted) return { code: 'redacted', message: 'it reads what was redacted' };
  return failed === undefined ? undefined : { code: 'failed', message: failed };
}
