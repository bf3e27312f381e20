import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { EngineError } from '../../../protocol/error.ts';
import { type AgentOptions, createAgent, tool } from '../../../tools/agent/index.ts';
import { type BreachReport, explore, type Invariants, type Moment } from '../../../tools/testing/index.ts';
import { TAKES_ALL } from '../../support/sample.ts';

/** What a user holds an agent to, and agents that do not keep it. */

const forbidden = () => {
  throw new Error('nothing is to be executed');
};

const plain = (name: string, change: Partial<Parameters<typeof tool>[0]> = {}) =>
  tool({ name, description: name, input: z.object({}), sideEffect: 'none', run: forbidden, ...change });

const makeRefund = (approval: boolean | (() => boolean)) =>
  tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ orderId: z.string(), cents: z.number().int().positive() }),
    sideEffect: 'once',
    approval,
    run: forbidden,
  });

const ask = tool({ name: 'ask', description: 'Asks the client.', input: z.object({}), sideEffect: 'none' });

const agentWith = (options: Partial<AgentOptions>) => createAgent({ name: 'held', ...options });

/** The one breach of one predicate; the chart itself has none. */
function breachOf(
  options: Partial<AgentOptions>,
  invariants: Invariants,
  maxStates = 500,
): BreachReport | undefined {
  const { breaches } = explore(agentWith(options), { invariants, maxStates });
  expect(breaches.length).toBeLessThan(2);
  return breaches[0];
}

const typesOf = ({ path }: BreachReport) => path.map(({ event }) => event.type);

const called = ({ event, before }: Moment) =>
  event.type === 'tool.started'
    ? before?.context.calls.find(({ callId }) => callId === event.callId)
    : undefined;

const centsOf = (input: unknown) => z.object({ cents: z.number() }).parse(input).cents;

describe('a predicate of the user', () => {
  const noBigRefundAlone: Invariants = {
    'refund never starts for over 10000 cents without approval': moment => {
      const call = called(moment);
      if (call?.name !== 'refund' || centsOf(call.input) <= 10_000) return true;
      const approved = moment.events.some(
        event => event.type === 'approval.decided' && event.callId === call.callId,
      );
      return approved || `${call.callId} pays back ${centsOf(call.input)} cents`;
    },
  };

  it('finds a refund that nobody has to approve, on the shortest way to it', () => {
    const breach = breachOf({ tools: [plain('lookup'), makeRefund(false)] }, noBigRefundAlone);
    expect(breach && typesOf(breach)).toEqual(['run.started', 'turn.completed', 'tool.started']);
    expect(breach?.message).toMatch(/pays back 1000000 cents/);
    expect(breach?.path.at(-1)?.state).toBe('executingTools');
    expect(breach?.path[1]?.why).toMatch(/refund may run/);
  });

  it('finds nothing where a person always decides', () => {
    expect(breachOf({ tools: [plain('lookup'), makeRefund(true)] }, noBigRefundAlone)).toBeUndefined();
  });

  it('takes both answers of an approval function, and never asks it', () => {
    const breach = breachOf({ tools: [makeRefund(() => forbidden())] }, noBigRefundAlone);
    expect(breach && typesOf(breach)).toEqual(['run.started', 'turn.completed', 'tool.started']);
  });

  it('believes what the samples say of an approval function', () => {
    const agent = agentWith({ tools: [makeRefund(() => forbidden())] });
    const samples = {
      refund: {
        calls: [
          { input: { orderId: 'A', cents: 100 }, approval: false },
          { input: { orderId: 'A', cents: 20_000 }, approval: true },
        ],
      },
    };
    const { breaches } = explore(agent, { invariants: noBigRefundAlone, samples, maxStates: 600 });
    expect(breaches).toEqual([]);
  });

  it('that counts over the rounds finds the second refund of a run, round after round', () => {
    const atMostOne: Invariants = {
      'at most one refund per run': ({ events }) =>
        events.filter(event => event.type === 'tool.started' && event.callId.startsWith('refund')).length < 2,
    };
    const breach = breachOf({ tools: [makeRefund(false)] }, atMostOne);
    expect(breach && typesOf(breach)).toEqual([
      'run.started',
      'turn.completed',
      'tool.started',
      'tool.started',
    ]);
  });

  it('that looks at earlier rounds finds a refund after a refund', () => {
    const notAgain: Invariants = [
      function refundsOnlyOnce({ context }) {
        const done = context.transcript.filter(item => item.type === 'tool_result' && item.output === 'paid');
        return done.length < 2;
      },
    ];
    const agent = agentWith({ tools: [plain('lookup'), makeRefund(false)], limits: { toolCalls: 6 } });
    const samples = { refund: { outputs: ['paid'] }, lookup: { outputs: ['found'] } };
    const { breaches } = explore(agent, { invariants: notAgain, samples, maxStates: 4_000 });
    expect(breaches.map(({ invariant }) => invariant)).toEqual(['refundsOnlyOnce']);
    expect(breaches[0]?.path.length).toBe(6);
  });

  const testsFirst: Invariants = {
    'deploy only after tests passed': moment => {
      if (called(moment)?.name !== 'deploy') return true;
      const passed = moment.context.transcript.some(
        item => item.type === 'tool_result' && item.callId.startsWith('run_tests') && !item.isError,
      );
      return passed || 'deploy was started, and no tests have passed';
    },
  };

  it('about an order of tools finds the way around it', () => {
    const tools = [plain('run_tests'), plain('deploy', { sideEffect: 'once' })];
    const breach = breachOf({ tools }, testsFirst);
    expect(breach && typesOf(breach)).toEqual(['run.started', 'turn.completed', 'tool.started']);
  });

  it('about an order of tools is kept where the first turn is forced and nothing else is there', () => {
    const tools = [plain('run_tests')];
    expect(breachOf({ tools, toolChoice: { name: 'run_tests' } }, testsFirst)).toBeUndefined();
  });

  it('about how long a run may be is broken as deep as it says', () => {
    const breach = breachOf(
      { tools: [plain('lookup')] },
      { 'no more than 12 turns': ({ context }) => context.turns <= 12 },
    );
    expect(breach?.path.length).toBe(14);
  });

  it('that throws, or answers with a promise, is broken where it does', () => {
    const thrown = breachOf(
      {},
      {
        throws: () => {
          throw new Error('cannot say');
        },
      },
    );
    expect(thrown).toMatchObject({ invariant: 'throws', message: 'it threw: cannot say' });
    expect(thrown?.path.map(({ event }) => event.type)).toEqual(['run.started']);
    const later = { later: (async () => true) as unknown as () => boolean };
    expect(breachOf({}, later)?.message).toMatch(/asynchronous/);
  });

  it('needs a name of its own', () => {
    const twice: Invariants = [
      { name: 'one', holds: () => true },
      { name: 'one', holds: () => true },
    ];
    expect(() => explore(agentWith({}), { invariants: twice })).toThrow(EngineError);
    const taken = 'every step completes: none throws or loops forever';
    expect(() => explore(agentWith({}), { invariants: { [taken]: () => true } })).toThrow(/another name/);
  });
});

