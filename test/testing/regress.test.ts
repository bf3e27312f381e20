import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import type { Store } from '../../protocol/store.ts';
import type { RegressReport } from '../../regress/report.ts';
import { never } from '../../rules/condition.ts';
import { memory } from '../../stores/memory.ts';
import { type RegressOptions, regress } from '../../testing/regress/regress.ts';
import { tool } from '../../tools/tool.ts';
import { calls } from '../support/engine/agents.ts';
import { type Recipe, recipes, recordRun } from '../support/engine/recorded-run.ts';
import { randomCases } from '../support/sample.ts';

const LOOK_UP = calls(['look_up', { order: 'A-1' }]);
const REFUND = calls(['refund', { order: 'A-1', cents: 4200 }]);
const TURNS: ScriptedTurn[] = [LOOK_UP, REFUND, { text: 'Done.' }];

const noticed = z.object({ done: z.boolean() });

type Change = {
  turns?: ScriptedTurn[];
  approval?: boolean;
  /** The schema of `look_up`. */
  order?: z.ZodObject;
  most?: number;
  options?: Partial<AgentOptions>;
};

/** An agent that refunds an order. Its tools fail the test if they are executed, unless `executed` records them. */
function makeDesk(
  {
    turns = TURNS,
    approval = true,
    order = z.object({ order: z.string() }),
    most = 10_000,
    options = {},
  }: Change = {},
  { store = memory(), executed }: { store?: Store; executed?: string[] } = {},
): Agent {
  const execute = (name: string) => {
    if (executed === undefined) throw new Error(`${name} was executed`);
    executed.push(name);
    return `${name} ran`;
  };
  return createAgent({
    name: 'desk',
    store,
    model: scripted(turns),
    prices: { script: { input: 1, output: 5 } },
    tools: [
      tool({
        name: 'look_up',
        description: 'Looks an order up.',
        input: order,
        sideEffect: 'none',
        tags: ['untrusted'],
        run: () => execute('look_up'),
      }),
      tool({
        name: 'refund',
        description: 'Pays back.',
        input: z.object({ order: z.string(), cents: z.number().max(most) }),
        approval,
        run: () => execute('refund'),
      }),
    ],
    ...(options as object),
  });
}

/** Records runs of the agent, each approved by Ann. */
async function record({ runs = 1, change = {} }: { runs?: number; change?: Change } = {}): Promise<Store> {
  const store = memory();
  const executed: string[] = [];
  const agent = makeDesk(change, { store, executed });
  for (let index = 0; index < runs; index += 1) {
    const run = await agent.start(`Refund A-1 (${index}).`);
    const { status } = await run.settled();
    if (status === 'waiting') await run.approve('call_1_0', { by: 'ann' });
    expect((await run.settled()).status).toBe('finished');
  }
  return store;
}

async function compare(
  change: Change,
  options: RegressOptions & { recorded?: Change } = {},
): Promise<RegressReport> {
  const { recorded = {}, ...given } = options;
  const store = await record({ change: recorded });
  return await regress(makeDesk(change), { runs: { store }, ...given });
}

function withoutFailures(recipe: Recipe): Recipe {
  return { ...recipe, turns: recipe.turns.filter(turn => !('error' in turn)) };
}

