import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { minimize } from '../../explore/minimize.ts';
import {
  type Automaton,
  atMost,
  type Condition,
  never,
  type RuleCall,
  spendOf,
} from '../../rules/condition.ts';
import { randomCases } from '../support/sample.ts';

/** Which states of a rule's automaton an exploration may take together. */

const pay = (cents: number): RuleCall => ({ name: 'pay', tags: [], input: { cents } });
const spend = (limit: number) => spendOf<{ cents: number }>('pay', ({ cents }) => cents).over(limit);

function automatonOf({ automata }: Condition): Automaton {
  const [one] = automata;
  if (one === undefined) throw new Error('the condition has no automaton');
  return one;
}

function countClasses(condition: Condition, calls: readonly RuleCall[], most: number): number {
  const one = automatonOf(condition);
  const { classOf } = minimize(one, calls, 0, most);
  let states = [0];
  const all = new Set(states);
  for (let depth = 0; depth < most; depth += 1) {
    states = states.flatMap(state => calls.map(call => one.take(state, call, true)));
    states = [...new Set(states)];
    for (const state of states) all.add(state);
  }
  return new Set([...all].map(classOf)).size;
}

describe('the states of an automaton', () => {
  it('are one while no further call can bring an amount to its limit', () => {
    expect(countClasses(spend(10_000), [pay(1), pay(1_000_000)], 50)).toBe(2);
    expect(countClasses(atMost(100).of('pay'), [pay(1)], 50)).toBe(1);
  });

  it('are told apart where a limit is near', () => {
    expect(countClasses(atMost(3).of('pay'), [pay(1)], 50)).toBe(4);
    expect(countClasses(never('pay').after('pay'), [pay(1)], 50)).toBe(2);
    expect(countClasses(spend(10), [pay(5), pay(6)], 50)).toBe(3);
  });

  it('are never taken together if calls that follow tell them apart', () => {
    const amounts = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 3 });
    const histories = fc.record({
      limit: fc.integer({ min: 0, max: 30 }),
      amounts,
      one: fc.array(fc.nat(2), { maxLength: 4 }),
      other: fc.array(fc.nat(2), { maxLength: 4 }),
      next: fc.array(fc.nat(2), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(histories, ({ limit, amounts, one, other, next }) => {
        const calls = amounts.map(pay);
        const automaton = automatonOf(spend(limit));
        const { classOf } = minimize(automaton, calls, 0, 8);
        const follow = (from: number, path: readonly number[]) =>
          path.reduce((state, at) => automaton.take(state, calls[at % calls.length] ?? pay(0), true), from);
        const [first, second] = [follow(0, one), follow(0, other)];
        fc.pre(classOf(first) === classOf(second));
        const saysAfter = (from: number) => {
          const state = follow(from, next);
          return calls.map(call => automaton.holds({ least: state, earlier: state, most: state }, call));
        };
        expect(saysAfter(first)).toEqual(saysAfter(second));
      }),
      { numRuns: randomCases(300) },
    );
  });
});
