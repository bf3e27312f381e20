import { describe, expect, it } from 'vitest';
import {
  atMost,
  type Condition,
  first,
  isCondition,
  needs,
  never,
  type RuleCall,
  spendOf,
  type Worlds,
} from '../../rules/condition.ts';
import { worldsAfter } from '../support/rules/worlds.ts';

const READ: RuleCall = { name: 'browse', tags: ['untrusted'], input: {} };
const SEND: RuleCall = { name: 'mail', tags: ['leaves'], input: {} };

function refund(cents: unknown): RuleCall {
  return { name: 'refund', tags: [], input: { cents: cents as number } };
}

/** Whether the condition holds for a call after settled calls, and beside open ones. */
function holds(condition: Condition, call: RuleCall, settled: readonly RuleCall[], open: Open = {}) {
  return condition.holds(worldsAfter(condition, settled, open), call).may;
}

type Open = { earlier?: readonly RuleCall[]; later?: readonly RuleCall[] };

describe('a condition', () => {
  it('never(what) holds for each call of a tool or a tag, and for no other', () => {
    expect(holds(never('mail'), SEND, [])).toBe(true);
    expect(holds(never('leaves'), SEND, [])).toBe(true);
    expect(holds(never('#leaves'), SEND, [])).toBe(true);
    expect(holds(never('#mail'), SEND, [])).toBe(false);
    expect(holds(never('mail'), READ, [])).toBe(false);
  });

  it('never(what).after(other) holds once the other was begun, also if it is still open', () => {
    const condition = never('leaves').after('untrusted');
    expect(holds(condition, SEND, [])).toBe(false);
    expect(holds(condition, SEND, [READ])).toBe(true);
    expect(holds(condition, SEND, [], { earlier: [READ] })).toBe(true);
    expect(holds(condition, SEND, [], { later: [READ] })).toBe(true);
    expect(holds(condition, READ, [READ, SEND])).toBe(false);
  });

  it('atMost(n).of(what) holds for the call after the nth, and of open calls for the later one', () => {
    const condition = atMost(2).of('refund');
    expect(holds(condition, refund(1), [refund(1)])).toBe(false);
    expect(holds(condition, refund(1), [refund(1), READ, refund(1)])).toBe(true);
    expect(holds(condition, refund(1), [refund(1)], { earlier: [refund(1)] })).toBe(true);
    expect(holds(condition, refund(1), [refund(1)], { later: [refund(1)] })).toBe(false);
  });

  it('spendOf(tool, amount).over(limit) holds for the call that would bring the sum over the limit', () => {
    const condition = spendOf('refund', ({ cents }) => cents)
      .over(100)
      .asks('manager');
    expect(condition).toMatchObject({ verdict: 'ask', by: ['manager'] });
    expect(holds(condition, refund(100), [])).toBe(false);
    expect(holds(condition, refund(101), [])).toBe(true);
    expect(holds(condition, refund(1), [refund(60), refund(40)])).toBe(true);
    expect(holds(condition, refund(40), [refund(60)], { earlier: [refund(1)] })).toBe(true);
  });

  it('an amount that is none fails for its call, and counts as too much for later ones', () => {
    const condition = spendOf('refund', ({ cents }) => cents).over(100);
    for (const wrong of ['5', -1, Number.NaN, null])
      expect(() => holds(condition, refund(wrong), [])).toThrow(
        'expected the amount of refund to be a number from 0',
      );
    expect(holds(condition, refund(1), [refund('5')])).toBe(true);
  });

  it('first(before).then(what) holds until a call of the first has succeeded; an open one does not count', () => {
    const condition = first('check').then('deploy');
    const check: RuleCall = { name: 'check', tags: [], input: {} };
    const deploy: RuleCall = { name: 'deploy', tags: [], input: {} };
    expect(holds(condition, deploy, [])).toBe(true);
    expect(holds(condition, deploy, [], { earlier: [check] })).toBe(true);
    expect(holds(condition, deploy, [check])).toBe(false);
    const failed = worldsAfter(condition, [check], {}, () => false);
    expect(condition.holds(failed, deploy).may).toBe(true);
  });

  it('needs(group).for(what) asks the group before each call', () => {
    const condition = needs('security', 'legal').for('leaves');
    expect(condition).toMatchObject({ verdict: 'ask', by: ['security', 'legal'] });
    expect(holds(condition, SEND, [])).toBe(true);
    expect(holds(condition, READ, [])).toBe(false);
  });

  it('and, or and unless join two conditions, with the verdict of the first', () => {
    const both = never('leaves').after('untrusted').and(never('mail'));
    const one = needs('security').for('mail').or(never('browse'));
    const but = never('leaves').unless(first('check').then('leaves'));
    expect(holds(both, SEND, [READ])).toBe(true);
    expect(holds(both, { ...SEND, name: 'post' }, [READ])).toBe(false);
    expect([holds(one, READ, []), one.verdict]).toEqual([true, 'ask']);
    expect(holds(but, SEND, [])).toBe(false);
    expect(holds(but, SEND, [{ name: 'check', tags: [], input: {} }])).toBe(true);
  });

  it('what stands after unless counts only if it holds in every order of the open calls', () => {
    const condition = never('leaves').unless(never('leaves').after('untrusted'));
    expect(holds(condition, SEND, [READ])).toBe(false);
    expect(holds(condition, SEND, [], { earlier: [READ] })).toBe(true);
  });

  it('is named by its words', () => {
    const words = [
      never('leaves').after('untrusted').asks('security').words,
      atMost(3).of('refund').or(never('#pays')).words,
      spendOf({ name: 'refund' }, () => 1).over(10_000).words,
      first('check').then('deploy').unless(needs('ops').for('check')).words,
    ];
    expect(words).toEqual([
      'never leaves after untrusted: asks security',
      'at most 3 of refund or never #pays',
      'spend of refund over 10000',
      'first check then deploy unless check needs ops',
    ]);
  });

  it.each([
    ['a name that is none', () => never('')],
    ['a name with a space', () => never('a b')],
    ['a number that is none', () => atMost(0).of('refund')],
    ['an amount that is no function', () => spendOf('refund', 'cents' as never)],
    ['a limit that is none', () => spendOf('refund', () => 1).over(Number.NaN)],
    ['no group', () => needs()],
    ['a group without a name', () => never('x').asks('')],
    ['something else than a condition', () => never('x').and('y' as never)],
  ])('refuses %s', (_, make) => {
    expect(make).toThrow(expect.objectContaining({ code: 'agent-invalid' }));
  });

  it('is recognized, and nothing else is', () => {
    expect([never('x'), needs('a').for('b')].every(isCondition)).toBe(true);
    expect([null, 'never x', {}, atMost(1)].some(isCondition)).toBe(false);
  });

  it('holds for a call alone without a state to read', () => {
    const nothing: Worlds[] = [];
    expect(never('mail').holds(nothing, SEND)).toEqual({ may: true, must: true });
  });
});
