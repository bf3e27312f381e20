import { describe, expect, test } from 'vitest';
import type { Item } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
import { checkReviews } from './checks/check-reviews.ts';
import { findDoubles } from './checks/check-scenario.ts';
import { checkTranscript } from './checks/check-transcript.ts';
import { planNext, sample } from './plan.ts';
import type { Result } from './run-matrix.ts';
import { type CrashPoint, nameScenario, readScenario, type Scenario } from './scenario.ts';

const call = (callId: string): Item => ({ type: 'tool_call', callId, name: 'pay', arguments: '{}' });
const result = (callId: string): Item => ({ type: 'tool_result', callId, output: 'paid', isError: false });
const act = (tool: string, callId: string) => ({
  tool,
  runId: 'run',
  callId,
  key: `run:${callId}`,
  input: {},
});

const NOTHING = { doubles: [], lost: [], doubted: 0 };
const resultOf = (scenario: Scenario, passed: CrashPoint[]): Result => ({
  scenario,
  passed,
  fired: true,
  findings: NOTHING,
  folder: '',
});

describe('the checks of a crash scenario', () => {
  test('find no fault in a transcript with every result after its calls, in call order', () => {
    const items = [userMessage('go'), call('a'), call('b'), result('a'), result('b'), call('c'), result('c')];
    expect(checkTranscript(items)).toEqual([]);
  });

  test.each<[string, Item[]]>([
    ['a call without a result', [call('a')]],
    ['a second result', [call('a'), result('a'), result('a')]],
    ['results in another order', [call('a'), call('b'), result('b'), result('a')]],
    ['a message before a result', [call('a'), userMessage('well?'), result('a')]],
    ['a turn before a result', [call('a'), call('b'), result('a'), call('c'), result('c')]],
  ])('find a fault in a transcript with %s', (_, items) => {
    expect(checkTranscript(items)).not.toEqual([]);
  });

  test('report a `once` call that happened twice as a silent double, but not a repeated read', () => {
    expect(findDoubles([act('pay', 'a'), act('pay', 'b'), act('read', 'c'), act('read', 'c')])).toEqual([]);
    expect(findDoubles([act('pay', 'a'), act('pay', 'a')])).toEqual(['a of run (pay) happened 2 times']);
  });
});

describe('the check of reviews', () => {
  const request = (reviewId: string, text?: string) => ({
    type: 'review.requested' as const,
    at: 0,
    reviewId,
    digest: '',
    reason: '',
    duties: { quorum: 2 },
    ...(text !== undefined && { text }),
  });
  const decide = (reviewId: string, by: string, decision: object = { type: 'approve' }) => ({
    type: 'review.decided' as const,
    at: 0,
    reviewId,
    digest: '',
    by,
    decision,
  });
  const reject = { type: 'reject' };
  const change = { type: 'approve', text: 'changed', editDigest: '' };
  const faultsOf = (answer: string, events: readonly object[]) =>
    checkReviews({
      runId: 'run',
      acts: [],
      events,
      state: { context: { answer: { text: answer } } },
    } as never);

  test('finds no fault where answers were sent back, and two people have approved what was given', () => {
    const before = [request('a', 'first'), decide('a', 'eve', reject)];
    const changed = [
      request('b', 'second'),
      decide('b', 'eve'),
      decide('b', 'ann', change),
      decide('b', 'eve'),
    ];
    expect(faultsOf('changed', [...before, ...changed])).toEqual([]);
    expect(faultsOf('one', [request('a', 'one'), decide('a', 'ann'), decide('a', 'eve')])).toEqual([]);
    expect(faultsOf('none', [])).toEqual([]);
  });

  test.each<[string, string, object[]]>([
    ['too few approvals', 'one', [request('a', 'one'), decide('a', 'ann')]],
    ['one person who approved twice', 'one', [request('a', 'one'), decide('a', 'ann'), decide('a', 'ann')]],
    [
      'an approval of what was changed after it',
      'changed',
      [request('a'), decide('a', 'eve'), decide('a', 'ann', change)],
    ],
    [
      'another answer than the approved one',
      'two',
      [request('a', 'one'), decide('a', 'ann'), decide('a', 'eve')],
    ],
    [
      'an answer that was sent back',
      'one',
      [request('a', 'one'), ...['ann', 'eve'].map(by => decide('a', by)), decide('a', 'eve', reject)],
    ],
    [
      'an earlier answer that nobody sent back',
      'b',
      [request('a'), request('b', 'b'), decide('b', 'ann'), decide('b', 'eve')],
    ],
    [
      'a review that was asked for twice',
      'a',
      [request('a', 'a'), request('a', 'a'), decide('a', 'ann'), decide('a', 'eve')],
    ],
  ])('finds %s', (_, answer, events) => {
    expect(faultsOf(answer, events)).not.toEqual([]);
  });
});

describe('the plan of the crash matrix', () => {
  const begun: Scenario = { engine: 'chart', agent: 'batch', kills: [{ point: 'tool.after', nth: 2 }] };

  test('parses the name of a scenario', () => {
    const twice = { ...begun, kills: [...begun.kills, { point: 'append.before', nth: 1 } as const] };
    expect(nameScenario(twice)).toBe('batch:tool.after#2+append.before#1');
    for (const scenario of [twice, { ...begun, engine: 'naive' } as const])
      expect(readScenario(nameScenario(scenario))).toEqual(scenario);
    for (const wrong of ['batch', 'batch:nowhere#1', 'batch:tool.after#0', 'batch:tool.after'])
      expect(() => readScenario(wrong)).toThrow('is no scenario');
  });

  test('has a scenario for every occurrence of every point', () => {
    const passed: CrashPoint[] = ['model.before', 'append.before', 'append.before'];
    expect(planNext([resultOf({ ...begun, kills: [] }, passed)]).map(nameScenario)).toEqual([
      'batch:model.before#1',
      'batch:append.before#1',
      'batch:append.before#2',
    ]);
  });

  test('samples equally for the same seed, and includes every point', () => {
    const passed = [
      ...Array<CrashPoint>(500).fill('append.before'),
      'renew.after',
      'claim.before',
    ] as CrashPoint[];
    const all = planNext([resultOf({ ...begun, kills: [] }, passed)]);
    const taken = sample(all, 20, 3).map(nameScenario);
    expect(taken).toEqual(sample(all, 20, 3).map(nameScenario));
    expect(taken).not.toEqual(sample(all, 20, 4).map(nameScenario));
    expect(taken).toContain('batch:renew.after#1');
    expect(taken).toContain('batch:claim.before#1');
    expect(taken.length).toBeLessThanOrEqual(22);
    expect(sample(all, 1000, 3)).toHaveLength(all.length);
  });
});
