import type { ChartEvent, Duties } from '../protocol/event.ts';
import type { JsonValue } from '../protocol/json.ts';
import { type Automaton, type Condition, type RuleCall, selects } from '../rules/condition.ts';
import { type Classes, describeOutlook, minimize, saysOf } from './minimize.ts';
import { find, isFor, type ReferenceCall, type ReferenceModel } from './reference-model.ts';

/*
 * Rules are followed beside the chart, by the events of each path alone, and not by what the engine says of its calls.
 *
 * R1 A call begins once: when its first attempt starts, or when a client gets it. Only begun calls count.
 * R2 A rule is broken where a call begins for which its condition holds, unless the rule lets an approval allow it and
 *    such an approval was given for the call as it is.
 * R3 What a condition can still distinguish is part of the state of an exploration.
 */

/** A condition that must hold for no call that begins. */
export type MonitoredRule = {
  name: string;
  condition: Condition;
  /** Whose approval lets a call begin for which it holds. Default: no one's. */
  unless?: Duties;
};

/** What is known of the tools whose calls are followed. */
type KnownTool = { name: string; tags?: readonly string[]; isSubAgent: boolean };

/** Where the rules are on a path. */
export type FollowedRules = {
  /** By rule and automaton: the state after the calls that have settled. */
  settled: readonly (readonly number[])[];
  /** The calls that have begun and not settled, in the order of their beginning. */
  begun: readonly { callId: string; call: RuleCall }[];
  approvals: readonly Approved[];
};

/** An accepted approval: of a call with an input, or also of all later calls of a tool. */
type Approved = {
  callId: string;
  digest: string;
  tool?: string;
  /** Absent for a person without a name. */
  by?: string;
  /** The rules that it satisfies, by index. */
  fits: readonly number[];
};

export type BrokenRule = { name: string; message: string };

type Following = {
  before: ReferenceModel;
  event: ChartEvent;
  /** The expected state after the event. */
  after: ReferenceModel;
};

type Proposed = { name: string; input: JsonValue };

export class Monitor {
  readonly rules: readonly MonitoredRule[];
  readonly start: FollowedRules;
  readonly #tools: ReadonlyMap<string, KnownTool>;
  #begin: { settled: FollowedRules['settled']; calls: readonly RuleCall[]; most: number } | undefined;
  /** Made when they are first needed. */
  #made: readonly (readonly Classes[])[] | undefined;
  readonly #symbols = new Map<string, number>();
  readonly #known = new Map<string, number>();

  constructor(rules: readonly MonitoredRule[], tools: readonly KnownTool[]) {
    this.rules = rules;
    this.#tools = new Map(tools.map(tool => [tool.name, tool]));
    const settled = rules.map(({ condition }) => condition.automata.map(() => 0));
    this.start = { settled, begun: [], approvals: [] };
  }

  /** Where an exploration begins. `calls`: those that are explored; `most`: how many may begin. */
  beginAt({ settled }: FollowedRules, calls: readonly Proposed[], most: number): void {
    this.#begin = { settled, calls: calls.map(call => this.#read(call)), most };
    this.#made = undefined;
    this.#symbols.clear();
    this.#known.clear();
  }