describe('regress', () => {
  test('finds that an equal agent does the same, for every run, and executes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(recipes.map(withoutFailures), async recipe => {
        const { agent } = await recordRun(recipe);
        const tools = (agent.options.tools ?? []).map(one =>
          'run' in one ? { ...one, run: () => expect.fail(`${one.name} was executed`) } : one,
        );
        const again = createAgent({ ...agent.options, tools, model: scripted(recipe.turns) });
        const out = memory();
        const report = await regress(again, { out });
        expect(report).toMatchObject({ runs: 1, same: 1, differences: [], complete: true });
        for (const { runId, status } of (await out.list()).runs) {
          expect(['finished', 'failed', 'cancelled']).toContain(status);
          expect((await replayRun(out, runId)).equal).toBe(true);
        }
      }),
      { numRuns: randomCases(60) },
    );
  });

  test('repeats a provider that failed, as it was recorded', async () => {
    const turns: ScriptedTurn[] = [{ error: { code: 'overloaded', times: 1 } }, { text: 'Done.' }];
    const { agent } = await recordRun({ turns, words: [] });
    expect(await regress(createAgent({ ...agent.options, model: scripted(turns) }))).toMatchObject({
      same: 1,
    });
  });

  test.each<[kind: string, Change, object[], recorded?: Change]>([
    [
      'a call that is new',
      {
        turns: [
          calls(['look_up', { order: 'A-1' }], ['look_up', { order: 'A-2' }]),
          REFUND,
          { text: 'Done.' },
        ],
      },
      [{ kind: 'new-call', turn: 1, tool: 'look_up', detail: 'look_up({ order: A-2 }) is new' }],
    ],
    [
      'a call that is missing',
      { turns: [REFUND, { text: 'Done.' }] },
      [{ kind: 'missing-call', turn: 1, tool: 'look_up', detail: 'look_up({ order: A-1 }) was not called' }],
    ],
    [
      'another input',
      { turns: [LOOK_UP, calls(['refund', { order: 'A-1', cents: 9_900 }]), { text: 'Done.' }] },
      [{ kind: 'input', turn: 2, tool: 'refund', sideEffect: 'once' }],
    ],
    ['an approval that was removed', { approval: false }, [{ kind: 'decision', turn: 2, tool: 'refund' }]],
    [
      'an approval that was added',
      { approval: true },
      [{ kind: 'decision', turn: 2, tool: 'refund' }],
      { approval: false },
    ],
    [
      'a schema that refuses the call',
      { most: 100, turns: [LOOK_UP, REFUND, { text: 'No.' }] },
      [{ kind: 'outcome', tool: 'refund' }],
    ],
    [
      'a rule that blocks the call',
      { options: { rules: [never('refund').after('untrusted')] }, turns: [LOOK_UP, REFUND, { text: 'No.' }] },
      [{ kind: 'outcome', tool: 'refund' }],
    ],
    ['another end', { options: { limits: { turns: 2 }, onLimit: 'stop' } }, [{ kind: 'end' }]],
    [
      'another field of the output',
      { turns: [LOOK_UP, REFUND, { text: '{"done":false}' }], options: { output: noticed } },
      [{ kind: 'output', field: 'done' }],
      { turns: [LOOK_UP, REFUND, { text: '{"done":true}' }], options: { output: noticed } },
    ],
  ])('finds %s, and nothing else', async (_, change, expected, recorded = {}) => {
    const report = await compare(change, { recorded });
    expect(report.differences).toMatchObject(expected);
    expect(report).toMatchObject({ runs: 1, otherEffects: 1, undecidable: 0 });
  });

  test('takes other words for the same effects, and a default of the schema for the same input', async () => {
    expect(await compare({ turns: [LOOK_UP, REFUND, { text: 'Paid.' }] })).toMatchObject({ sameEffects: 1 });
    const order = z.object({ order: z.string(), deep: z.boolean().default(false) });
    const deep = calls(['look_up', { order: 'A-1', deep: false }]);
    expect(await compare({ order, turns: [deep, REFUND, { text: 'Done.' }] })).toMatchObject({ same: 1 });
  });

  test('gives each result once, in any order, and again only for tools without side effects', async () => {
    const both = calls(['refund', { order: 'A-1', cents: 4200 }], ['look_up', { order: 'A-1' }]);
    expect(await compare({ turns: [both, { text: 'Done.' }] })).toMatchObject({
      sameEffects: 1,
      differences: [],
    });
    const again = await compare({ turns: [LOOK_UP, LOOK_UP, REFUND, { text: 'Done.' }] });
    expect(again.differences).toMatchObject([{ kind: 'new-call', tool: 'look_up' }]);
    expect(again.played[0]?.sameness).toBe('otherEffects');
    const twice = await compare({ turns: [LOOK_UP, REFUND, REFUND, { text: 'Done.' }] });
    expect(twice.differences).toMatchObject([{ kind: 'new-call', tool: 'refund', turn: 3 }]);
  });

  test('says what a function of the user says of both runs', async () => {
    const score = ({ text = '' }: { text?: string }) => text.includes('Done');
    const report = await compare({ turns: [LOOK_UP, REFUND, { text: 'Paid.' }] }, { score });
    expect(report.differences).toMatchObject([{ kind: 'score', detail: 'the score is 0 (was 1)' }]);
    expect(report.paired.score).toMatchObject({ recorded: 1, candidate: 0 });
    const stopped = await compare(
      { turns: [LOOK_UP, calls(['look_up', { order: 'B-7' }]), { text: 'Paid.' }] },
      { score },
    );
    expect(stopped.differences).toMatchObject([{ kind: 'new-call' }]);
  });

  test('executes a tool without side effects that may be executed, and no other', async () => {
    const store = await record();
    const executed: string[] = [];
    const turns = [calls(['look_up', { order: 'B-7' }]), REFUND, { text: 'Done.' }];
    const agent = makeDesk({ turns }, { executed });
    await regress(agent, { runs: { store }, execute: ['look_up'] });
    expect(executed).toEqual(['look_up']);
    await expect(regress(agent, { runs: { store }, execute: ['refund'] })).rejects.toThrow(
      /has side effects/,
    );
    await expect(regress(agent, { runs: { store }, execute: ['pay'] })).rejects.toThrow(/is not a tool/);
  });

  test('plays the baseline too, whose differences are noise', async () => {
    const store = await record({ runs: 3 });
    const turns: ScriptedTurn[] = [REFUND, { text: 'Done.' }];
    const report = await regress(makeDesk({ turns }), { runs: { store }, baseline: makeDesk({ turns }) });
    expect(report).toMatchObject({ otherEffects: 3, baseline: { otherEffects: 3 } });
    expect(report.differences.every(({ noise }) => noise === true)).toBe(true);
  });

  test('continues where it was, and leaves the recorded runs as they are', async () => {
    const store = await record({ runs: 6 });
    const before = JSON.stringify(await store.list());
    const out = memory();
    const stop = new AbortController();
    const options = { runs: { store }, out, samples: 2, concurrency: 2 };
    const first = await regress(makeDesk(), {
      ...options,
      signal: stop.signal,
      onProgress: ({ done }) => {
        if (done === 5) stop.abort();
      },
    });
    expect(first.complete).toBe(false);
    let again = 0;
    const report = await regress(makeDesk(), {
      ...options,
      onProgress: progress => {
        again = progress.again;
      },
    });
    expect(report).toMatchObject({ runs: 6, same: 6, samples: 2, complete: true });
    expect(again).toBeGreaterThanOrEqual(5);
    expect(JSON.stringify(await store.list())).toBe(before);
    const other = makeDesk({ options: { instructions: 'Be brief.' } });
    await expect(regress(other, { runs: { store }, out })).rejects.toThrow(
      /another agent, model or baseline/,
    );
  });

  test('writes nothing to the recorded runs, nor to a store with other runs', async () => {
    const store = await record();
    const before = JSON.stringify(await store.list());
    const regressed = (out: Store) => regress(makeDesk(), { runs: { store }, out });
    await expect(regressed(store)).rejects.toThrow(/recorded runs are there/);
    await expect(regressed(await record())).rejects.toThrow(/has other runs/);
    expect(JSON.stringify(await store.list())).toBe(before);
  });

  test('begins nothing more once it has cost enough', async () => {
    const turns = TURNS.map(turn => ({ ...turn, usage: { inputTokens: 1_000_000, outputTokens: 0 } }));
    const store = await record({ runs: 5, change: { turns } });
    const report = await regress(makeDesk({ turns }), { runs: { store }, cost: 5, concurrency: 1 });
    expect(report).toMatchObject({ runs: 2, complete: false });
    const free = createAgent({ name: 'desk', model: scripted(turns) });
    await expect(regress(free, { runs: { store }, cost: 5 })).rejects.toThrow(/has no prices/);
  });

  test('asks tool servers for their tools only, or not at all', async () => {
    const seen: string[] = [];
    const server = (executes: boolean) => ({
      connect: async () => {
        seen.push('connect');
        const made = makeDesk({}, executes ? { executed: seen } : {}).options.tools ?? [];
        return made.flatMap(one => ('run' in one ? [one] : []));
      },
      close: async () => {},
    });
    const store = memory();
    const recorded = makeDesk({ approval: false, options: { tools: [server(true)] } }, { store });
    const run = await recorded.start('Refund A-1.');
    await run.settled();
    await run.approve('call_1_0', { by: 'ann' });
    await run.settled();
    expect(seen).toEqual(['connect', 'look_up', 'refund']);
    seen.length = 0;
    const agent = makeDesk({ options: { tools: [server(false)] } });
    expect(await regress(agent, { runs: { store } })).toMatchObject({ same: 1 });
    expect(seen).toEqual(['connect']);
    const report = await regress(agent, { runs: { store }, offline: true });
    expect(report).toMatchObject({
      undecidable: 1,
      reasons: [{ why: expect.stringMatching(/look_up.*not asked/) }],
    });
    expect(seen).toEqual(['connect']);
  });

  test('gives the answers of agents below and of clients, and what people wrote, at their turn', async () => {
    const clerk = createAgent({ name: 'clerk', model: scripted([{ text: 'They owe 5.' }]) });
    const turns: ScriptedTurn[] = [
      calls(['ask_clerk', { input: 'debts' }], ['locate', {}]),
      { text: 'Hm.' },
      { text: 'Done.' },
    ];
    const make = (model: ScriptedTurn[], store: Store) =>
      createAgent({
        name: 'desk',
        store,
        model: scripted(model),
        tools: [
          clerk.asTool({ name: 'ask_clerk', description: 'Asks the clerk.' }),
          tool({ name: 'locate', description: 'Where the user is.', input: z.object({}) }),
        ],
      });
    const store = memory();
    const run = await make(turns, store).start('Who owes?');
    await run.settled();
    await run.send('And in total?');
    await run.answer('call_0_1', { output: 'Rome' });
    expect(await run.settled()).toMatchObject({ status: 'finished' });
    const report = await regress(make(turns, memory()), { runs: { store } });
    expect(report).toMatchObject({ same: 1, differences: [] });
    const other = make([calls(['ask_clerk', { input: 'all debts' }]), { text: 'Done.' }], memory());
    expect((await regress(other, { runs: { store } })).differences).toMatchObject([
      { kind: 'input', tool: 'ask_clerk' },
    ]);
  });

  test('plays a run after those that it continues', async () => {
    const store = memory();
    const executed: string[] = [];
    const agent = makeDesk({ approval: false }, { store, executed });
    const first = await agent.run('Refund A-1.');
    expect(first.status).toBe('finished');
    const [before] = (await store.list()).runs;
    await agent.run('And again.', { continues: before?.runId ?? '' });
    const asked: number[] = [];
    const model = scripted(TURNS);
    const counting = {
      ...model,
      capabilities: model.capabilities,
      generate: model.generate.bind(model),
      stream: (...[request, options]: Parameters<typeof model.stream>) => {
        asked.push(request.transcript.length);
        return model.stream(request, options);
      },
    };
    const report = await regress(makeDesk({ approval: false }), {
      runs: { store },
      model: counting,
      concurrency: 1,
    });
    expect(report).toMatchObject({ runs: 2, otherEffects: 0 });
    expect(Math.max(...asked)).toBe(7);
  });

  test('refuses a store without a run that matches', async () => {
    const given = { runs: { store: await record(), labels: { team: 'sales' } } };
    await expect(regress(makeDesk(), given)).rejects.toThrow('No recorded run of the agent "desk" matches.');
  });

  test('calls what it cannot play undecidable, and says why', async () => {
    const store = await record();
    const [run] = (await store.list()).runs;
    await store.redact(run?.runId ?? '', { paths: ['/1/input/0/content/0/text'] });
    const report = await regress(makeDesk(), { runs: { store } });
    expect(report).toMatchObject({
      runs: 1,
      undecidable: 1,
      reasons: [{ why: 'Parts of it were redacted.' }],
    });
  });

  test('stops if the provider refuses, and tries again what a failing service left open', async () => {
    const store = await record();
    const fails = (code: 'authentication' | 'overloaded') => scripted([{ error: { code } }]);
    const retry = { attempts: 1 };
    const out = memory();
    const options = { runs: { store }, out };
    await expect(
      regress(makeDesk({ options: { retry } }), { ...options, model: fails('authentication') }),
    ).rejects.toThrow();
    const report = await regress(makeDesk({ options: { retry } }), {
      ...options,
      model: fails('overloaded'),
    });
    expect(report).toMatchObject({ undecidable: 1 });
    expect((await out.list()).runs).toEqual([]);
  });
});
