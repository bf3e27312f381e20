import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { createAgent, tool } from '../../agent/index.ts';
import { fold } from '../../machines/fold.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { Approval } from '../../protocol/tool.ts';
import { type ExplorationReport, type ExploreOptions, explore, exploreFrom } from '../../testing/index.ts';
import { mapCalls, recording } from '../support/tools/planted/planted.ts';

/** Rules that explore follows beside the chart. */

const forbidden = () => {
  throw new Error('nothing is to be executed');
};

const plain = (name: string, change: Partial<Parameters<typeof tool>[0]> = {}) =>
  tool({ name, description: name, input: z.object({}), sideEffect: 'none', run: forbidden, ...change });

const refund = (approval: Approval) => plain('refund', { approval });

type Tools = NonNullable<Parameters<typeof createAgent>[0]['tools']>;

const agentWith = (tools: Tools, limits = {}) =>
  createAgent({
    name: 'ruled',
    tools,
    onLimit: 'stop',
    retry: { attempts: 1 },
    limits: { turns: 1, toolCalls: 1, ...limits },
  });

function verdictOf(tools: Tools, never: string, options: ExploreOptions & { limits?: object } = {}) {
  const { limits, ...rest } = options;
  const report = explore(agentWith(tools, limits), { maxStates: 60_000, never, ...rest });
  const [rule] = report.rules;
  if (rule === undefined) throw new Error('no rule was reported');
  return { ...rule, report };
}

const typesOf = ({ path = [] }: ExplorationReport['rules'][number]) => path.map(({ event }) => event.type);

describe('a rule asked of an exploration', () => {
  it('is proved if only managers can approve, in all states that were walked', () => {
    const { report, ...rule } = verdictOf(
      [refund({ required: true, by: 'manager' })],
      'refund unless approved by manager',
    );
    expect(report).toMatchObject({ complete: true, breaches: [] });
    expect(rule).toEqual({
      name: 'never refund unless approved by manager',
      verdict: 'proved',
      states: report.states,
    });
  });

  it('is broken if someone else can approve too: anyone, or another group', () => {
    const anyone = verdictOf([refund(true)], 'refund unless approved by manager', { maxStates: 400 });
    expect(anyone).toMatchObject({ verdict: 'broken' });
    expect(anyone.message).toBe('refund (refund_1) starts, not approved by manager');
    expect(typesOf(anyone)).toEqual(['run.started', 'turn.completed', 'approval.decided', 'tool.started']);
    const board = verdictOf(
      [refund({ required: true, by: ['manager', 'board'] })],
      'refund unless approved by manager',
      { maxStates: 400 },
    );
    expect(board.verdict).toBe('broken');
    expect(board.path?.[2]?.event).toMatchObject({ groups: ['board'] });
  });

  it('takes an approval that counts for later calls as one of theirs', () => {
    const sticky = verdictOf([refund(true)], 'refund unless approved');
    expect(sticky.verdict).toBe('proved');
    expect(verdictOf([refund(false)], 'refund unless approved', { maxStates: 200 }).verdict).toBe('broken');
  });

  it('is broken by the shortest run, in which two calls of one turn start', () => {
    const tools = [plain('read'), plain('send', { sideEffect: 'once' })];
    const rule = verdictOf(tools, 'send after read', { limits: { toolCalls: 2 }, maxStates: 400 });
    expect(rule).toMatchObject({ verdict: 'broken', message: 'send (send_1b) starts' });
    expect(rule.path?.flatMap(({ event }) => ('callId' in event ? [event.callId] : [event.type]))).toEqual([
      'run.started',
      'turn.completed',
      'read_1a',
      'send_1b',
    ]);
    expect(rule.report.breaches).toEqual([]);
  });

  it('counts a call once, however often it starts', () => {
    const again = plain('send', { sideEffect: 'idempotent', retries: 2 });
    expect(verdictOf([again], 'send after send', {}).verdict).toBe('proved');
    expect(verdictOf([again], 'send after send', { limits: { toolCalls: 2 }, maxStates: 400 }).verdict).toBe(
      'broken',
    );
  });

  it('counts a call of the client once the client gets it', () => {
    const ask = tool({ name: 'ask', description: 'Asks.', input: z.object({}), sideEffect: 'once' });
    const rule = verdictOf([ask, plain('send')], 'send after ask', {
      limits: { toolCalls: 2 },
      maxStates: 400,
    });
    expect(rule.verdict).toBe('broken');
    const given = verdictOf([ask], 'ask unless approved', { maxStates: 400 });
    expect(given.message).toBe('ask (ask_1) is given to the client, not approved');
  });

  it('is not proved by walks that stopped before their end', () => {
    const rule = verdictOf([refund(true)], 'refund unless approved', { maxStates: 100 });
    expect(rule).toMatchObject({ verdict: 'not-proved', message: 'the walks stopped before their end' });
    expect(rule.path).toBeUndefined();
  });

  it('is broken by a chart that starts calls without their approval', () => {
    const careless = recording((context, event) =>
      mapCalls(fold(context, event), call => (call.status === 'gated' ? { ...call, status: 'ready' } : call)),
    );
    const tools = [refund({ required: true, by: 'manager' })];
    const rule = verdictOf(tools, 'refund unless approved by manager', { machine: careless, maxStates: 300 });
    expect(rule.verdict).toBe('broken');
  });

  it('follows what has happened to a run before', () => {
    const tools = [plain('read'), plain('send')];
    const limits = { turns: 2, toolCalls: 3 };
    const { path = [] } = verdictOf(tools, 'read', { limits, maxStates: 200 });
    const entries = path.map(({ event }, index): JournalEntry => ({ seq: index + 1, event }));
    expect(entries.at(-1)?.event.type).toBe('tool.started');
    const { rules } = exploreFrom(agentWith(tools, limits), entries, {
      never: ['send after read', 'read after send'],
      maxStates: 2_000,
    });
    const lengths = rules.map(rule => [rule.verdict, rule.path?.length]);
    expect(lengths).toEqual([
      ['broken', 3],
      ['broken', 4],
    ]);
  });

  it.each([
    '',
    'refund unless',
    'refund after',
    'refund approved by manager',
    'pay',
    '#money',
    'refund after pay',
  ])('is refused as %j', never => {
    expect(() => verdictOf([refund(true)], never, { maxStates: 10 })).toThrow(/^never: /);
  });
});
