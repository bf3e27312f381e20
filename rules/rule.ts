import { invalidAgent, messageOf } from '../protocol/error.ts';
import type { JsonValue } from '../protocol/json.ts';
import { omitUndefined } from '../protocol/json.ts';
import { oncePer } from '../protocol/once-per.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { HistoryCall, PastCall, RuleVerdict } from '../protocol/rule.ts';
import { type Approval, type ReadApproval, readApproval } from '../protocol/tool.ts';
import { type Automaton, type Condition, isCondition, type RuleCall, type Worlds } from './condition.ts';

/** An approval that a rule asks for. */
export type RuleAsk = { type: 'ask' } & Omit<Extract<Approval, object>, 'required'>;

/** A refusal with a reason of its own, which the model reads. */
export type RuleRefusal = { type: 'block' | 'stop'; reason: string };

/** What a function answers: `true` for what the rule's `then` says, `false` or `allow` if it allows the call. */
export type RuleAnswer = boolean | 'allow' | RuleVerdict | RuleAsk | RuleRefusal;

/** A rule as a function: of the call, what came before it in the thread, and what `agent.start` was given. */
export type RuleFunction<RunContext = unknown> = (about: {
  call: { callId: string; name: string; tags: readonly string[]; input: JsonValue };
  history: readonly HistoryCall[];
  runContext: RunContext;
}) => RuleAnswer;

/** The options of `rule`. `RunContext` is the type of the run's context. */
export type RuleOptions<RunContext = unknown> = {
  /** Names the rule in journals and reports. Default: the words of the condition. */
  name?: string;
  /** What breaks the rule: a condition, which `explore` can prove, or a function, which it cannot. */
  when: Condition | RuleFunction<RunContext>;
  /**
   * What becomes of a call that breaks the rule. `block`: the model reads the reason as the result. `ask`: it needs an
   * approval, with the members of a tool's approval. `stop`: it is refused too, and the run ends, incomplete. Default:
   * what the condition says, which is `block` unless it `asks`.
   */
  then?: RuleVerdict | RuleAsk;
  /** For people, and for the model. Default: the words of the condition. */
  reason?: string;
  /** With `shadow`, verdicts are recorded and change nothing. Default `enforce`. */
  mode?: 'enforce' | 'shadow';
  /** Whether the calls of the whole thread count, which is the default, or only those of the run. */
  per?: 'thread' | 'run';
};

const NAMES = optionNames<RuleOptions>()('name when then reason mode per');
const ASK_NAMES = optionNames<Omit<RuleAsk, 'type'>>()('reason by not quorum expiresInMs');
const VERDICTS: readonly unknown[] = ['block', 'ask', 'stop'] satisfies RuleVerdict[];

/** A rule over the calls of a thread. Made by `rule`; a condition alone is one too. */
export type Rule<RunContext = unknown> = {
  readonly name: string;
  readonly when: Condition | RuleFunction<RunContext>;
  readonly then: RuleVerdict | RuleAsk;
  readonly reason?: string;
  readonly isShadow: boolean;
  readonly per: 'thread' | 'run';
};

/**
 * Makes a rule, for the option `rules` of an agent. Throws `agent-invalid`.
 *
 * @example
 * rule({
 *   name: 'no leaks',
 *   when: never('leaves').after('untrusted'),
 *   then: { type: 'ask', by: 'security' },
 *   reason: 'the run has read text from outside',
 * });
 */
