import { describe, expect, test } from 'vitest';
import { createActor, waitFor } from 'xstate';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { type AgentOptions, createAgent, InDoubt, redactRun, tool } from '../../../agent/index.ts';
import { explore } from '../../../explore/explore.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { turns } from '../../../runner/index.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, eventsOf } from '../../support/engine/agents.ts';

const customer = z.object({ user: z.string(), locale: z.string().default('en') });
const ADA = { user: 'ada', locale: 'en' };
const done = { text: 'Done.' };

/** A tool that notes the run context which each of its functions gets. */
function makeSpy(seen: unknown[], options: { name?: string; runContext?: z.ZodType } = {}): Tool {
  return tool({
    name: 'spy',
    description: 'Notes its context.',
    input: z.object({}),
    approval: ({ runContext }) => {
      seen.push(['approval', runContext]);
      return true;
    },
    run: (_, { runContext }) => {
      seen.push(['run', runContext]);
      throw new InDoubt('the connection broke');
    },
    reconcile: ({ runContext: ofCall }, { runContext }) => {
      seen.push(['reconcile', ofCall, runContext]);
      return { happened: true, output: 'seen' };
    },
    ...options,
  });
}

type Changes = Partial<AgentOptions>;

function makeAgent(store: Store = memory(), changes: Changes = {}) {
  return createAgent({ name: 'desk', model: scripted([done]), runContext: customer, store, ...changes });
}

describe('the run context', () => {
  test('is what the schema returns, and is journaled in run.started', async () => {
    const store = memory();
    const run = await makeAgent(store).start('go', { runContext: { user: 'ada', more: 'dropped' } });
    await run.settled();
    const [started] = await eventsOf(store, run.id);
    expect(started).toMatchObject({ type: 'run.started', runContext: ADA });
    expect(run.context.runContext).toEqual(ADA);
    expect(JSON.stringify(await eventsOf(store, run.id))).not.toContain('dropped');
  });

  test('reaches every function of the agent, in the process that opens the run too', async () => {
    const store = memory();
    const seen: unknown[] = [];
    const requests: (string | undefined)[] = [];
    const model = scripted([calls('spy'), done]);
    const generate = model.generate.bind(model);
    const changes: Changes = {
      model: {
        ...model,
        generate: (request, options) => {
          requests.push(request.instructions);
          return generate(request, options);
        },
      },
      tools: [makeSpy(seen)],
      instructions: runContext => `You serve ${(runContext as typeof ADA).user}.`,
      prepareTurn: ({ runContext }) => void seen.push(['prepareTurn', runContext]),
      guardrails: {
        answer: (_, { runContext }) => {
          seen.push(['guardrail', runContext]);
          return { type: 'pass' };
        },
      },
    };
    const begun = await makeAgent(store, changes).start('go', { stream: false, runContext: ADA });
    await begun.settled();
    expect(seen).toEqual([
      ['prepareTurn', ADA],
      ['approval', ADA],
    ]);
    const opened = await makeAgent(store, changes).open(begun.id);
    await opened.approve('call_0_0');
    expect((await opened.settled()).status).toBe('finished');
    expect(seen.slice(2)).toEqual([
      ['run', ADA],
      ['reconcile', ADA, ADA],
      ['prepareTurn', ADA],
      ['guardrail', ADA],
    ]);
    expect(requests).toEqual(['You serve ada.', 'You serve ada.']);
  });

  test("an approved call acts for the run's user, also in a process that is set up for another one", async () => {
    const store = memory();
    const paid: unknown[] = [];
    const agentFor = (processUser: string) => {
      const pay = tool({
        name: 'pay',
        description: 'Pays.',
        input: z.object({}),
        approval: true,
        runContext: z.object({ user: z.string() }),
        run: (_, { runContext }) => void paid.push({ processUser, payer: runContext.user }),
      });
      return makeAgent(store, { model: scripted([calls('pay'), done]), tools: [pay] });
    };
    const labels = { user: '7' };
    const begun = await agentFor('7').start('go', { runContext: { user: '7' }, labels });
    await begun.settled();
    await expect(agentFor('8').open(begun.id, { labels: { user: '8' } })).rejects.toMatchObject({
      code: 'run-foreign',
    });
    const opened = await agentFor('8').open(begun.id);
    await opened.approve('call_0_0');
    await opened.settled();
    expect(paid).toEqual([{ processUser: '8', payer: '7' }]);
  });

  test('a snapshot keeps it, and another store restores it', async () => {
    const seen: unknown[] = [];
    const changes: Changes = { model: scripted([calls('spy'), done]), tools: [makeSpy(seen)] };
    const run = await makeAgent(memory(), changes).start('go', { runContext: ADA });
    await run.settled();
    const restored = await makeAgent(memory(), changes).restore(run.snapshot());
    await restored.approve('call_0_0');
    await restored.settled();
    expect(seen).toContainEqual(['run', ADA]);
  });

  test('a fork keeps it, and a continuation needs its own', async () => {
    const agent = makeAgent();
    const run = await agent.start('go', { runContext: ADA });
    await run.settled();
    const fork = await run.fork({ at: 1 });
    expect(fork.context.runContext).toEqual(ADA);
    await expect(agent.start('more', { continues: run.id })).rejects.toMatchObject({ code: 'input-invalid' });
    const next = await agent.start('more', { continues: run.id, runContext: { user: 'bob' } });
    expect(next.context.runContext).toMatchObject({ user: 'bob' });
  });

  test('is in the state of an actor and in the runs of a runner', async () => {
    const agent = makeAgent();
    const machine = agent.machine.provide({ actors: agent.services() });
    const actor = createActor(machine, { input: agent.input('go', { runContext: { user: 'ada' } }) });
    actor.start();
    const ended = await waitFor(actor, ({ status }) => status === 'done');
    expect(ended.context.runContext).toEqual(ADA);
    const runner = turns(makeAgent(), 'go', { runContext: ADA });
    await runner.runUntilDone();
    expect(runner.run.context.runContext).toEqual(ADA);
  });

  test('cannot be redacted before the run has ended; afterwards it can, and a fork that would use it is refused', async () => {
    const store = memory();
    const gated = makeSpy([]);
    const agent = makeAgent(store, { tools: [gated], model: scripted([calls('spy'), done]) });
    const run = await agent.start('go', { runContext: ADA });
    await run.settled();
    const redact = () => redactRun(store, run.id, { paths: ['/1/runContext/user'] });
    await expect(redact()).rejects.toMatchObject({ code: 'refused' });
    await run.reject('call_0_0');
    await run.settled();
    await redact();
    expect(JSON.stringify(await eventsOf(store, run.id))).not.toContain('"ada"');
    await expect(run.fork({ at: 1 })).rejects.toMatchObject({ code: 'refused' });
  });
});

