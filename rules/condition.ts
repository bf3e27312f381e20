import { invalidAgent } from '../protocol/error.ts';
import type { JsonObject, JsonValue } from '../protocol/json.ts';
import type { RuleVerdict } from '../protocol/rule.ts';
import { readGroups } from '../protocol/tool.ts';

/*
 * Conditions of rules, in words: `never('leaves').after('untrusted')`. Each is made of small automata over the calls
 * that were begun, so that it can be followed through every path of the chart.
 *
 * N1 An automaton sees each begun call once. Its state is one number.
 * N2 A condition holds for a call if it holds in some order in which the open calls may happen; what stands after
 *    `unless` must hold in every order.
 * N3 Of two calls that are counted, the later one counts the earlier, so that of two open calls one may start.
 */

/** A call as conditions see it. */
export type RuleCall = {
  name: string;
  tags: readonly string[];
  input: JsonValue;
  /** A sub-agent makes calls of its own, in any order. */
  isSubAgent?: boolean;
};

/**
 * The states of an automaton before a call: after the calls that have settled (`least`); after these and the open ones
 * that have begun or come earlier in their turn (`earlier`); after these and all other open ones (`most`).
 */
export type Worlds = { least: number; earlier: number; most: number };

type Holds = { may: boolean; must: boolean };

export type Automaton = {
  /** The state after one more begun call, from 0. An open call counts as one that succeeds. */
  take(state: number, call: RuleCall, succeeded: boolean): number;
  holds(worlds: Worlds, call: RuleCall): Holds;
};

type Facts = {
  words: string;
  automata: readonly Automaton[];
  selectors: readonly string[];
  about: readonly string[];
  holds(worlds: readonly Worlds[], call: RuleCall): Holds;
  verdict: RuleVerdict;
  by?: string[];
};

const NO: Holds = { may: false, must: false };

/** What a rule forbids, in words: it holds for the calls that break the rule. */
export class Condition {
  /** What it says, in words; its name as a rule. */
  readonly words: string;
  readonly automata: readonly Automaton[];
  /** The tools and tags that it names. */
  readonly selectors: readonly string[];
  /** Of these, those for whose calls it may hold. */
  readonly about: readonly string[];
  /** What becomes of a call for which it holds. */
  readonly verdict: RuleVerdict;
  /** The groups whose approval is asked for. */
  readonly by?: string[];
  readonly #holds: Facts['holds'];

  /** @internal */
  constructor({ words, automata, selectors, about, verdict, by, holds }: Facts) {
    this.words = words;
    this.automata = automata;
    this.selectors = selectors;
    this.about = about;
    this.verdict = verdict;
    if (by !== undefined) this.by = by;
    this.#holds = holds;
  }

  /** @internal Whether it holds for a call, before which its automata have these states. */
  holds(worlds: readonly Worlds[], call: RuleCall): Holds {
    return this.#holds(worlds, call);
  }

  /** Asks for an approval, by people in one of these groups, instead of refusing the call. */
  asks(...groups: string[]): Condition {
    const by = groups.length === 0 ? undefined : readGroups(groups);
    if (groups.length > 0 && by === undefined)
      throw invalidAgent(`asks: expected names of groups, got ${JSON.stringify(groups)}.`);
    const who = by === undefined ? 'asks' : `asks ${by.join(' or ')}`;
    return this.#with({ words: `${this.words}: ${who}`, verdict: 'ask', ...(by && { by }) });
  }

  /** Holds if both hold. */
  and(other: Condition): Condition {
    return this.#join('and', other, (one, two) => ({
      may: one.may && two.may,
      must: one.must && two.must,
    }));
  }

  /** Holds if one of them holds. */
  or(other: Condition): Condition {
    return this.#join('or', other, (one, two) => ({ may: one.may || two.may, must: one.must || two.must }));
  }

  /** Holds unless the other holds. */
  unless(other: Condition): Condition {
    return this.#join('unless', other, (one, two) => ({
      may: one.may && !two.must,
      must: one.must && !two.may,
    }));
  }

  #join(word: string, other: Condition, both: (one: Holds, two: Holds) => Holds): Condition {
    if (!isCondition(other)) throw invalidAgent(`${word}: expected a condition, such as never('pay').`);
    const count = this.automata.length;
    return this.#with({
      words: `${this.words} ${word} ${other.words}`,
      automata: [...this.automata, ...other.automata],
      selectors: [...new Set([...this.selectors, ...other.selectors])],
      about: [...new Set([...this.about, ...other.about])],
      holds: (worlds, call) =>
        both(this.holds(worlds.slice(0, count), call), other.holds(worlds.slice(count), call)),
    });
  }

  #with(change: Partial<Facts>): Condition {
    const { words, automata, selectors, about, verdict, by } = this;
    const holds: Facts['holds'] = (worlds, call) => this.holds(worlds, call);
    return new Condition({ words, automata, selectors, about, verdict, holds, ...(by && { by }), ...change });
  }
}

/** Whether a value is a condition, also of another copy of this library. */
export function isCondition(value: unknown): value is Condition {
  return typeof value === 'object' && value !== null && 'automata' in value && 'words' in value;
}

/** Whether a selector names the call: by its tool's name or one of its tags; with `#` before it, only by a tag. */
export function selects(selector: string, { name, tags }: Pick<RuleCall, 'name' | 'tags'>): boolean {
  if (selector.startsWith('#')) return tags.includes(selector.slice(1));
  return name === selector || tags.includes(selector);
}

/** What the model may never call, or never after something else. */
export class Never extends Condition {
  readonly #what: string;

  /** @internal */
  constructor(what: string) {
    super({
      words: `never ${what}`,
      automata: [],
      selectors: [what],
      about: [what],
      verdict: 'block',
      holds: (_, call) => always(selects(what, call)),
    });
    this.#what = what;
  }

