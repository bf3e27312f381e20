import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, type AgentOptions, createAgent, memory, tool } from '../../agent/index.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import {
  type CheckPathOptions,
  checkPath,
  exploreFrom,
  type ForwardReport,
  type Invariants,
} from '../../testing/index.ts';
import { inAll, sampled } from '../support/sample.ts';
import { SCENES } from '../support/testing/scenarios.ts';

/** Explorations from where a run stands. */

const forbidden = () => {
  throw new Error('nothing is to be executed');
};

const lookup = tool({
  name: 'lookup',
  description: 'Looks an order up.',
  input: z.object({}),
  sideEffect: 'none',
  run: () => 'found',
});

const makeRefund = (approval: boolean) =>
  tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ cents: z.number().int().positive() }),
    sideEffect: 'once',
    approval,
    run: forbidden,
  });

const GATED: Partial<AgentOptions> = { tools: [lookup, makeRefund(true)] };

const REFUND: ScriptedTurn = { toolCalls: [{ name: 'refund', arguments: { cents: 4200 } }] };
const LOOKUP: ScriptedTurn = { toolCalls: [{ name: 'lookup', arguments: {} }] };

/** A run of the turns, at rest: its agent and its journal. */
async function runOf(
  turns: readonly ScriptedTurn[],
  options: Partial<AgentOptions> = {},
): Promise<{ agent: Agent; entries: JournalEntry[] }> {
  const store = memory();
  const agent = createAgent({
    name: 'held',
    store,
    model: scripted([...turns]),
    retry: { attempts: 1 },
    ...GATED,
    ...options,
  });
  const run = await agent.start('begin');
  await run.settled();
  return { agent, entries: await store.read(run.id) };
}

const statesOf = ({ ahead }: ForwardReport) => ahead.map(({ state }) => state);