export function rule<RunContext = unknown>(options: RuleOptions<RunContext>): Rule<RunContext> {
  refuseUnknownOptions('rule', options, NAMES);
  const { when, reason, mode = 'enforce', per = 'thread' } = options;
  const isWords = isCondition(when);
  const { name = isWords ? when.words : undefined } = options;
  if (typeof name !== 'string' || name === '' || name.length > LONGEST_NAME)
    throw invalidAgent(`rule: expected a name of up to ${LONGEST_NAME} characters.`);
  const of = `rule "${name}"`;
  if (!isWords && typeof when !== 'function')
    throw invalidAgent(`${of}: expected \`when\` to be a condition, such as never('pay'), or a function.`);
  if (reason !== undefined && (typeof reason !== 'string' || reason === ''))
    throw invalidAgent(`${of}: expected \`reason\` to be a text.`);
  if (mode !== 'enforce' && mode !== 'shadow')
    throw invalidAgent(`${of}: expected \`mode\` to be 'enforce' or 'shadow', got ${JSON.stringify(mode)}.`);
  if (per !== 'thread' && per !== 'run')
    throw invalidAgent(`${of}: expected \`per\` to be 'thread' or 'run', got ${JSON.stringify(per)}.`);
  const { then = isWords ? verdictOfCondition(when) : 'block' } = options;
  readThen(then, message => invalidAgent(`${of}: ${message}`));
  return Object.freeze({ name, when, then, isShadow: mode === 'shadow', per, ...omitUndefined({ reason }) });
}

const LONGEST_NAME = 200;

function verdictOfCondition({ verdict, by }: Condition): RuleVerdict | RuleAsk {
  return verdict === 'ask' && by !== undefined ? { type: 'ask', by } : verdict;
}

/** The rules of an agent, of which each may be a condition alone. Throws `agent-invalid`. */
export function readRules(given: unknown): readonly Rule[] {
  if (!Array.isArray(given)) throw invalidAgent('rules: expected a list of rules.');
  const rules = given.map((one: unknown) => (isCondition(one) ? rule({ when: one }) : readRule(one)));
  const twice = rules.find(({ name }, at) => rules.findIndex(other => other.name === name) < at);
  if (twice !== undefined)
    throw invalidAgent(`rules: "${twice.name}" is there twice. Give each rule a name of its own.`);
  return rules;
}

function readRule(given: unknown): Rule {
  if (Object(given) !== given) return rule(given as RuleOptions);
  const { isShadow, ...options } = Object(given) as Rule & RuleOptions;
  return rule(isShadow === undefined ? options : { ...options, mode: isShadow ? 'shadow' : 'enforce' });
}

type Then = { verdict: RuleVerdict; reason?: string; asked?: ReadApproval };

function readThen(given: unknown, fault: (message: string) => Error): Then {
  if (VERDICTS.includes(given)) {
    const verdict = given as RuleVerdict;
    return { verdict, ...(verdict === 'ask' && { asked: { required: true } }) };
  }
  const { type, ...ask } = Object(given) as Record<string, unknown>;
  if (
    (type === 'block' || type === 'stop') &&
    typeof ask.reason === 'string' &&
    Object.keys(ask).length === 1
  )
    return { verdict: type, reason: ask.reason };
  if (type === 'ask') refuseUnknownOptions("{ type: 'ask' } of a rule", ask, ASK_NAMES);
  const asked = type === 'ask' ? readApproval({ ...ask, required: true }) : undefined;
  if (asked !== undefined) return { verdict: 'ask', asked };
  throw fault(`expected 'block', 'ask', 'stop' or { type, … }, got ${JSON.stringify(given)}.`);
}

/** What a rule says of a call that it does not allow. `asked`: of an `ask`. `hasFailed`: it could not say. */
export type Ruling = Then & { rule: string; isShadow: boolean; reason: string; hasFailed?: true };

/** What a judgement of a call depends on. */
export type Surroundings = {
  /** The calls of earlier runs of the thread, and of this run, that have ended. */
  past: readonly PastCall[];
  own: readonly PastCall[];
  /** Open calls that have begun or come earlier in the turn; and all others, which may happen at any time. */
  earlier: readonly JudgedCall[];
  later: readonly JudgedCall[];
  runContext: unknown;
  /** Where an exploration has the automata of a condition, in the place of `past` and `own`. */
  statesOf?: (condition: Condition) => readonly number[];
};

export type JudgedCall = RuleCall & { callId: string };

/** What the rules say of a call. One that fails asks for an approval. */
export function judgeByRules(rules: readonly Rule[], call: JudgedCall, around: Surroundings): Ruling[] {
  return rules.flatMap(one => judgeByRule(one, call, around) ?? []);
}

