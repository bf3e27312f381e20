import { afterEach, describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import {
  type AgentTool,
  createAgent,
  first,
  never,
  type Rule,
  rule,
  spendOf,
  tool,
} from '../../agent/index.ts';
import { RuleEnforcer } from '../../explore/enforce-rules.ts';
import type { Condition } from '../../rules/condition.ts';
import { checkPath, type ExploreOptions, explore } from '../../testing/index.ts';

/** What explore says of the rules of an agent, which the engine enforces. */

afterEach(() => vi.restoreAllMocks());

const forbidden = () => {
  throw new Error('nothing is to be executed');
};

const TOOLS = [
  tool({
    name: 'browse',
    description: 'Reads.',
    input: z.object({}),
    sideEffect: 'none',
    tags: ['untrusted'],
    run: forbidden,
  }),
  tool({ name: 'mail', description: 'Writes.', input: z.object({}), tags: ['leaves'], run: forbidden }),
];
const refund = tool({
  name: 'refund',
  description: 'Pays back.',
  input: z.object({ cents: z.int().min(1).max(200) }),
  approval: true,
  run: forbidden,
});

const NO_LEAKS = never('leaves').after('untrusted');

type Options = Omit<ExploreOptions, 'tools'> & { tools?: AgentTool[]; turns?: number };

function exploreWith(
  rules: readonly (Rule | Condition)[],
  { tools = TOOLS, turns = 1, ...options }: Options = {},
) {
  const agent = createAgent({
    name: 'ruled',
    tools,
    rules,
    onLimit: 'stop',
    retry: { attempts: 1 },
    limits: { turns, toolCalls: 2 },
  });
  const report = explore(agent, { maxStates: 60_000, ...options });
  const [ruled] = report.rules;
  if (ruled === undefined) throw new Error('no rule was reported');
  return { agent, report, ...ruled };
}

const callsOf = ({ path = [] }: { path?: { event: { type: string } }[] }) =>
  path.map(({ event }) => ('callId' in event ? `${event.type} ${event.callId}` : event.type));

describe('a rule of an agent', () => {
  it('is proved in all states that were walked, whatever becomes of its calls', () => {
    for (const one of [NO_LEAKS, rule({ when: NO_LEAKS, then: 'stop' }), first('browse').then('mail')]) {
      const { report, verdict, states } = exploreWith([one]);
      expect(report).toMatchObject({ complete: true, breaches: [] });
      expect({ verdict, states }).toEqual({ verdict: 'proved', states: report.states });
      expect(report).toHold();
    }
  });

  it('is proved over several turns', () => {
    const { report } = exploreWith([NO_LEAKS], { turns: 2 });
    expect(report).toHold();
  });

  it('is proved if the people whom it asks have to approve', () => {
    const { report } = exploreWith([NO_LEAKS.asks('security')]);
    expect(report).toHold();
  });

  it('is broken by the shortest leak if it is only tried, and the report holds', () => {
    const tried = exploreWith([rule({ name: 'tried', when: NO_LEAKS, mode: 'shadow' })]);
    expect(tried).toMatchObject({ verdict: 'broken', only: 'shadow' });
    expect(callsOf(tried)).toEqual([
      'run.started',
      'turn.completed',
      'tool.started browse_1a',
      'tool.started mail_1b',
    ]);
    expect(tried.report).toHold();
  });

  it('is not proved if it is a function', () => {
    const { report, ...ruled } = exploreWith([rule({ name: 'mine', when: () => 'allow' })]);
    expect(ruled).toMatchObject({
      verdict: 'not-proved',
      only: 'function',
      message: 'it is a function, which is enforced, and not called here',
    });
    expect(report).toHold();
  });

  it('is asked again about an input that a person writes', () => {
    const spent = spendOf('refund', ({ cents }) => cents).over(250);
    const { report } = exploreWith([spent], { tools: [refund] });
    expect(report).toHold();
  });

  it('that is added keeps a path from coming again', () => {
    const { path = [], agent } = exploreWith([rule({ when: NO_LEAKS, mode: 'shadow' })]);
    const [started, ...events] = path.map(({ event }) => event);
    if (started?.type !== 'run.started') throw new Error('a path begins with the start');
    const found = { past: [started], path: events.filter(event => event.type !== 'run.started') } as const;
    expect(checkPath(agent, found)).toHaveLength(1);
    const { agent: ruled } = exploreWith([NO_LEAKS]);
    expect(checkPath(ruled, found)).toEqual([]);
  });
});

describe('a planted defect of the engine is found', () => {
  const { apply } = RuleEnforcer.prototype;

  it('calls of one turn do not count for each other', () => {
    vi.spyOn(RuleEnforcer.prototype, 'apply').mockImplementation(function (
      this: RuleEnforcer,
      state,
      event,
      statesOf,
    ) {
      const { context } = state;
      const one = (calls: typeof context.calls) =>
        ({ ...state, context: { ...context, calls } }) as typeof state;
      if (event.type === 'tool.started') {
        const alone = one(context.calls.filter(({ callId }) => callId === event.callId));
        return apply.call(this, alone, event, statesOf);
      }
      if (event.type !== 'turn.completed') return apply.call(this, state, event, statesOf);
      const calls = event.calls.flatMap(call => {
        const judged = apply.call(this, state, { ...event, calls: [call] }, statesOf);
        return judged?.type === 'turn.completed' ? judged.calls : [];
      });
      return { ...event, calls };
    });
    const { verdict, path = [] } = exploreWith([NO_LEAKS], { maxStates: 4_000 });
    expect(verdict).toBe('broken');
    expect(callsOf({ path }).slice(-2)).toEqual(['tool.started browse_1a', 'tool.started mail_1b']);
  });

  it('a rule is judged before an edit only', () => {
    vi.spyOn(RuleEnforcer.prototype, 'apply').mockImplementation(function (
      this: RuleEnforcer,
      state,
      event,
      statesOf,
    ) {
      return event.type === 'turn.completed' ? apply.call(this, state, event, statesOf) : event;
    });
    const spent = spendOf('refund', ({ cents }) => cents).over(150);
    const { verdict, path = [] } = exploreWith([spent], { tools: [refund], maxStates: 4_000 });
    expect(verdict).toBe('broken');
    expect(callsOf({ path }).some(type => /edited|approval.decided/.test(type))).toBe(true);
  });
});