describe('what an exploration says of itself', () => {
  it('stops at the most states it may have, and says so', () => {
    const report = explore(agentWith({ tools: [plain('lookup'), makeRefund(true)] }), { maxStates: 200 });
    expect(report.complete).toBe(false);
    expect(report.states).toBeLessThanOrEqual(210);
    expect(report.notes.join()).toMatch(/stopped at the maximum of states/);
  });

  it('a small agent is walked over completely', () => {
    const options = { tools: [ask], finishers: [forbidden], retry: { attempts: 1 } };
    const report = explore(agentWith(options), { maxStates: 40_000 });
    expect(report).toMatchObject({ complete: true, breaches: [], notes: [] });
    expect(report.crashPoints).toBeGreaterThan(500);
  });

  it.runIf(TAKES_ALL)(
    'and one whose tools are approved, with every edge but those of what it has not',
    () => {
      const tools = [ask, plain('pay', { sideEffect: 'once', approval: true })];
      const report = explore(agentWith({ tools, finishers: [forbidden], retry: { attempts: 2 } }), {
        maxStates: 40_000,
      });
      expect(report).toMatchObject({ complete: true, breaches: [], notes: [] });
      // Nothing of it is a sub-agent, and no approval expires.
      expect(report.edges.missing).toEqual([
        'executingTools, tool.suspended [isCurrent] -> (record)',
        'resting, timer.fired [isCurrent] -> deciding',
      ]);
      expect(report.edges.total).toBeGreaterThan(45);
      expect(report.crashPoints).toBeGreaterThan(1_000);
      expect(report.decisions).toBeGreaterThan(1_000);
    },
  );

  it('tool sources are left out, and nothing is connected', () => {
    const source = { connect: forbidden, close: forbidden };
    const report = explore(agentWith({ tools: [source] }), { maxStates: 300 });
    expect(report.notes.join()).toMatch(/tool source is left out/);
    const connected = explore(agentWith({ tools: [source] }), { maxStates: 300, tools: [plain('far')] });
    expect(connected.tools.map(({ name }) => name)).toEqual(['far']);
  });

  it('the report is JSON', () => {
    const report = explore(agentWith({ tools: [makeRefund(false)] }), {
      invariants: { never: ({ event }) => event.type !== 'tool.settled' },
      maxStates: 300,
    });
    expect(report.breaches.length).toBe(1);
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
  });
});