describe('an invalid run context', () => {
  const rejected = async (given: unknown, changes: Changes = {}) => {
    const store = memory();
    const failure = await makeAgent(store, changes)
      .start('go', { runContext: given })
      .catch(error => error);
    expect((await store.list()).runs).toEqual([]);
    return failure;
  };

  test.each([
    ['none', undefined, /needs a run context/],
    ['a wrong type', { user: 7 }, /user: expected string/],
    ['a large one', { user: 'x'.repeat(70_000) }, /larger than 65536 bytes/],
  ])('%s is refused as input-invalid, and nothing is journaled', async (_, given, message) => {
    expect(await rejected(given)).toMatchObject({ code: 'input-invalid', message });
  });

  test('is refused by an agent without a schema', async () => {
    const store = memory();
    const agent = createAgent({ name: 'plain', model: scripted([done]), store });
    // @ts-expect-error the agent has no runContext schema
    const start = agent.start('go', { runContext: ADA });
    await expect(start).rejects.toMatchObject({ code: 'input-invalid', message: /takes no run context/ });
  });

  test.each([
    ['a Date', z.object({ since: z.coerce.date() }), { since: '2026-01-01' }, /runContext\.since/],
    ['a Map', z.map(z.string(), z.string()), new Map(), /runContext is not/],
    ['no number', z.object({ n: z.nan() }), { n: Number.NaN }, /runContext\.n/],
  ])('a schema that returns %s is agent-invalid', async (_, runContext, given, message) => {
    expect(await rejected(given, { runContext })).toMatchObject({ code: 'agent-invalid', message });
  });

  test('a schema that is none, and a tool that needs a context in an agent without one, are agent-invalid', () => {
    const make = (options: object) => () => createAgent({ name: 'desk', ...options });
    expect(make({ runContext: { user: 'string' } })).toThrow(/must be a Standard Schema/);
    const needs = makeSpy([], { runContext: customer });
    expect(make({ tools: [needs] })).toThrow(/Tool "spy" needs a run context/);
    const above = createAgent({ name: 'below', runContext: customer }).asTool({
      name: 'ask',
      description: 'Asks.',
    });
    expect(make({ tools: [above] })).toThrow(/Tool "ask" needs a run context/);
  });

  test('an asynchronous schema works in start; an actor cannot wait for it', async () => {
    const runContext = customer.refine(async () => true);
    const agent = makeAgent(memory(), { runContext });
    expect((await agent.start('go', { runContext: ADA })).context.runContext).toEqual(ADA);
    expect(() => agent.input('go', { runContext: ADA })).toThrow(/asynchronous/);
  });
});