  get #classes(): readonly (readonly Classes[])[] {
    const { settled = [], calls = [], most = 0 } = this.#begin ?? {};
    if (this.#begin === undefined) return [];
    this.#made ??= this.rules.map(({ condition: { automata, selectors } }, rule) => {
      const seen = calls.filter(call => selectors.some(selector => selects(selector, call)));
      return automata.map((one, index) => minimize(one, seen, settled[rule]?.[index] ?? 0, most));
    });
    return this.#made;
  }

  /** Where the automata of the condition of a followed rule are, after the calls that have settled. */
  statesOf({ settled }: FollowedRules, condition: Condition): readonly number[] {
    return settled[this.rules.findIndex(rule => rule.condition === condition)] ?? [];
  }

  /** Calls with the same symbol are equal for all rules. */
  symbolOf({ name, input }: Proposed): number {
    const proposed = `${name} ${JSON.stringify(input)}`;
    const known = this.#known.get(proposed);
    if (known !== undefined) return known;
    const symbol = this.#findSymbol(this.#read({ name, input }));
    this.#known.set(proposed, symbol);
    return symbol;
  }

  #findSymbol(call: RuleCall): number {
    const text = JSON.stringify(
      this.rules.map(({ condition: { selectors } }, index) => [
        selectors.map(selector => (selects(selector, call) ? 1 : 0)).join(''),
        call.isSubAgent,
        this.#classes[index]?.map(({ symbolOf }) => symbolOf(call)),
      ]),
    );
    const known = this.#symbols.get(text) ?? this.#symbols.size;
    this.#symbols.set(text, known);
    return known;
  }

  /** All that can still make a difference to a rule. */
  describe({ settled, begun, approvals }: FollowedRules, { calls }: ReferenceModel): string {
    const states = this.rules.map(({ condition: { automata } }, rule) => {
      const classes = this.#classes[rule] ?? [];
      const before = settled[rule] ?? [];
      const now = takeAll(automata, before, begun);
      return classes.map(({ classOf }, index) => [classOf(before[index] ?? 0), classOf(now[index] ?? 0)]);
    });
    const open = calls.map(({ call, input, digest, stage }) => {
      if (stage === 'settled') return '';
      const isBegun = begun.some(({ callId }) => callId === call.callId);
      if (isBegun) return `${this.symbolOf({ name: call.name, input })} begun`;
      const own = approvals.filter(one => one.callId === call.callId && one.digest === digest);
      return `${this.symbolOf({ name: call.name, input })} ${own.map(one => this.#describeApproval(one))}`;
    });
    const lasting = approvals.flatMap(one =>
      one.tool === undefined ? [] : [`${one.tool} ${this.#describeApproval(one)}`],
    );
    return `${states.join('/')} ${open.join(';')} ${lasting.join(';')}`;
  }

  /**
   * Where the exploration begins: equal for two runs if the rules may still say the same of `calls`, those of the agent,
   * and of the open ones. See `describeOutlook` for a heuristic in it.
   */
  identify(
    { settled, begun, approvals }: FollowedRules,
    { calls: open }: ReferenceModel,
    calls: readonly Proposed[],
  ): string {
    const { most = 0 } = this.#begin ?? {};
    const all = calls.map(call => this.#read(call));
    const rules = this.rules.map(({ name, condition: { automata, selectors } }, rule) => {
      const explored = all.filter(call => selectors.some(selector => selects(selector, call)));
      const now = takeAll(automata, settled[rule] ?? [], begun);
      const words = automata.map((one, index) => {
        const least = settled[rule]?.[index] ?? 0;
        const latest = now[index] ?? 0;
        const outlook = (state: number) => describeOutlook(one, explored, state, most);
        const ofOpen = open.map(({ call: { name: tool }, input, stage }) => {
          if (stage === 'settled') return '';
          const call = this.#read({ name: tool, input });
          const after = [true, false].map(succeeded => outlook(one.take(latest, call, succeeded)));
          return [saysOf(one, least, latest, call), after];
        });
        return [outlook(least), outlook(latest), ofOpen];
      });
      return [name, words];
    });
    const given = approvals.map(one => {
      const place = open.findIndex(({ call: { callId } }) => callId === one.callId);
      return [one.tool ?? place, this.#describeApproval(one)];
    });
    return JSON.stringify([rules, given]);
  }

  /** Who approved counts only where several have to. */
  #describeApproval({ by = '', fits }: Approved): string {
    return `${fits}${fits.some(rule => (this.rules[rule]?.unless?.quorum ?? 1) > 1) ? by : ''}`;
  }

  /** Follows an event, and says which rules it breaks. */
  follow(
    before: FollowedRules,
    { before: past, event, after }: Following,
  ): { now: FollowedRules; broken: BrokenRule[] } {
    const approvals = this.#followApprovals(before.approvals, event, past, after);
    let { settled } = before;
    let { begun } = before;
    for (const one of before.begun) {
      const { callId, call } = one;
      const entry = find(after, callId) ?? after.done.findLast(done => done.call.callId === callId);
      if (entry !== undefined && entry.stage !== 'settled') continue;
      if (after.background.some(work => work.callId === callId)) continue;
      const succeeded = entry?.result?.isError === false && !hasFailed(event, callId);
      settled = settled.map((states, rule) =>
        takeAll(this.rules[rule]?.condition.automata ?? [], states, [{ call }], succeeded),
      );
      begun = begun.filter(other => other !== one);
    }
    const broken: BrokenRule[] = [];
    for (const entry of listBegins(event, past, after)) {
      const { callId, name } = entry.call;
      if (begun.some(one => one.callId === callId)) continue;
      const call = this.#read({ name, input: entry.input });
      broken.push(...this.#findBroken({ settled, begun, approvals }, call, entry));
      begun = [...begun, { callId, call }];
    }
    const isSame = settled === before.settled && begun === before.begun && approvals === before.approvals;
    return { now: isSame ? before : { settled, begun, approvals }, broken };
  }

  #read({ name, input }: Proposed): RuleCall {
    const { tags = [], isSubAgent = false } = this.#tools.get(name) ?? {};
    return { name, input, tags, isSubAgent };
  }

  #followApprovals(
    known: FollowedRules['approvals'],
    event: ChartEvent,
    past: ReferenceModel,
    after: ReferenceModel,
  ): FollowedRules['approvals'] {
    let approvals = known;
    if (event.type === 'approval.decided' && event.decision.type === 'approve') {
      const { callId, decision, by, sticky } = event;
      const tool = find(past, callId)?.call.name;
      const fits = this.rules.flatMap(({ unless }, index) =>
        unless !== undefined && isFor(unless, event, past) ? [index] : [],
      );
      const digest = decision.editDigest ?? event.digest;
      const given: Approved = {
        callId,
        digest,
        fits,
        ...(by === undefined ? {} : { by }),
        ...(sticky === true && tool !== undefined ? { tool } : {}),
      };
      if (fits.length > 0) approvals = [...approvals, given];
    }
    if (event.type === 'call.edited')
      approvals = approvals.filter(({ callId, tool }) => callId !== event.callId || tool !== undefined);
    const isKept = ({ callId, tool, digest }: Approved) =>
      tool !== undefined || find(after, callId)?.digest === digest;
    return approvals.every(isKept) ? approvals : approvals.filter(isKept);
  }

  #findBroken(
    { settled, begun, approvals }: FollowedRules,
    call: RuleCall,
    entry: ReferenceCall,
  ): BrokenRule[] {
    return this.rules.flatMap(({ name, condition, unless }, rule) => {
      const { automata } = condition;
      const before = settled[rule] ?? [];
      const earlier = takeAll(automata, before, begun);
      const most = call.isSubAgent === true ? takeAll(automata, earlier, [{ call }]) : earlier;
      const worlds = automata.map((_, index) => ({
        least: before[index] ?? 0,
        earlier: earlier[index] ?? 0,
        most: most[index] ?? 0,
      }));
      const found = hold(condition, worlds, call);
      if (found === 'no') return [];
      const asked = unless ?? (found === 'unknown' ? {} : undefined);
      const given = approvals.filter(
        one =>
          one.fits.includes(rule) &&
          (one.tool === call.name || (one.callId === entry.call.callId && one.digest === entry.digest)),
      );
      if (asked !== undefined && isEnough(asked, given)) return [];
      const begins = entry.call.executedBy === 'client' ? 'is given to the client' : 'starts';
      const said = name.includes(condition.words) ? '' : `: ${condition.words}`;
      return [
        { name, message: `${call.name} (${entry.call.callId}) ${begins}${describeLack(asked)}${said}` },
      ];
    });
  }
}

