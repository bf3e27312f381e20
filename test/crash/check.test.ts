import { describe, expect, test } from 'vitest';
import type { Item } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
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