describe('an exploration from where a run stands', () => {
  it('knows that a person has to approve the refund first, but not the lookup', async () => {
    const { agent, entries } = await runOf([LOOKUP, REFUND]);
    const report = exploreFrom(agent, entries, { maxStates: 200 });
    expect(report).toMatchObject({ at: entries.length, state: 'resting.awaitingApproval', breaches: [] });
    expect(report.approvals).toMatchObject([{ name: 'refund' }]);
    expect(report.starts).toEqual([
      { tool: 'lookup', sideEffect: 'none', freely: {} },
      { tool: 'refund', sideEffect: 'once', approved: { cents: 4200 } },
    ]);
    expect(statesOf(report)).toEqual(
      expect.arrayContaining(['executingTools', 'turn.planning', 'finished', 'failed', 'cancelled']),
    );
    const executing = report.ahead.find(({ state }) => state === 'executingTools');
    expect(executing?.path).toMatchObject([
      { event: { type: 'approval.decided', callId: report.approvals[0]?.callId }, state: 'executingTools' },
    ]);
    const { ahead } = report;
    expect(ahead.map(({ path }) => path.length)).toEqual(
      ahead.map(({ path }) => path.length).toSorted((a, b) => a - b),
    );
  });

  it('knows that a call that a person has already approved needs no approval', async () => {
    const { agent, entries } = await runOf([REFUND]);
    const [gated] = exploreFrom(agent, entries, { maxStates: 50 }).approvals;
    const call = entries.flatMap(({ event }) => (event.type === 'turn.completed' ? event.calls : []))[0];
    const approved: JournalEntry = {
      seq: entries.length + 1,
      event: {
        type: 'approval.decided',
        at: entries.at(-1)?.event.at ?? 0,
        callId: gated?.callId ?? '',
        digest: call?.digest ?? '',
        decision: { type: 'approve' },
      },
    };
    const { starts } = exploreFrom(agent, [...entries, approved], { maxStates: 200 });
    expect(starts[1]).toMatchObject({ tool: 'refund', freely: { cents: 4200 }, approved: { cents: 1 } });
  });

  it('finds a planted breach from the middle of a run, with the events after it alone', async () => {
    const invariants: Invariants = {
      'one lookup per run': ({ events }) =>
        events.filter(event => event.type === 'tool.started' && event.callId.includes('lookup')).length < 2,
    };
    const { agent, entries } = await runOf([LOOKUP, REFUND]);
    const lookups = entries.filter(({ event }) => event.type === 'tool.started');
    const renamed = JSON.parse(
      JSON.stringify(entries).replaceAll(
        lookups[0]?.event.type === 'tool.started' ? lookups[0].event.callId : '',
        'lookup_first',
      ),
    );
    const { breaches } = exploreFrom(agent, renamed, { invariants, maxStates: 250 });
    expect(breaches.map(({ invariant }) => invariant)).toEqual(['one lookup per run']);
    const types = breaches[0]?.path.map(({ event }) => event.type) ?? [];
    expect(types.at(-1)).toBe('tool.started');
    expect(types).not.toContain('run.started');
    expect(types.length).toBeLessThanOrEqual(4);
  });

  it('says that an invariant does not hold where the run stands, with an empty path', async () => {
    const { agent, entries } = await runOf([LOOKUP, REFUND]);
    const invariants: Invariants = { 'one turn': ({ context }) => context.turns < 2 };
    const { breaches } = exploreFrom(agent, entries, { invariants, maxStates: 20 });
    expect(breaches).toMatchObject([{ invariant: 'one turn', path: [] }]);
  });

  it('counts what the run has spent, so that limits leave less, and reaches exactly that', async () => {
    const limits = { turns: 4, toolCalls: 3, tokens: 1_000, cost: 2 };
    const prices = { script: { input: 100, output: 400 } };
    const usage = { inputTokens: 100, outputTokens: 20 };
    const options = { limits, prices, onLimit: 'answer' as const };
    const at = async (turns: readonly ScriptedTurn[]) => {
      const { agent, entries } = await runOf(
        turns.map(turn => ({ ...turn, usage })),
        options,
      );
      return { agent, entries, report: exploreFrom(agent, entries, { maxStates: 40 }) };
    };
    const one = (await at([REFUND])).report.left;
    expect(one.turns).toEqual({ spent: 1, most: 4 });
    expect(one.toolCalls).toEqual({ spent: 1, most: 2 });
    expect(one.tokens).toEqual({ spent: 120, most: 880 });
    expect(one.cost.most).toBeCloseTo(880 * 0.0004);
    const { agent, entries, report } = await at([LOOKUP, LOOKUP, REFUND]);
    expect(report.left).toMatchObject({
      turns: { spent: 3, most: 2 },
      toolCalls: { spent: 3, most: 0 },
      tokens: { spent: 360, most: 640 },
    });
    const { most } = report.left.turns;
    const check = (turns: number): Invariants => ({ few: ({ context }) => context.turns <= turns });
    const reach = (turns: number) =>
      exploreFrom(agent, entries, { invariants: check(turns), maxStates: 40 }).breaches.length;
    expect([reach(3 + (most ?? 0)), reach(3 + (most ?? 0) - 1)]).toEqual([0, 1]);
  });

  inAll('is complete with exactly as many states as it needs, and says the same of the tools', async () => {
    const input = z.object({ kind: z.enum(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) });
    const description = 'Pays.';
    const tools = Array.from({ length: 40 }, (_, index) =>
      tool({ name: `pay_${index}`, description, input, approval: index % 2 === 0, run: forbidden }),
    );
    const { agent, entries } = await runOf([], { tools, limits: { turns: 1 }, onLimit: 'stop' });
    const exploreUpTo = (maxStates: number) => exploreFrom(agent, entries.slice(0, 1), { maxStates });
    const whole = exploreUpTo(40_000);
    expect(whole).toMatchObject({ complete: true, breaches: [] });
    const bounded = exploreUpTo(whole.states);
    expect(bounded).toMatchObject({ complete: true, breaches: [], starts: whole.starts });
    expect(exploreUpTo(whole.states - 1)).toMatchObject({ complete: false, states: whole.states - 1 });
  });

  it('has nothing left after the end of a run', async () => {
    const { agent, entries } = await runOf([{ text: 'Done.' }]);
    const report = exploreFrom(agent, entries, { maxStates: 100 });
    expect(report).toMatchObject({ state: 'finished', ahead: [], approvals: [], breaches: [] });
    expect(Object.values(report.left).map(({ most }) => most)).toEqual([0, 0, 0, 0, 0]);
  });

  it('takes the run context as the run has it, also if the schema would not take it again', async () => {
    const store = memory();
    const runContext = z.string().transform(user => ({ user }));
    const model = scripted([REFUND]);
    const agent = createAgent({ name: 'held', store, model, runContext, tools: [lookup, makeRefund(true)] });
    const run = await agent.start('begin', { runContext: 'ada' });
    await run.settled();
    const invariants: Invariants = { 'has a user': ({ context }) => isUser(context.runContext) };
    const isUser = (context: unknown) => JSON.stringify(context) === '{"user":"ada"}';
    const { breaches } = exploreFrom(agent, await store.read(run.id), { invariants, maxStates: 20 });
    expect(breaches).toEqual([]);
  });

  it('takes models of one name for one, which a request need not tell apart', async () => {
    const failing = scripted([{ error: { code: 'authentication' } }]);
    const options = { model: [scripted([REFUND]), failing], limits: { turns: 2 } };
    const { agent, entries } = await runOf([], options);
    expect(exploreFrom(agent, entries, { maxStates: 1_000 }).breaches).toEqual([]);
  });

  it('refuses a journal without its start', async () => {
    const { agent, entries } = await runOf([REFUND]);
    expect(() => exploreFrom(agent, entries.slice(1))).toThrow(/from its start/);
  });

  const scenes = sampled(Object.keys(SCENES), 4);

  it.each(scenes)('finds no breach after %s', async name => {
    const { store, runId } = (await SCENES[name]?.()) ?? expect.fail();
    const entries = await store.read(runId);
    const agent = createAgent({ name: 'staged', tools: [lookup, makeRefund(true)] });
    for (const at of new Set([entries.length, Math.ceil(entries.length / 2), 2])) {
      const { breaches } = exploreFrom(agent, entries.slice(0, at), { maxStates: 20 });
      expect(breaches, `${name} at ${at}`).toEqual([]);
    }
  });
});