function isEnough({ quorum = 1 }: Duties, given: readonly Approved[]): boolean {
  if (quorum === 1) return given.length > 0;
  return new Set(given.flatMap(({ by }) => by ?? [])).size >= quorum;
}

function describeLack(asked: Duties | undefined): string {
  if (asked === undefined) return '';
  const { by = [], quorum = 1 } = asked;
  const who = by.length === 0 ? '' : ` by ${by.join(' or ')}`;
  return quorum === 1 ? `, not approved${who}` : `, not approved${who} by ${quorum} people`;
}

/** Whether the condition holds in some order of the open calls; `unknown` if it cannot say. */
function hold(condition: Condition, worlds: Parameters<Condition['holds']>[0], call: RuleCall) {
  try {
    return condition.holds(worlds, call).may ? 'yes' : 'no';
  } catch {
    return 'unknown';
  }
}

/** Whether the event is the outcome of work that the call started, and it is an error. */
function hasFailed(event: ChartEvent, callId: string): boolean {
  if (event.type !== 'message.received' || event.from?.callId !== callId) return false;
  return event.items.some(item => item.type === 'message' && item.outcomeOf?.isError === true);
}

/** Which calls the event begins. */
function listBegins(event: ChartEvent, before: ReferenceModel, after: ReferenceModel): ReferenceCall[] {
  if (event.type === 'tool.started') {
    const entry = find(before, event.callId);
    return entry === undefined || entry.starts > 0 ? [] : [entry];
  }
  return after.calls.filter(
    ({ stage, childRunId, call }) =>
      stage === 'waiting' && childRunId === undefined && call.executedBy === 'client',
  );
}

function takeAll(
  automata: readonly Automaton[],
  states: readonly number[],
  calls: readonly { call: RuleCall }[],
  succeeded = true,
): number[] {
  return automata.map(({ take }, index) =>
    calls.reduce((state, { call }) => take(state, call, succeeded), states[index] ?? 0),
  );
}
