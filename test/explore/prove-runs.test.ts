import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import {
  type Agent,
  type AgentOptions,
  createAgent,
  InDoubt,
  memory,
  never,
  spendOf,
  type Tool,
  tool,
} from '../../agent/index.ts';
import { beginProving, type ProvedModule, type RunGroup } from '../../explore/prove-runs.ts';
import { listAll, type Store } from '../../protocol/store.ts';
import { randomCases, sampled } from '../support/sample.ts';
import { SCENES } from '../support/testing/scenarios.ts';

/** Which stored runs are one group, and what becomes of it. */

const forbidden = () => {
  throw new Error('nothing is to be executed');
};

const lookup = tool({
  name: 'lookup',
  description: 'Looks an order up.',
  input: z.object({ orderId: z.string().optional() }),
  sideEffect: 'none',
  tags: ['untrusted'],
  run: () => 'found',
});

type Change = { [Member in keyof Tool]?: Tool[Member] | undefined };

const makeRefund = (change: Change = {}): Tool =>
  ({
    ...tool({
      name: 'refund',
      description: 'Pays back.',
      input: z.object({ cents: z.number().int().positive() }),
      sideEffect: 'once',
      approval: true,
      tags: ['leaves'],
      run: forbidden,
    }),
    ...change,
  }) as Tool;

const refunding = (cents: number): ScriptedTurn => ({
  toolCalls: [{ name: 'refund', arguments: { cents } }],
});
const looking = (orderId: string): ScriptedTurn => ({
  toolCalls: [{ name: 'lookup', arguments: { orderId } }],
});

const OPTIONS: AgentOptions = { name: 'desk', tools: [lookup, makeRefund()] };

/** Adds a run of these turns, at rest. */
async function add(
  store: Store,
  turns: readonly ScriptedTurn[],
  options: Partial<AgentOptions> = {},
  runContext?: unknown,
): Promise<string> {
  const agent = createAgent({
    ...OPTIONS,
    retry: { attempts: 1 },
    model: scripted([...turns]),
    store,
    ...options,
  }) as Agent;
  const run = await agent.start('begin', ...((runContext === undefined ? [] : [{ runContext }]) as []));
  await run.settled();
  return run.id;
}

/** Enough for what the tests plant. */
const FEW_STATES = 250;

async function prove(
  store: Store,
  options: Partial<AgentOptions> = {},
  exports: ProvedModule['exports'] = {},
  { connects = false, maxStates = FEW_STATES } = {},
): Promise<RunGroup[]> {
  const agent = createAgent({ ...OPTIONS, ...options });
  const { prover, close } = await beginProving([{ agent, exports }], { store, maxStates, connects });
  for (const status of ['running', 'waiting'] as const)
    for await (const record of listAll(store, { status })) await prover.take(record);
  await close();
  return prover.groups;
}

const countsOf = (groups: readonly RunGroup[]) => groups.map(({ count }) => count).sort();
const verdictsOf = (groups: readonly RunGroup[]) => groups.map(({ verdict }) => verdict);
const typesOf = (group: RunGroup | undefined) => group?.path?.map(({ event }) => event.type);

