import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { createAgent, tool } from '../../agent/index.ts';
import { type ExploreOptions, explore, toHold } from '../../testing/index.ts';

declare module 'vitest' {
  interface Matchers<R, T> {
    toHold(): R;
  }
}

const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  input: z.object({}),
  sideEffect: 'none',
  approval: true,
  run: () => null,
});
const agent = createAgent({
  name: 'desk',
  tools: [refund],
  onLimit: 'stop',
  retry: { attempts: 1 },
  limits: { turns: 1, toolCalls: 1 },
});
const reportOf = (options: ExploreOptions) => explore(agent, { maxStates: 40_000, ...options });

describe('expect(report).toHold()', () => {
  it('passes once all walks came to their end, nothing breaks and every rule is proved', () => {
    const report = reportOf({ never: 'refund unless approved' });
    expect(report).toHold();
    expect(() => expect(report).not.toHold()).toThrow(/rule never refund unless approved: proved/);
  });

  it('names the rule that is broken, with the shortest path in words', () => {
    const report = reportOf({ never: 'refund unless approved by manager', maxStates: 300 });
    expect(report).not.toHold();
    expect(() => expect(report).toHold()).toThrow(
      /rule "never refund unless approved by manager" is broken: refund \(refund_1\) starts, not approved by manager\nThe shortest path to it:\n +0 run\.started → turn\.planning\n +1 turn\.completed with calls of refund → resting\.awaitingApproval\n +2 approval\.decided refund_1 approve → executingTools\n +3 tool\.started refund_1 → executingTools/,
    );
  });

  it('names the invariant that breaks', () => {
    const report = reportOf({ invariants: { 'no refund': ({ event }) => event.type !== 'tool.started' } });
    expect(() => expect(report).toHold()).toThrow(/invariant "no refund" breaks: it does not hold\n/);
  });

  it('is no proof of walks that stopped, and says what completes them', () => {
    const report = reportOf({ never: 'refund unless approved', maxStates: 50 });
    expect(() => expect(report).toHold()).toThrow(
      /is not proved: the walks stopped before their end[\s\S]*not walked to the end: .*maxStates/,
    );
  });

  it('refuses what is no report', () => {
    expect(() => toHold({} as never)).toThrow(/expected what explore\(\)/);
  });
});