  /** Only after a call of the other was begun in the thread; an open one counts. */
  after(other: string): Condition {
    const what = this.#what;
    return single({
      words: `never ${what} after ${other}`,
      selectors: [what, readSelector('after', other)],
      about: [what],
      verdict: 'block',
      take: (state, call) => (state === 1 || selects(other, call) ? 1 : 0),
      holds: ({ least, most }, call) =>
        selects(what, call) ? { may: least === 1 || most === 1, must: least === 1 && most === 1 } : NO,
    });
  }
}

/**
 * Forbids calls of a tool, by its name or a tag: `never('deploy')`; after others, `never('leaves').after('untrusted')`.
 * Throws `agent-invalid` for anything but a name.
 */
export function never(what: string): Never {
  return new Never(readSelector('never', what));
}

/** Allows so many calls of a tool or tag: `atMost(3).of('refund')`. A begun call counts, also if it fails. */
export function atMost(count: number): { of(what: string): Condition } {
  if (!Number.isSafeInteger(count) || count < 1 || count > MOST_COUNTED)
    throw invalidAgent(`atMost: expected a whole number from 1 to ${MOST_COUNTED}, got ${count}.`);
  return {
    of: what =>
      single({
        words: `at most ${count} of ${readSelector('of', what)}`,
        selectors: [what],
        about: [what],
        verdict: 'block',
        take: (state, call) => (selects(what, call) ? Math.min(count, state + 1) : state),
        holds: ({ least, earlier }, call) =>
          selects(what, call) ? { may: earlier >= count, must: least >= count } : NO,
      }),
  };
}

const MOST_COUNTED = 10_000;

/** Asks people in one of these groups before each call of a tool or tag: `needs('security').for('leaves')`. */
export function needs(...groups: string[]): { for(what: string): Condition } {
  const by = readGroups(groups);
  if (by === undefined) throw invalidAgent(`needs: expected names of groups, got ${JSON.stringify(groups)}.`);
  return {
    for: what =>
      new Condition({
        words: `${readSelector('for', what)} needs ${by.join(' or ')}`,
        automata: [],
        selectors: [what],
        about: [what],
        verdict: 'ask',
        by,
        holds: (_, call) => always(selects(what, call)),
      }),
  };
}

/** A tool by its name, or the tool itself, whose calls then have their type. */
type Named<Input> = string | { readonly name: string; readonly '~types'?: { input: Input } };

/**
 * Bounds what the calls of a tool spend together: `spendOf('refund', input => input.cents).over(10_000).asks('manager')`.
 * `amount` gets the input as JSON and returns a number from 0. A call whose amount is none is asked about, and counts as too much.
 */
export function spendOf<Input = JsonObject>(
  what: Named<Input>,
  amount: (input: Input) => unknown,
): { over(limit: number): Condition } {
  const selector = readSelector('spendOf', typeof what === 'string' ? what : what?.name);
  if (typeof amount !== 'function') throw invalidAgent('spendOf: expected a function of the input.');
  const amountOf = (call: RuleCall): number => {
    const spent = amount(call.input as Input);
    if (typeof spent === 'number' && spent >= 0 && Number.isFinite(spent)) return spent;
    throw new Error(`expected the amount of ${call.name} to be a number from 0, got ${String(spent)}`);
  };
  return {
    over(limit) {
      if (!Number.isFinite(limit) || limit < 0)
        throw invalidAgent(`over: expected a number from 0, got ${limit}.`);
      const most = limit + 1;
      const afterwards = (state: number, call: RuleCall): number => {
        try {
          return Math.min(most, state + amountOf(call));
        } catch {
          return most;
        }
      };
      return single({
        words: `spend of ${selector} over ${limit}`,
        selectors: [selector],
        about: [selector],
        verdict: 'block',
        take: (state, call) => (selects(selector, call) ? afterwards(state, call) : state),
        holds({ least, earlier }, call) {
          if (!selects(selector, call)) return NO;
          const spent = amountOf(call);
          return { may: earlier + spent > limit, must: least + spent > limit };
        },
      });
    },
  };
}

/** Requires that a call of the first tool or tag has succeeded before: `first('check').then('deploy')`. */
export function first(before: string): { then(what: string): Condition } {
  readSelector('first', before);
  return {
    then: what =>
      single({
        words: `first ${before} then ${readSelector('then', what)}`,
        selectors: [before, what],
        about: [what],
        verdict: 'block',
        take: (state, call, succeeded) => (state === 1 || (succeeded && selects(before, call)) ? 1 : 0),
        holds: ({ least, most }, call) =>
          selects(what, call) ? { may: least === 0 || most === 0, must: least === 0 && most === 0 } : NO,
      }),
  };
}

type Single = Omit<Facts, 'automata' | 'holds'> & Automaton;

function single({ take, holds, ...facts }: Single): Condition {
  return new Condition({
    ...facts,
    automata: [{ take, holds }],
    holds: ([worlds = START], call) => holds(worlds, call),
  });
}

const START: Worlds = { least: 0, earlier: 0, most: 0 };

function always(holds: boolean): Holds {
  return { may: holds, must: holds };
}

const LONGEST_SELECTOR = 128;

function readSelector(of: string, selector: unknown): string {
  if (typeof selector === 'string' && SELECTOR.test(selector) && selector.length <= LONGEST_SELECTOR)
    return selector;
  throw invalidAgent(
    `${of}: expected the name of a tool or a tag, such as 'refund' or '#leaves', got ${JSON.stringify(selector)}.`,
  );
}

const SELECTOR = /^#?[\w.:-]+$/;