describe('a path that broke an invariant', () => {
  const invariants: Invariants = {
    'a refund is approved': ({ event, events, before }) => {
      if (event.type !== 'tool.started') return true;
      const call = before?.context.calls.find(({ callId }) => callId === event.callId);
      return call?.name !== 'refund' || events.some(({ type }) => type === 'approval.decided');
    },
  };

  it('breaks it again, and not once the agent requires an approval', async () => {
    const free = { tools: [lookup, makeRefund(false)] };
    const { agent, entries } = await runOf([LOOKUP, { text: 'Done.' }], free);
    const past = entries.slice(0, -1);
    const { breaches } = exploreFrom(agent, past, { invariants, maxStates: 250 });
    const [first, ...rest] = past.map(({ event }) => event);
    if (first?.type !== 'run.started') return expect.fail();
    const isPast = (event: (typeof rest)[number]) => event.type !== 'run.claimed';
    const found = JSON.parse(
      JSON.stringify({
        past: [first, ...rest.filter(isPast)],
        path: breaches[0]?.path.map(({ event }) => event),
      }),
    );
    // As a file of `--save-test` passes on what its module may export.
    const { machine, samples, runContext }: CheckPathOptions = {};
    const broken = checkPath(agent, found, { machine, invariants, samples, runContext });
    expect(broken).toMatchObject([{ invariant: 'a refund is approved' }]);
    expect(checkPath(createAgent({ name: 'held', ...GATED }), found, { invariants })).toEqual([]);
    expect(checkPath(createAgent({ name: 'held', tools: [lookup] }), found, { invariants })).toEqual([]);
  });
});
