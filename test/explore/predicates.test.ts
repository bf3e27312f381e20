import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { type AgentOptions, createAgent, tool } from '../../agent/index.ts';
import { EngineError } from '../../protocol/error.ts';
import { type BreachReport, explore, type Invariants, type Moment } from '../../testing/index.ts';
import { inAll } from '../support/sample.ts';

/** User predicates, and agents that break them. */

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

/** The only breach of a predicate; the chart itself has none. */
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

describe('a user predicate', () => {
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

  it('finds a refund without approval, on the shortest path', () => {
    const breach = breachOf({ tools: [plain('lookup'), makeRefund(false)] }, noBigRefundAlone);
    expect(breach && typesOf(breach)).toEqual(['run.started', 'turn.completed', 'tool.started']);
    expect(breach?.message).toMatch(/pays back 1000000 cents/);
    expect(breach?.path.at(-1)?.state).toBe('executingTools');
    expect(breach?.path[1]?.why).toMatch(/refund may run/);
  });

  it('finds nothing when a person always decides', () => {
    expect(breachOf({ tools: [plain('lookup'), makeRefund(true)] }, noBigRefundAlone)).toBeUndefined();
  });

  it('tries both outcomes of an approval function without calling it', () => {
    const breach = breachOf({ tools: [makeRefund(() => forbidden())] }, noBigRefundAlone);
    expect(breach && typesOf(breach)).toEqual(['run.started', 'turn.completed', 'tool.started']);
  });

  it('uses the approval of the samples in place of the approval function', () => {
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

  it('gets the answers of a pure approval function, so that a gated refund breaks nothing', () => {
    const refund = (most: number) =>
      tool({
        name: 'refund',
        description: 'Pays back.',
        input: z.object({ orderId: z.string(), cents: z.number().int().positive() }),
        approval: { pure: true, rule: ({ input }) => input.cents > most },
        run: forbidden,
      });
    expect(breachOf({ tools: [refund(10_000)] }, noBigRefundAlone, 600)).toBeUndefined();
    const breach = breachOf({ tools: [refund(2_000_000)] }, noBigRefundAlone);
    expect(breach && typesOf(breach)).toEqual(['run.started', 'turn.completed', 'tool.started']);
    const report = explore(agentWith({ tools: [refund(2_000_000)] }), { maxStates: 100 });
    expect(report.tools).toMatchObject([{ approval: 'pure', inputs: 2, asks: 0 }]);
    expect(report.notes.join()).toMatch(/of refund ask for none of the explored inputs/);
    for (const [most, asks] of [[0, 2] as const, [100, 1] as const]) {
      const { notes, tools } = explore(agentWith({ tools: [refund(most)] }), { maxStates: 100 });
      expect({ notes, tools }).toMatchObject({ notes: [], tools: [{ inputs: 2, asks }] });
    }
  });

  it('gets the answers for the run context of the exploration, and for the value of a transforming schema', () => {
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      input: z.object({ cents: z.string().transform(Number) }),
      inputSchema: { type: 'object', properties: { cents: { enum: ['5', '20000', 'x y'] } } },
      runContext: z.object({ most: z.number() }),
      approval: { pure: true, rule: ({ input, runContext }) => input.cents > runContext.most },
      run: forbidden,
    });
    const gates = (most: number) => {
      const agent = agentWith({ tools: [pay], runContext: z.object({ most: z.number() }) });
      const gated = new Set<unknown>();
      const invariants: Invariants = {
        gated: ({ event }) => {
          if (event.type !== 'turn.completed') return true;
          for (const { input, gate } of event.calls) if (gate) gated.add(JSON.stringify(input));
          return true;
        },
      };
      explore(agent, { invariants, maxStates: 200, runContext: { most } });
      return [...gated].sort();
    };
    expect(gates(100)).toEqual(['{"cents":"20000"}']);
    expect(gates(1)).toEqual(['{"cents":"20000"}', '{"cents":"5"}']);
  });

  it('refuses a pure approval function that returns a promise, and gates what one throws for', () => {
    const asked = (approval: () => boolean) => plain('pay', { approval: { pure: true, rule: approval } });
    const later = asked((async () => true) as unknown as () => boolean);
    expect(() => explore(agentWith({ tools: [later] }))).toThrow(/at once, got a promise/);
    const never: Invariants = { never: ({ event }) => event.type !== 'tool.started' || 'started' };
    const breach = breachOf({ tools: [asked(forbidden)] }, never);
    expect(breach && typesOf(breach)).toContain('approval.decided');
  });

  it('that counts calls finds the second refund in the shortest round', () => {
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

  inAll('that reads the transcript finds a refund after an earlier refund', () => {
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

  it('about the order of tools finds a path that violates it', () => {
    const tools = [plain('run_tests'), plain('deploy', { sideEffect: 'once' })];
    const breach = breachOf({ tools }, testsFirst);
    expect(breach && typesOf(breach)).toEqual(['run.started', 'turn.completed', 'tool.started']);
  });

  it('about the order of tools holds when the second tool does not exist', () => {
    const tools = [plain('run_tests')];
    expect(breachOf({ tools, toolChoice: { name: 'run_tests' } }, testsFirst)).toBeUndefined();
  });

  it('about the number of turns is broken at exactly that depth', () => {
    const breach = breachOf(
      { tools: [plain('lookup')] },
      { 'no more than 12 turns': ({ context }) => context.turns <= 12 },
    );
    expect(breach?.path.length).toBe(14);
  });

  it('that throws, or returns a promise, is broken where it does', () => {
    const thrown = breachOf(
      {},
      {
        throws: () => {
          throw new Error('cannot say');
        },
      },
      50,
    );
    expect(thrown).toMatchObject({ invariant: 'throws', message: 'it threw: cannot say' });
    expect(thrown?.path.map(({ event }) => event.type)).toEqual(['run.started']);
    const later = { later: (async () => true) as unknown as () => boolean };
    expect(breachOf({}, later, 50)?.message).toMatch(/asynchronous/);
  });

  it('needs a unique name', () => {
    const twice: Invariants = [
      { name: 'one', holds: () => true },
      { name: 'one', holds: () => true },
    ];
    expect(() => explore(agentWith({}), { invariants: twice })).toThrow(EngineError);
    const taken = 'every step completes: none throws or loops forever';
    expect(() => explore(agentWith({}), { invariants: { [taken]: () => true } })).toThrow(/another name/);
  });
});

describe('the report of an exploration', () => {
  it('says which walks the maximum of states stopped, and which option completes them', () => {
    const report = explore(agentWith({ tools: [plain('lookup'), makeRefund(true)] }), { maxStates: 200 });
    expect(report.complete).toBe(false);
    expect(report.states).toBeLessThanOrEqual(210);
    const last = report.unfinished.find(({ paths }) => paths === 'all choices');
    expect(last).toMatchObject({ stoppedBy: 'maxStates' });
    expect(last?.open).toBeGreaterThan(0);
    expect(last?.advice).toBe('Walk more states: maxStates (--max-states) above 200.');
  });

  it('is incomplete only if all states that are allowed were walked, whichever walk needs them', () => {
    const agent = agentWith({ onLimit: 'stop', retry: { attempts: 1 }, limits: { turns: 1 } });
    const started = explore(agent, { maxStates: 60_000 });
    expect(started.complete).toBe(true);
    expect(explore(agent, { maxStates: started.states }).unfinished).toEqual([]);
    const less = started.states - 1;
    const stopped = explore(agent, { maxStates: less });
    expect(stopped).toMatchObject({ complete: false, states: less });
    const advice = `Walk more states: maxStates (--max-states) above ${less}.`;
    expect(stopped.unfinished).toMatchObject([{ advice }]);
  });

  it('names the invariants whose reading of the past makes more states than were walked', () => {
    const invariants: Invariants = {
      'is about now': ({ context }) => context.turns < 100,
      'looks back': ({ events }) => events.length < 10_000,
    };
    const agent = agentWith({ tools: [plain('lookup'), plain('find'), plain('seek')] });
    const { unfinished } = explore(agent, { maxStates: 300, invariants });
    const history = unfinished.find(({ paths }) => paths === 'paths that differ by earlier rounds');
    expect(history?.advice).toContain('"looks back" reads the transcript or `events`');
    expect(history?.advice).not.toContain('is about now');
  });

  it('ends at the time limit, with some of every kind of path, and states what was left out', () => {
    const agent = agentWith({ tools: [plain('lookup'), makeRefund(true)] });
    let time = 0;
    const now = () => (time += 10);
    const report = explore(agent, { now });
    expect(time).toBeGreaterThan(2_900);
    expect(time).toBeLessThan(3_200);
    expect(report).toMatchObject({ complete: false, breaches: [] });
    const walks = report.unfinished.filter(({ stoppedBy }) => stoppedBy === 'maxMs');
    expect(walks.length).toBeGreaterThan(2);
    expect(walks.every(({ open, states }) => open > 0 && open <= states)).toBe(true);
    expect(walks.at(-1)).toMatchObject({
      paths: 'all choices',
      advice: 'Give it more time: maxMs above 3000.',
    });
    expect(explore(agent, { now, maxMs: 30 }).states).toBeLessThan(report.states);
    time = 0;
    expect(
      explore(agent, { now, maxStates: 400 }).unfinished.map(({ stoppedBy }) => stoppedBy),
    ).not.toContain('maxMs');
    expect(() => explore(agent, { maxMs: 0 })).toThrow(EngineError);
  });

  inAll('is complete for a small agent', () => {
    const options = { tools: [ask], guardrails: { answer: forbidden }, retry: { attempts: 1 } };
    const report = explore(agentWith(options), { maxStates: 40_000 });
    expect(report).toMatchObject({ complete: true, breaches: [], notes: [] });
    expect(report.crashPoints).toBeGreaterThan(500);
  });

  inAll('is complete for an agent with approvals, with all edges but those of features it lacks', () => {
    const tools = [ask, plain('pay', { sideEffect: 'once', approval: true })];
    const report = explore(agentWith({ tools, guardrails: { answer: forbidden }, retry: { attempts: 2 } }), {
      maxStates: 100_000,
    });
    expect(report).toMatchObject({ complete: true, breaches: [], notes: [] });
    // No person edits a call while the run works, no tool asks, nobody signs in, nothing is judged or compacted, and it
    // has no sub-agent.
    expect(report.edges.missing).toEqual([
      '(any), question.answered [isAsked] -> (record)',
      '(any), call.edited [canEditCall] -> (record)',
      'turn, items.judged [isCurrent] -> (record)',
      'turn, sign-in.requested [isCurrent] -> deciding',
      'deciding, always [{"type":"next","params":{"type":"compact"}}] -> compacting',
      'deciding, always [{"type":"next","params":{"type":"awaitAnswers"}}] -> resting.awaitingAnswers',
      'deciding, always [{"type":"next","params":{"type":"awaitSignIn"}}] -> resting.awaitingSignIn',
      'compacting, items.judged [isCurrent] -> (record)',
      'compacting, transcript.compacted [isCurrent] -> deciding',
      'compacting, compaction.failed [isCurrent] -> deciding',
      'compacting, sign-in.requested [isCurrent] -> deciding',
      'compacting, run.quarantined -> deciding',
      'executingTools, call.judged [isCurrent] -> (record)',
      'executingTools, question.asked [isCurrent] -> (record)',
      'executingTools, tool.kept [isCurrent] -> (record)',
      'executingTools, tool.suspended [isCurrent] -> (record)',
      'executingTools, sign-in.requested [isCurrent] -> deciding',
      'resting, question.answered [isAsked] -> deciding',
      'resting, sign-in.completed [isSignInOpen] -> deciding',
    ]);
    expect(report.edges.total).toBeGreaterThan(45);
    expect(report.crashPoints).toBeGreaterThan(1_000);
    expect(report.decisions).toBeGreaterThan(1_000);
  });

  it('notes that tool sources are left out, and none is connected', () => {
    const source = { connect: forbidden, close: forbidden };
    const report = explore(agentWith({ tools: [source] }), { maxStates: 50 });
    expect(report.notes.join()).toMatch(/tool source is left out/);
    const connected = explore(agentWith({ tools: [source] }), { maxStates: 50, tools: [plain('far')] });
    expect(connected.tools.map(({ name }) => name)).toEqual(['far']);
  });

  it('is JSON', () => {
    const report = explore(agentWith({ tools: [makeRefund(false)] }), {
      invariants: { never: ({ event }) => event.type !== 'tool.settled' },
      maxStates: 300,
    });
    expect(report.breaches.length).toBe(1);
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
  });
});