describe('a tool with a runContext schema of its own', () => {
  test('gets what its schema returns', async () => {
    const seen: unknown[] = [];
    const tools = [
      makeSpy(seen, { runContext: z.object({ user: z.string().transform(user => user.length) }) }),
    ];
    const run = await makeAgent(memory(), { tools, model: scripted([calls('spy'), done]) }).start('go', {
      runContext: ADA,
    });
    await run.settled();
    await run.approve('call_0_0');
    await run.settled();
    expect(seen).toEqual([
      ['approval', { user: 3 }],
      ['run', { user: 3 }],
      ['reconcile', { user: 3 }, { user: 3 }],
    ]);
  });

  test('that refuses a context which the agent accepts makes start reject as agent-invalid', async () => {
    const tools = [makeSpy([], { runContext: z.object({ tenant: z.string() }) })];
    const start = makeAgent(memory(), { tools }).start('go', { runContext: ADA });
    await expect(start).rejects.toMatchObject({ code: 'agent-invalid', message: /"spy".*tenant/ });
  });

  test('does not run with a context that it no longer accepts', async () => {
    const store = memory();
    const seen: unknown[] = [];
    const model = scripted([calls('spy'), done]);
    const run = await makeAgent(store, { model, tools: [makeSpy(seen)] }).start('go', { runContext: ADA });
    await run.settled();
    const stricter = makeSpy(seen, { runContext: z.object({ tenant: z.string() }) });
    const opened = await makeAgent(store, { model, tools: [stricter] }).open(run.id);
    await opened.approve('call_0_0');
    expect(await opened.settled()).toMatchObject({
      results: [
        { isError: true, output: expect.stringContaining('does not accept the run context: tenant') },
      ],
    });
    expect(seen).toEqual([['approval', ADA]]);
  });
});

describe('the run of a sub-agent', () => {
  const startAbove = async (below: Changes) => {
    const store = memory();
    const sub = createAgent({ name: 'below', model: scripted([done]), ...below });
    const ask = sub.asTool({ name: 'ask', description: 'Asks.' });
    const model = scripted([calls(['ask', { input: 'go' }]), done]);
    const run = await makeAgent(store, { model, tools: [ask] }).start('go', { runContext: ADA });
    await run.settled();
    const [child] = (await store.list()).runs.filter(({ agent }) => agent === 'below');
    return (await eventsOf(store, child?.runId ?? ''))[0] as JsonObject | undefined;
  };

  test('has the part of the context that its schema takes', async () => {
    const started = await startAbove({ runContext: z.object({ user: z.string() }) });
    expect(started).toMatchObject({ type: 'run.started', runContext: { user: 'ada' } });
    expect(started?.runContext).not.toHaveProperty('locale');
  });

  test('has none if its agent takes none', async () => {
    const started = await startAbove({});
    expect(started?.type).toBe('run.started');
    expect(started).not.toHaveProperty('runContext');
  });

  test('is refused at the start of the calling run if its agent does not accept the context', async () => {
    await expect(startAbove({ runContext: z.object({ tenant: z.string() }) })).rejects.toMatchObject({
      code: 'agent-invalid',
      message: /"ask".*tenant/,
    });
  });
});

test('explore needs a sample of the run context, which its invariants read', () => {
  const agent = makeAgent();
  expect(() => explore(agent, { maxStates: 50 })).toThrow(/needs a run context/);
  const seen = new Set<unknown>();
  explore(agent, {
    maxStates: 50,
    runContext: { user: 'ada' },
    invariants: { 'has a user': ({ context }) => seen.add(JSON.stringify(context.runContext)) !== undefined },
  });
  expect([...seen]).toEqual([JSON.stringify(ADA)]);
});