describe('groups of runs', () => {
  it('have runs that differ by inputs, texts, times and finished rounds, and not those with other open calls', async () => {
    const store = memory();
    await add(store, [refunding(1)]);
    await add(store, [looking('A-1'), refunding(4_200)]);
    await add(store, [looking('A-1'), looking('A-2'), { text: 'So.', ...refunding(7) }]);
    await add(store, [{ toolCalls: [...(refunding(1).toolCalls ?? []), ...(refunding(2).toolCalls ?? [])] }]);
    const groups = await prove(store, {}, {}, { maxStates: 4_000 });
    expect(groups.map(({ calls, count, verdict, complete }) => [calls, count, verdict, complete])).toEqual([
      [['refund waiting for approval'], 3, 'continues', true],
      [['refund waiting for approval', 'refund waiting for approval'], 1, 'continues', true],
    ]);
  });

  it('differ where a limit is near, and not where it is far', async () => {
    const store = memory();
    const limits = { turns: 4 };
    await add(store, [refunding(1)], { limits });
    await add(store, [looking('1'), refunding(1)], { limits });
    await add(store, [looking('1'), looking('2'), looking('3'), refunding(1)], { limits });
    expect(countsOf(await prove(store))).toEqual([1, 2]);
  });

  it('differ by what rules still say of them, and not by what makes no difference to a rule', async () => {
    const store = memory();
    await add(store, [refunding(1)]);
    await add(store, [refunding(2)]);
    await add(store, [looking('1'), refunding(1)]);
    await add(store, [looking('2'), refunding(3)]);
    const rules = [never('#leaves').after('#untrusted')];
    expect(countsOf(await prove(store, { rules }))).toEqual([2, 2]);
    const spent = (input: unknown) => (input as { cents: number }).cents;
    const limit = [spendOf('refund', spent).over(2_000_000).asks('manager')];
    expect(countsOf(await prove(store, { rules: limit }))).toEqual([4]);
    const near = [spendOf('refund', spent).over(2).asks('manager')];
    expect(countsOf(await prove(store, { rules: near }))).toEqual([1, 1, 2]);
  });

  it('differ by the run context only where a pure approval depends on it, or an invariant reads it', async () => {
    const store = memory();
    const runContext = z.object({ user: z.string(), isTrusted: z.boolean() });
    const approval = {
      pure: true,
      rule: ({ runContext: context }: never) => !(context as { isTrusted: boolean }).isTrusted,
    } as never;
    const asks = { tools: [lookup, makeRefund()], runContext } as Partial<AgentOptions>;
    const decides = {
      runContext,
      tools: [
        tool({
          name: 'refund',
          description: 'Pays.',
          input: z.object({ cents: z.number() }),
          approval,
          run: forbidden,
        }),
      ],
    } as Partial<AgentOptions>;
    for (const [user, isTrusted] of [
      ['ada', true],
      ['bob', true],
      ['eve', false],
    ] as const)
      await add(store, [refunding(1)], asks, { user, isTrusted });
    expect(countsOf(await prove(store, asks))).toEqual([3]);
    expect(countsOf(await prove(store, decides))).toEqual([1, 2]);
    const invariants = { any: () => true };
    expect(countsOf(await prove(store, asks, { invariants }))).toEqual([1, 1, 1]);
  });

  it('have the runs of an agent that compacts, whatever each has done', async () => {
    const store = memory();
    const paid: Partial<AgentOptions> = {
      tools: [
        lookup,
        makeRefund({ run: () => 'paid' }),
        { ...makeRefund({ run: () => 'paid' }), name: 'pay', fixedApproval: false, approval: () => false },
      ],
      compaction: { at: 1_000_000, summarize: 'model' },
    };
    const paying = (cents: number): ScriptedTurn => ({ toolCalls: [{ name: 'pay', arguments: { cents } }] });
    for (const cents of [70, 71, 72]) await add(store, [paying(cents), refunding(5)], paid);
    await add(store, [paying(1), refunding(5)], paid);
    // The input of the last is one that an exploration tries, which would be a repetition after a compaction.
    expect(countsOf(await prove(store, paid))).toEqual([1, 3]);
  });
});

const lost = makeRefund({
  name: 'charge',
  approval: () => false,
  fixedApproval: false,
  run: () => Promise.reject(new InDoubt('no answer came')),
});
const ask = tool({ name: 'ask', description: 'The client asks.', input: z.object({}) }) as Tool;

/** Turns of runs that come to rest. */
const TURNS: Readonly<Record<string, ScriptedTurn>> = {
  look: looking('A-1'),
  refund: refunding(1),
  'a large refund': refunding(900),
  ask: { toolCalls: [{ name: 'ask' }] },
  charge: { toolCalls: [{ name: 'charge', arguments: { cents: 1 } }] },
  both: { toolCalls: [{ name: 'refund', arguments: { cents: 2 } }, { name: 'ask' }] },
  unknown: { toolCalls: [{ name: 'no_such_tool' }] },
  paused: { text: 'I think.', finishReason: 'pause' },
};