export function judgeByRule(one: Rule, call: JudgedCall, around: Surroundings): Ruling | undefined {
  const { name, when, per, isShadow } = one;
  const seen = per === 'run' ? { ...around, past: NONE } : around;
  try {
    if (isCondition(when))
      return when.holds(worldsBefore(when, call, seen), call).may ? rulingOf(one) : undefined;
    return readAnswer(one, when(viewOf(call, seen)));
  } catch (error) {
    const reason = `the rule "${name}" failed: ${messageOf(error)}`;
    const { asked = { required: true } } = rulingOf(one);
    return {
      rule: name,
      isShadow,
      verdict: 'ask',
      asked: { ...asked, reason },
      reason,
      hasFailed: true,
    };
  }
}

const NONE: readonly PastCall[] = [];

function readAnswer(one: Rule, answer: RuleAnswer): Ruling | undefined {
  if (answer === false || answer === 'allow') return undefined;
  if (answer === true) return rulingOf(one);
  return rulingOf(one, answer);
}

/** A ruling, in the form of the rule or of its function's answer. */
export function rulingOf(one: Rule, then: RuleVerdict | RuleAsk | RuleRefusal = one.then): Ruling {
  const { name, isShadow } = one;
  const { verdict, asked, reason } = readThen(then, message => new Error(message));
  const given = reason ?? asked?.reason ?? one.reason ?? unreasoned(one, verdict);
  return {
    rule: name,
    isShadow,
    verdict,
    reason: given,
    ...(asked && { asked: { ...asked, reason: given } }),
  };
}

function unreasoned({ name, when }: Rule, verdict: RuleVerdict): string {
  const words = isCondition(when) ? when.words : name;
  return verdict === 'ask' ? words : `the rule "${words}" does not allow it`;
}

/** The states of a condition's automata before the call. */
function worldsBefore(condition: Condition, call: JudgedCall, around: Surroundings): Worlds[] {
  const { past, own, earlier, later, statesOf } = around;
  const states = statesOf?.(condition);
  return condition.automata.map((automaton, index) => {
    const least = states?.[index] ?? takePast(automaton, own, stateAfter(automaton, past));
    const first = takeOpen(automaton, earlier, least);
    const self = call.isSubAgent === true ? [call] : [];
    return { least, earlier: first, most: takeOpen(automaton, [...later, ...self], first) };
  });
}

/** Earlier runs do not change, and each call of this one is judged after them. */
const statesAfter = oncePer((_: readonly PastCall[]) => new Map<Automaton, number>());

function stateAfter(automaton: Automaton, past: readonly PastCall[]): number {
  const states = statesAfter(past);
  const state = states.get(automaton) ?? takePast(automaton, past, 0);
  states.set(automaton, state);
  return state;
}

function takePast({ take }: Automaton, calls: readonly PastCall[], from: number): number {
  return calls.reduce(
    (state, { name, input, tags = [], outcome }) => take(state, { name, input, tags }, outcome === 'done'),
    from,
  );
}

function takeOpen({ take }: Automaton, calls: readonly RuleCall[], from: number): number {
  return calls.reduce((state, call) => take(state, call, true), from);
}

function viewOf(call: JudgedCall, around: Surroundings) {
  return { call: plain(call), history: listHistory(around), runContext: around.runContext };
}

/** All that counts as having happened before a call, as functions see it. */
export function listHistory({ past, own, earlier, later }: Omit<Surroundings, 'runContext'>): HistoryCall[] {
  const open = (outcome: 'open' | 'later') => (one: JudgedCall) => ({ ...plain(one), outcome });
  return [...viewPast(past), ...own.map(viewCall), ...earlier.map(open('open')), ...later.map(open('later'))];
}

/** Earlier runs do not change, and may be many. */
const viewPast = oncePer((past: readonly PastCall[]) => past.map(viewCall));

function viewCall(one: PastCall): HistoryCall {
  return { ...one, tags: one.tags ?? [] };
}

function plain({ callId, name, tags, input }: JudgedCall) {
  return { callId, name, tags, input };
}
