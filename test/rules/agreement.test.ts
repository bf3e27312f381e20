import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  atMost,
  type Condition,
  first,
  needs,
  never,
  type RuleCall,
  selects,
  spendOf,
} from '../../rules/condition.ts';
import { worldsAfter } from '../support/rules/worlds.ts';
import { randomCases } from '../support/sample.ts';

/** A begun call of a history. Whether it succeeded is known once it has settled. */
type Begun = { call: RuleCall; succeeded?: boolean };

/** The same rule twice: in words, and as a function of all that was begun before a call. */
type Pair = { condition: Condition; breaks: (history: readonly Begun[], call: RuleCall) => boolean };

const TAGS: Readonly<Record<string, string[]>> = {
  browse: ['untrusted'],
  mail: ['leaves', 'costs'],
  post: ['leaves'],
  refund: ['costs'],
};
const calls: fc.Arbitrary<RuleCall> = fc
  .record({ name: fc.constantFrom(...Object.keys(TAGS)), cents: fc.integer({ min: 0, max: 3 }) })
  .map(({ name, cents }) => ({ name, tags: TAGS[name] ?? [], input: { cents } }));
const selectors = fc.constantFrom(...Object.keys(TAGS), 'untrusted', '#leaves', 'costs');

function centsOf({ input }: RuleCall): number {
  return Number(Object(input).cents);
}

const simple: fc.Arbitrary<Pair> = fc.oneof(
  selectors.map(what => ({
    condition: never(what),
    breaks: (_: readonly Begun[], call: RuleCall) => selects(what, call),
  })),
  fc.tuple(selectors, selectors).map(([what, other]) => ({
    condition: never(what).after(other),
    breaks: (history: readonly Begun[], call: RuleCall) =>
      selects(what, call) && history.some(before => selects(other, before.call)),
  })),
  fc.tuple(fc.integer({ min: 1, max: 3 }), selectors).map(([count, what]) => ({
    condition: atMost(count).of(what),
    breaks: (history: readonly Begun[], call: RuleCall) =>
      selects(what, call) && history.filter(before => selects(what, before.call)).length >= count,
  })),
  selectors.map(what => ({
    condition: needs('security').for(what),
    breaks: (_: readonly Begun[], call: RuleCall) => selects(what, call),
  })),
  fc.tuple(fc.integer({ min: 0, max: 5 }), selectors).map(([limit, what]) => ({
    condition: spendOf(what, ({ cents }) => cents).over(limit),
    breaks: (history: readonly Begun[], call: RuleCall) =>
      selects(what, call) &&
      [...history, { call }].reduce(
        (sum, before) => sum + (selects(what, before.call) ? centsOf(before.call) : 0),
        0,
      ) > limit,
  })),
  fc.tuple(selectors, selectors).map(([before, what]) => ({
    condition: first(before).then(what),
    breaks: (history: readonly Begun[], call: RuleCall) =>
      selects(what, call) &&
      !history.some(({ call: other, succeeded }) => succeeded === true && selects(before, other)),
  })),
);

const { pairs } = fc.letrec<{ pairs: Pair }>(tie => ({
  pairs: fc.oneof(
    { maxDepth: 2 },
    simple,
    fc
      .tuple(tie('pairs'), tie('pairs'), fc.constantFrom('and', 'or', 'unless'))
      .map(([one, other, word]) => join(one, other, word)),
  ),
}));

function join(one: Pair, other: Pair, word: 'and' | 'or' | 'unless'): Pair {
  return {
    condition: one.condition[word](other.condition),
    breaks: (history, call) => {
      const [left, right] = [one.breaks(history, call), other.breaks(history, call)];
      return { and: left && right, or: left || right, unless: left && !right }[word];
    },
  };
}

test('an automaton and a function written for the same rule agree on random histories', () => {
  const settled = fc.array(fc.record({ call: calls, succeeded: fc.boolean() }), { maxLength: 8 });
  const agree = fc.property(pairs, settled, calls, ({ condition, breaks }, history, call) => {
    const outcomes = new Map(history.map(({ call: one, succeeded }) => [one, succeeded]));
    const worlds = worldsAfter(condition, [...outcomes.keys()], {}, one => outcomes.get(one) === true);
    const expected = breaks(history, call);
    expect(condition.holds(worlds, call)).toEqual({ may: expected, must: expected });
  });
  fc.assert(agree, { numRuns: randomCases(3_000) });
});

/** A call of a turn. `order`: when it starts, beside the others. */
type Proposed = { call: RuleCall; order: number; succeeds: boolean; settlesEarly: boolean };

/**
 * Starts the calls of a turn in their order, each unless the condition holds for it. Returns those that began, with the
 * history as it was when they did, and the history afterwards.
 */
function play({ condition, breaks }: Pair, past: readonly Begun[], turn: readonly Proposed[]) {
  let history = [...past];
  const refused = new Set<Proposed>();
  const begun = new Map<Proposed, Begun>();
  for (const one of turn.toSorted((left, right) => left.order - right.order)) {
    const place = turn.indexOf(one);
    const settled = history.filter(({ succeeded }) => succeeded !== undefined);
    const open = turn.filter(
      other => other !== one && !refused.has(other) && begun.get(other)?.succeeded === undefined,
    );
    const isEarlier = (other: Proposed) => begun.has(other) || turn.indexOf(other) < place;
    const worlds = worldsAfter(
      condition,
      settled.map(({ call }) => call),
      {
        earlier: open.filter(isEarlier).map(({ call }) => call),
        later: open.filter(other => !isEarlier(other)).map(({ call }) => call),
      },
      call => settled.some(before => before.call === call && before.succeeded === true),
    );
    if (condition.holds(worlds, one.call).may) {
      refused.add(one);
      continue;
    }
    expect(breaks(history, one.call)).toBe(false);
    const start: Begun = { call: one.call };
    history = [...history, start];
    begun.set(one, start);
    if (one.settlesEarly) start.succeeded = one.succeeds;
  }
  for (const [{ succeeds }, start] of begun) start.succeeded ??= succeeds;
  return { begun: [...begun.values()], history };
}

const turns = fc.array(
  fc.array(
    fc.record({
      call: calls,
      order: fc.integer(),
      succeeds: fc.boolean(),
      settlesEarly: fc.boolean(),
    }),
    { minLength: 1, maxLength: 4 },
  ),
  { maxLength: 3 },
);

test('no start of a call breaks a rule, in whatever order the calls of a turn start and settle', () => {
  const hold = fc.property(pairs, turns, (pair, proposed) => {
    let history: Begun[] = [];
    for (const turn of proposed) ({ history } = play(pair, history, turn));
  });
  fc.assert(hold, { numRuns: randomCases(3_000) });
});

test('of calls that are open together, none leaves that another could have told what is untrusted', () => {
  const pair: Pair = { condition: never('leaves').after('untrusted'), breaks: () => false };
  const hold = fc.property(turns, proposed => {
    let history: Begun[] = [];
    for (const turn of proposed) {
      const played = play(pair, history, turn);
      const has = (begun: readonly Begun[], tag: string) => begun.some(({ call }) => call.tags.includes(tag));
      if (has(played.begun, 'leaves')) expect(has([...history, ...played.begun], 'untrusted')).toBe(false);
      history = played.history;
    }
  });
  fc.assert(hold, { numRuns: randomCases(1_000) });
});