const ALL = [lookup, makeRefund(), lost, ask];
const refuses = makeRefund({
  validate: value => (isLarge(value) ? { valid: false, message: 'too much' } : { valid: true, value }),
});
const isLarge = (value: unknown) =>
  (value as { cents: number }).cents > 100 && (value as { cents: number }).cents < 1_000;

/** Agents of deploys. */
const DEPLOYS: readonly (Partial<AgentOptions> & { exports?: ProvedModule['exports'] })[] = [
  { tools: ALL },
  { tools: [lookup, lost] },
  { tools: [lookup, refuses, lost, ask] },
  { tools: [lookup, makeRefund(), lost, { ...ask, run: forbidden }] },
  {
    tools: ALL,
    rules: [never('#leaves').after('#untrusted')],
    exports: { never: 'refund unless approved by manager' },
  },
  { tools: ALL, exports: { never: 'charge after lookup' } },
];

describe('a group', () => {
  it('has runs of which the same becomes, each explored alone', async () => {
    const turns = fc.array(fc.constantFrom(...Object.keys(TURNS)), { minLength: 1, maxLength: 3 });
    const word = fc.constantFrom('approve', 'approve all', 'reject', 'send', 'pause', 'nothing');
    const run = fc.record({ turns, words: fc.array(word, { maxLength: 2 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(run, { minLength: 5, maxLength: 6 }),
        fc.constantFrom(...DEPLOYS),
        async (runs, { exports = {}, ...options }) => {
          const store = memory();
          for (const one of runs) await addRandom(store, one);
          const deploy = createAgent({ ...OPTIONS, ...options });
          const settings = { store, maxStates: 3_000, connects: false };
          const groups = await prove(store, options, exports, { maxStates: 3_000 });
          // The first is the agent that began them.
          if (options.tools === ALL && exports.never === undefined)
            expect(groups.filter(({ verdict }) => verdict === 'stops')).toEqual([]);
          for (const group of groups) {
            for (const runId of group.runs.slice(1)) {
              const { prover } = await beginProving([{ agent: deploy, exports }], settings);
              await prover.take((await store.get(runId)) ?? expect.fail());
              expect(prover.groups.map(outcomeOf), runId).toEqual([outcomeOf(group)]);
            }
          }
        },
      ),
      { numRuns: randomCases(3), endOnFailure: true },
    );
  }, 900_000);
});

type RandomRun = { turns: readonly string[]; words: readonly string[] };

/** Adds a run of these turns, about whose open calls these words were said. */
async function addRandom(store: Store, { turns, words }: RandomRun): Promise<void> {
  const script = turns.map(name => TURNS[name] ?? {});
  const model = scripted([...script, { text: 'Done.' }]);
  const agent = createAgent({ ...OPTIONS, tools: ALL, model, store, limits: { turns: 6 } });
  const run = await agent.start('begin');
  for (const word of words) {
    const { open = [] } = (await run.settled()) as { open?: readonly { id: string; kind: string }[] };
    const gated = open.find(({ kind }) => kind === 'approval');
    if (word === 'send') await run.send('and?');
    else if (word === 'pause') await run.pause();
    else if (gated && word === 'reject') await run.reject(gated.id);
    else if (gated && word.startsWith('approve'))
      await run.approve(gated.id, { sticky: word === 'approve all' });
  }
  await run.settled();
}

/** Without the ids of calls. */
function outcomeOf(group: RunGroup) {
  const { state, calls, verdict, complete, why } = group;
  return {
    state,
    calls,
    verdict,
    complete,
    why: why?.replaceAll(/\(\w+\)/g, '(CALL)'),
    path: typesOf(group),
  };
}

describe('what becomes of a group', () => {
  it('is that a run continues with the agent that began it, wherever it stands', async () => {
    for (const name of sampled(Object.keys(SCENES), 6)) {
      const { store, runId } = (await SCENES[name]?.()) ?? expect.fail();
      const record = (await store.get(runId)) ?? expect.fail();
      const names = new Set<string>();
      for (const { event } of await store.read(runId))
        if (event.type === 'turn.completed') for (const call of event.calls) names.add(call.name);
      const tools = [...names].map(tool => ({
        ...makeRefund(),
        name: tool,
        validate: (value: unknown) => ({ valid: true as const, value }),
      }));
      const agent = createAgent({ name: record.agent, tools });
      const { prover } = await beginProving([{ agent }], { store, maxStates: 300, connects: false });
      await prover.take(record);
      const stops = prover.groups.filter(({ verdict }) => verdict === 'stops');
      expect(
        stops.map(({ why }) => why).filter(why => !why?.includes('waits for a client')),
        name,
      ).toEqual([]);
    }
  });

  it('stops at the start of a call that the agent has no tool for, also of a retry', async () => {
    const store = memory();
    await add(store, [refunding(1)]);
    const doubtful = makeRefund({
      approval: () => false,
      fixedApproval: false,
      run: () => Promise.reject(new Error('lost')),
    });
    await add(store, [refunding(1)], { tools: [lookup, doubtful] });
    const groups = await prove(store, { tools: [lookup] });
    expect(verdictsOf(groups)).toContain('stops');
    expect(typesOf(groups.find(({ calls }) => calls[0] === 'refund waiting for approval'))).toEqual([
      'approval.decided',
      'tool.started',
    ]);
  });

  it('does not stop at a call that no path starts', async () => {
    const store = memory();
    await add(store, [refunding(1)]);
    const [group] = await prove(store, {
      tools: [lookup, makeRefund({ run: undefined })],
      rules: [never('refund')],
    });
    expect(group?.verdict).toBe('continues');
  });

  it('does not stop at a call whose result is played from another run', async () => {
    const store = memory();
    const model = scripted([refunding(1), { text: 'Done.' }]);
    const agent = createAgent({ ...OPTIONS, model, store });
    const run = await agent.start('begin');
    const waiting = await run.settled();
    if (waiting.status !== 'waiting') return expect.fail();
    await run.approve(waiting.approvals[0]?.callId ?? '');
    await run.settled();
    const entries = await store.read(run.id);
    const at = entries.find(({ event }) => event.type === 'turn.completed')?.seq ?? 0;
    await run.fork({ at, replayTools: true });
    const groups = await prove(store, { tools: [lookup] });
    expect(groups).toMatchObject([{ calls: ['refund waiting for approval'], verdict: 'continues' }]);
  });

  it('stops in a turn for which the agent has no model any more, as its own or after a fallback', async () => {
    const store = memory();
    const failing = scripted([{ error: { code: 'authentication' } }]);
    const other = () => scripted([refunding(1), { text: 'Done.' }]);
    await add(store, [], { model: [failing, other()] });
    await add(store, [], { model: [other(), failing] });
    const groups = await prove(store, { model: other() });
    expect(groups.map(({ verdict, why }) => [verdict, why])).toEqual([
      ['stops', 'it uses model 2 of its list, and the agent has 1'],
      ['stops', 'it uses model 2 of its list, and the agent has 1'],
    ]);
    const paths = groups.map(typesOf);
    expect(paths.map(path => path?.includes('turn.failed')).sort()).toEqual([false, true]);
    expect(verdictsOf(await prove(store, { model: [other(), failing] }))).toEqual(['continues', 'continues']);
  });

  it('stops where a tool does not accept the run context', async () => {
    const store = memory();
    const runContext = z.object({ user: z.string() });
    await add(store, [refunding(1)], { runContext } as Partial<AgentOptions>, { user: 'ada' });
    const strict = tool({
      name: 'lookup',
      description: 'Looks up.',
      input: z.object({}),
      sideEffect: 'none',
      runContext: z.object({ tenant: z.string() }),
      run: forbidden,
    }) as unknown as Tool;
    const groups = await prove(store, {
      tools: [strict, makeRefund()],
      runContext: z.object({ tenant: z.string() }),
    } as Partial<AgentOptions>);
    expect(groups).toMatchObject([
      { verdict: 'stops', why: expect.stringMatching(/^tool lookup does not accept the run context/) },
    ]);
    expect(groups[0]).not.toHaveProperty('path');
  });

  it('is that a run without a run context continues where only the agent has a schema for it', async () => {
    const store = memory();
    await add(store, [refunding(1)]);
    const runContext = z.object({ tenant: z.string() });
    const groups = await prove(store, { runContext } as Partial<AgentOptions>);
    expect(verdictsOf(groups)).toEqual(['continues']);
  });

  it('is not known for a run that was restored from a snapshot', async () => {
    const [from, store] = [memory(), memory()];
    const id = await add(from, [refunding(1)]);
    const snapshot = await (await createAgent({ ...OPTIONS, store: from }).open(id)).snapshot();
    await createAgent({ ...OPTIONS, store }).restore(snapshot);
    expect(await prove(store)).toMatchObject([
      { verdict: 'continues', complete: false, why: expect.stringContaining('was restored from a snapshot') },
    ]);
  });

  it('is that a run whose tools came with a request continues, unexplored', async () => {
    const store = memory();
    await add(store, [refunding(1)], { name: 'a request' });
    expect(await prove(store)).toMatchObject([
      { verdict: 'continues', complete: true, states: 0, why: expect.stringContaining('not explored') },
    ]);
  });

  it('is not proved for a call of a tool server that is not connected', async () => {
    const store = memory();
    await add(store, [refunding(1)]);
    const server = (tools: readonly Tool[]) => ({
      name: 'server',
      connect: async () => tools,
      close: async () => {},
    });
    const [open] = await prove(store, { tools: [lookup, server([makeRefund()])] });
    expect(open).toMatchObject({
      verdict: 'continues',
      complete: false,
      why: expect.stringContaining('--connect'),
    });
    const walked = { connects: true, maxStates: 4_000 };
    const connected = await prove(store, { tools: [lookup, server([makeRefund()])] }, {}, walked);
    expect(connected).toMatchObject([{ verdict: 'continues', complete: true }]);
    const gone = await prove(store, { tools: [lookup, server([])] }, {}, { connects: true });
    expect(gone).toMatchObject([{ verdict: 'stops' }]);
  });

  it('is judged apart for the run of a sub-agent and the run that waits for it', async () => {
    const store = memory();
    const clerk = (tools: readonly Tool[]) =>
      createAgent({ name: 'clerk', tools, model: scripted([refunding(1), { text: 'Paid.' }]) }).asTool({
        name: 'clerk',
        description: 'Pays.',
      });
    await add(store, [{ toolCalls: [{ name: 'clerk', arguments: { input: 'pay' } }] }], {
      tools: [clerk([makeRefund()])],
    });
    const same = await prove(store, { tools: [clerk([makeRefund()])] });
    expect(same.map(({ agent, verdict }) => [agent, verdict]).sort()).toEqual([
      ['clerk', 'continues'],
      ['desk', 'continues'],
    ]);
    const gone = await prove(store, { tools: [clerk([lookup])] });
    expect(gone.map(({ agent, verdict }) => [agent, verdict])).toEqual([
      ['clerk', 'stops'],
      ['desk', 'continues'],
    ]);
  });
});

it('runs whose work goes on in the background are one group, and the runs that do it another', async () => {
  const store = memory();
  const ship = tool({
    name: 'ship',
    description: 'Ships.',
    input: z.object({ cents: z.number() }),
    background: true,
    run: () => {
      throw new InDoubt('perhaps');
    },
  });
  const turns = [{ toolCalls: [{ name: 'ship', arguments: { cents: 1 } }] }, { text: 'On its way.' }];
  for (let runs = 0; runs < 3; runs += 1) await add(store, turns, { tools: [lookup, ship] });
  const groups = await prove(store, { tools: [lookup, ship] }, {}, { maxStates: 3_000 });
  expect(groups).toMatchObject([
    { count: 3, state: 'resting.inDoubt', calls: ['ship in doubt'], verdict: 'continues', complete: true },
    { count: 3, state: 'resting.awaitingResults', calls: [], verdict: 'continues' },
  ]);
  const without = await prove(store, { tools: [lookup] });
  expect(without.map(({ state, verdict, why }) => [state, verdict, why])).toEqual([
    ['resting.inDoubt', 'stops', 'an open call of ship cannot run: the agent has no such tool'],
    ['resting.awaitingResults', 'continues', undefined],
  ]);
});
