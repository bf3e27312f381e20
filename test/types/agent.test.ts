import { describe, expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import {
  type Agent,
  createAgent,
  type OpenCall,
  type Run,
  type Settled,
  type Tool,
  type ToolResult,
  type ToolSource,
  tool,
} from '../../agent/index.ts';
import { calls } from '../support/engine/agents.ts';

const customer = z.object({ user: z.string(), tenant: z.string().default('a') });

const lookup = tool({
  name: 'lookup',
  description: 'Looks an order up.',
  input: z.object({ orderId: z.string() }),
  sideEffect: 'none',
  retries: 2,
  run: ({ orderId }) => ({ orderId, cents: 4200 }),
});
const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  input: z.object({ orderId: z.string(), cents: z.int() }),
  output: z.object({ state: z.enum(['done', 'refused']) }),
  runContext: z.object({ user: z.string() }),
  approval: ({ input, runContext }) => {
    expectTypeOf(input).toEqualTypeOf<{ orderId: string; cents: number }>();
    expectTypeOf(runContext).toEqualTypeOf<{ user: string }>();
    return true;
  },
  run: (_, { runContext }) => {
    expectTypeOf(runContext).toEqualTypeOf<{ user: string }>();
    return { state: 'done' as const };
  },
});
const ask = tool({
  name: 'ask_customer',
  description: 'The client asks.',
  input: z.object({}),
  output: z.object({ answer: z.string() }),
});

function makeDesk(turns = [{ text: '{"total":3}' }]) {
  return createAgent({
    name: 'desk',
    model: scripted(turns),
    tools: [lookup, refund, ask],
    output: z.object({ total: z.number() }),
    runContext: customer,
    toolChoice: { name: 'lookup' },
    instructions: runContext => {
      expectTypeOf(runContext).toEqualTypeOf<{ user: string; tenant: string }>();
      return `You serve ${runContext.user}.`;
    },
    prepareTurn: ({ runContext, turns }) => {
      expectTypeOf(runContext.tenant).toEqualTypeOf<string>();
      expectTypeOf(turns).toEqualTypeOf<number>();
      return undefined;
    },
    guardrails: {
      answer: (text, { runContext }) => {
        expectTypeOf(runContext).toEqualTypeOf<{ user: string; tenant: string }>();
        return { type: 'replace', value: text };
      },
    },
  });
}

type Desk = ReturnType<typeof makeDesk>;
type SettledDesk = Awaited<ReturnType<Desk['run']>>;
type Finished = Extract<SettledDesk, { status: 'finished' }>;
type Waiting = Extract<SettledDesk, { status: 'waiting' }>;

describe('a tool', () => {
  test('has the types of its name, input, result and run context', () => {
    expectTypeOf(lookup).toEqualTypeOf<
      Tool<'lookup', { orderId: string }, { orderId: string; cents: number }>
    >();
    expectTypeOf(refund).toEqualTypeOf<
      Tool<'refund', { orderId: string; cents: number }, { state: 'done' | 'refused' }, { user: string }>
    >();
    expectTypeOf(ask).toEqualTypeOf<Tool<'ask_customer', Record<string, never>, { answer: string }>>();
  });

  test('has the type of its result as JSON', () => {
    const dated = tool({
      name: 'dated',
      description: '',
      input: z.object({ name: z.string() }),
      run: async ({ name }) => ({ at: new Date(0), by: { name }, list: [1] as const }),
    });
    type Result = NonNullable<(typeof dated)['~types']>['output'];
    expectTypeOf<Result>().toEqualTypeOf<{ at: string; by: { name: string }; list: readonly [1] }>();
  });

  test('has the result null if it returns nothing', async () => {
    const note = tool({ name: 'note', description: 'Notes.', input: z.object({}), run: async () => {} });
    const find = tool({
      name: 'find',
      description: 'Finds.',
      input: z.object({}),
      run: (): string | undefined => undefined,
    });
    const model = scripted([calls('note', 'find'), { text: '' }]);
    const settled = await createAgent({ name: 'desk', model, tools: [note, find] }).run('go');
    if (settled.status !== 'finished') throw new Error(settled.status);
    for (const result of settled.results) {
      if (result.isError) throw new Error(String(result.output));
      if (result.name === 'note') expectTypeOf(result.output).toEqualTypeOf<null>();
      else expectTypeOf(result.output).toEqualTypeOf<string | null>();
      expect(result.output).toBe(null);
    }
  });

  test('that must not run twice has no retries, and its result fits its output schema', () => {
    const basics = { name: 'pay', description: 'Pays.', input: z.object({ cents: z.int() }) };
    // @ts-expect-error sideEffect is "once" by default
    expect(() => tool({ ...basics, retries: 1 })).toThrow(/cannot have retries/);
    // @ts-expect-error "once" has no retries
    expect(() => tool({ ...basics, sideEffect: 'once', retries: 1 })).toThrow(/cannot have retries/);
    // @ts-expect-error there is no such side effect
    expect(() => tool({ ...basics, sideEffect: 'twice' })).toThrow(/sideEffect/);
    const output = z.object({ paid: z.number() });
    // @ts-expect-error paid is a number
    tool({ ...basics, output, run: () => ({ paid: 'yes' }) });
    // @ts-expect-error paid is a number, whatever the input is
    tool({ ...basics, output, run: async ({ cents }) => ({ paid: String(cents) }) });
    // @ts-expect-error the input has no such member
    tool({ ...basics, run: ({ dollars }) => dollars });
    tool({ ...basics, output: z.enum(['a', 'b']), run: () => 'a' });
  });
});

test('a tool returns a literal for an enum of its output schema, in whatever form its function has', () => {
  const basics = { description: '', input: z.object({ orderId: z.string() }) };
  const output = z.object({ status: z.enum(['shipped', 'lost']), seen: z.array(z.string()) });
  const tools = [
    tool({ ...basics, name: 'a', output, run: () => ({ status: 'lost', seen: [] }) }),
    tool({ ...basics, name: 'b', output, run: async () => ({ status: 'lost', seen: ['today'] }) }),
    tool({
      ...basics,
      name: 'c',
      output,
      run: async ({ orderId }) =>
        orderId === '' ? { status: 'lost', seen: [orderId] } : { status: 'shipped', seen: [] },
    }),
    tool({
      ...basics,
      name: 'd',
      output,
      run({ orderId }) {
        const seen: string[] = [orderId];
        return { status: 'lost', seen };
      },
    }),
    // @ts-expect-error there is no such status
    tool({ ...basics, name: 'e', output, run: () => ({ status: 'found', seen: [] }) }),
    // @ts-expect-error there is no such status
    tool({ ...basics, name: 'f', output, run: async () => ({ status: 'found', seen: ['now'] }) }),
  ];
  expect(tools).toHaveLength(6);
});

describe('an agent', () => {
  test('requires its run context, and has no other', () => {
    const desk = makeDesk();
    expectTypeOf(desk.start).parameter(1).toExtend<{ runContext: { user: string } }>();
    const start = [
      // @ts-expect-error the run context is missing
      () => desk.start('go'),
      // @ts-expect-error the run context is missing
      () => desk.run('go', { stream: false }),
      // @ts-expect-error the user is a string
      () => desk.start('go', { runContext: { user: 7 } }),
      // @ts-expect-error the agent has no run context
      () => createAgent({ name: 'plain' }).start('go', { runContext: { user: 'ada' } }),
      // @ts-expect-error the run context is missing
      () => desk.map(['go']),
      // @ts-expect-error the user is a string
      () => desk.map(['go'], { runContext: () => ({ user: 7 }) }),
      () => desk.map(['go'], { runContext: { user: 'ada' } }),
      () => desk.map(['go'], { runContext: input => ({ user: input }) }),
      // @ts-expect-error the agent has no run context
      () => createAgent({ name: 'plain' }).map(['go'], { runContext: { user: 'ada' } }),
    ];
    expect(start).toHaveLength(9);
  });

  test('without the run context that a tool needs does not compile', () => {
    // @ts-expect-error the agent has no run context
    expect(() => createAgent({ name: 'desk', tools: [refund] })).toThrow(/needs a run context/);
    const runContext = z.object({ tenant: z.string() });
    // @ts-expect-error the run context has no user
    createAgent({ name: 'desk', tools: [lookup, refund], runContext });
    const below = makeDesk().asTool({ name: 'ask_desk', description: 'Asks.' });
    // @ts-expect-error the sub-agent needs a user
    createAgent({ name: 'above', tools: [below], runContext });
  });

  test('refuses a toolChoice that names no tool of its own', () => {
    expect(() =>
      // @ts-expect-error there is no tool "look_up"
      createAgent({ name: 'desk', tools: [lookup, ask], toolChoice: { name: 'look_up' } }),
    ).toThrow(/toolChoice.*"look_up".*lookup, ask_customer/);
    const source: ToolSource = { connect: async () => [lookup], close: async () => {} };
    createAgent({ name: 'desk', tools: [source, ask], toolChoice: { name: 'known once connected' } });
  });

  test('types the answer, or has none', () => {
    expectTypeOf<Finished['output']>().toEqualTypeOf<{ total: number } | undefined>();
    const plain = createAgent({ name: 'plain', tools: [lookup] });
    type Plain = Extract<Awaited<ReturnType<typeof plain.run>>, { status: 'finished' }>;
    expectTypeOf<Plain['output']>().toEqualTypeOf<undefined>();
  });

  test('types the results of a map by their status', () => {
    const take = async (desk: Desk) => {
      const [result] = await desk.map(['go'], { runContext: { user: 'ada' } });
      if (result?.status === 'finished' && result.incomplete === undefined)
        expectTypeOf(result.output).toEqualTypeOf<{ total: number }>();
      if (result?.status === 'waiting') expectTypeOf(result.approvals).toEqualTypeOf<Waiting['approvals']>();
      // @ts-expect-error an input without a run has no id
      return result?.runId;
    };
    expect(take).toBeTypeOf('function');
  });

  test('accepts another schema library by its Standard Schema, with a JSON Schema', () => {
    const agent = createAgent({
      name: 'desk',
      output: { schema: z.object({ n: z.number() }), name: 'count', strict: true },
    });
    type Done = Extract<Awaited<ReturnType<typeof agent.run>>, { status: 'finished' }>;
    expectTypeOf<Done['output']>().toEqualTypeOf<{ n: number } | undefined>();
    expectTypeOf<Extract<Done, { incomplete?: undefined }>['output']>().toEqualTypeOf<{ n: number }>();
  });

  test('is any agent, and its settled value any settled value', () => {
    expectTypeOf<Desk>().toExtend<Agent>();
    expectTypeOf<SettledDesk>().toExtend<Settled>();
    expectTypeOf<Awaited<ReturnType<Desk['start']>>>().toExtend<Run>();
    expectTypeOf<Finished['results'][number]>().toExtend<ToolResult>();
    expectTypeOf<Waiting['approvals'][number]>().toExtend<OpenCall>();
    expectTypeOf(lookup).toExtend<Tool>();
    const any: Agent = makeDesk();
    const tools: Tool[] = [lookup, refund, ask];
    const again = createAgent({ ...any.options, tools });
    expectTypeOf(again).toExtend<Agent>();
  });
});

describe('a settled run', () => {
  test('gives each open call to the method that decides it, although the tools have different inputs', async () => {
    const run = await makeDesk().start('go', { runContext: { user: 'ada' } });
    const settled = await run.settled();
    const decide = async (waiting: Waiting) => {
      for (const call of waiting.approvals) await run.approve(call, { by: 'ada' });
      for (const call of waiting.approvals) await run.reject(call, { reason: 'no' });
      for (const call of waiting.doubts) await run.resolve(call, { retry: true });
      for (const open of waiting.open) {
        if (open.kind === 'pause' || open.kind === 'sign-in') continue;
        if (open.kind === 'review') {
          await run.approve(open, { answer: 'another' });
          continue;
        }
        // @ts-expect-error no tool has such an input
        await run.approve(open, { input: { dollars: 1 } });
        if (open.kind === 'result' && open.name === 'ask_customer')
          await run.answer(open, { output: { answer: 'yes' } });
        if (open.name === 'refund') await run.approve(open, { input: { orderId: 'A', cents: 1 } });
        // @ts-expect-error cents are missing
        if (open.name === 'refund') await run.approve(open, { input: { orderId: 'A' } });
      }
    };
    expect(decide).toBeTypeOf('function');
    if (settled.status !== 'finished' || settled.incomplete !== undefined) throw new Error(settled.status);
    expectTypeOf(settled.output).toEqualTypeOf<{ total: number }>();
    expect(settled.output.total).toBe(3);
  });

  test('has results that differ by name and isError', () => {
    const check = (result: Finished['results'][number]) => {
      if (result.isError) return expectTypeOf(result.output).toEqualTypeOf<unknown>();
      if (result.name === 'lookup') {
        expectTypeOf(result.input).toEqualTypeOf<{ orderId: string }>();
        return expectTypeOf(result.output).toEqualTypeOf<{ orderId: string; cents: number }>();
      }
      if (result.name === 'refund')
        return expectTypeOf(result.output).toEqualTypeOf<{ state: 'done' | 'refused' }>();
      return expectTypeOf(result.name).toEqualTypeOf<'ask_customer'>();
    };
    expect(check).toBeTypeOf('function');
  });

  test('has the open calls of sub-agents', () => {
    const below = createAgent({ name: 'below', tools: [lookup] }).asTool({ name: 'ask', description: '' });
    const above = createAgent({ name: 'above', tools: [below, ask] });
    type Call = Extract<Awaited<ReturnType<typeof above.run>>, { status: 'waiting' }>['approvals'][number];
    expectTypeOf<Call['name']>().toEqualTypeOf<'ask' | 'lookup' | 'ask_customer'>();
    expectTypeOf<Extract<Call, { name: 'ask' }>['input']>().toEqualTypeOf<{ input: string }>();
    expectTypeOf(below).toExtend<Tool<'ask', { input: string }, string>>();
  });

  test('takes as an answer what the output schema takes, and has what it returns', async () => {
    const ask = tool({
      name: 'ask',
      description: 'The client asks.',
      input: z.object({}),
      output: z.object({ cents: z.string().transform(Number) }),
    });
    const agent = createAgent({ name: 'desk', model: scripted([calls('ask'), { text: '' }]), tools: [ask] });
    const run = await agent.start('go');
    const waiting = await run.settled();
    const [call] = waiting.status === 'waiting' ? waiting.open : [];
    if (call?.kind !== 'result') throw new Error(waiting.status);
    // @ts-expect-error the schema takes a text
    expect(await run.answer(call, { output: { cents: 7 } })).toMatchObject({ code: 'input-invalid' });
    expect(await run.answer(call, { output: { cents: '7' } })).toEqual({ accepted: true });
    const ended = await run.settled();
    const [result] = ended.status === 'finished' ? ended.results : [];
    if (result === undefined || result.isError) throw new Error(ended.status);
    expectTypeOf(result.output).toEqualTypeOf<{ cents: number }>();
    expect(result.output).toEqual({ cents: 7 });
  });

  test('types an edit by its call, and checks an answer against the output schema of the tool', async () => {
    const agent = makeDesk([
      calls(['refund', { orderId: 'A', cents: 1 }], 'ask_customer'),
      { text: '{"total":3}' },
    ] as Parameters<typeof makeDesk>[0]);
    const run = await agent.start('go', { runContext: { user: 'ada' } });
    const settled = await run.settled();
    if (settled.status !== 'waiting') throw new Error(settled.status);
    const [gated] = settled.approvals;
    if (gated?.name !== 'refund') throw new Error('expected the refund to wait');
    expectTypeOf(gated.input).toEqualTypeOf<{ orderId: string; cents: number }>();
    const refused = [
      // @ts-expect-error cents is a number
      await run.approve(gated, { input: { orderId: 'A', cents: 'all' } }),
      // @ts-expect-error the tool returns a state
      await run.answer(gated, { output: { state: 'lost' } }),
      await run.answer(gated.callId, { output: { any: 'thing' } }),
      await run.approve({ ...gated, digest: 'of another call' }),
    ];
    expect(refused).toMatchObject([
      { code: 'input-invalid', message: /cents/ },
      { code: 'input-invalid', message: /The output is not valid for refund: state/ },
      { code: 'input-invalid', message: /The output is not valid for refund: state/ },
      { code: 'wrong-digest' },
    ]);
    expect(await run.approve(gated, { input: { orderId: 'B', cents: 2 } })).toEqual({ accepted: true });
    const asking = await run.settled();
    const [question] = asking.status === 'waiting' ? asking.open : [];
    if (question?.kind !== 'result' || question.name !== 'ask_customer')
      throw new Error('expected the question to wait');
    expect(await run.answer(question, { output: { answer: 'yes', more: 1 } as { answer: string } })).toEqual({
      accepted: true,
    });
    const ended = await run.settled();
    if (ended.status !== 'finished') throw new Error(ended.status);
    expect(ended.output?.total).toBe(3);
    expect(ended.results).toMatchObject([
      { name: 'refund', input: { orderId: 'B', cents: 2 }, output: { state: 'done' } },
      { name: 'ask_customer', output: { answer: 'yes' } },
    ]);
    expect(ended.results[1]?.output).toEqual({ answer: 'yes' });
  });
});

describe('an option with an unknown name does not compile, whatever is inferred', () => {
  const model = scripted([]);
  const basics = { name: 'pay', description: 'Pays.', input: z.object({ cents: z.int() }) };
  const output = z.object({ total: z.number() });
  const all = { name: 'desk', model, tools: [lookup, refund], runContext: customer, output };

  test('of createAgent', () => {
    // @ts-expect-error modle
    expect(() => createAgent({ name: 'desk', modle: model })).toThrow('did you mean "model"?');
    // @ts-expect-error modle
    expect(() => createAgent({ ...all, modle: model })).toThrow('did you mean "model"?');
    // @ts-expect-error maxTurns
    expect(() => createAgent({ ...all, limits: { maxTurns: 3 } })).toThrow('did you mean "turns"?');
    // @ts-expect-error atempts
    expect(() => createAgent({ ...all, retry: { atempts: 3 } })).toThrow('did you mean "attempts"?');
  });

  test('of tool, with and without an output schema', () => {
    const approving = 'did you mean "approval"?';
    // @ts-expect-error needsApproval
    expect(() => tool({ ...basics, needsApproval: true, run: ({ cents }) => cents })).toThrow(approving);
    expect(() =>
      // @ts-expect-error needsApproval
      tool({ ...basics, output, needsApproval: true, run: ({ cents }) => ({ total: cents }) }),
    ).toThrow(approving);
    // @ts-expect-error expiresIn
    expect(() => tool({ ...basics, approval: { required: true, expiresIn: 1 } })).toThrow('"expiresInMs"?');
  });

  test('of a run', async () => {
    const agent = createAgent({ name: 'desk', model: scripted([{ text: '' }]), tools: [lookup] });
    // @ts-expect-error label
    await expect(agent.start('go', { label: {} })).rejects.toThrow('did you mean "labels"?');
    const run = await agent.start('go');
    // @ts-expect-error stiky
    await expect(run.approve('call_1', { stiky: true })).rejects.toThrow('did you mean "sticky"?');
    // @ts-expect-error forc
    await expect(run.resolve('call_1', { retry: true, forc: true })).rejects.toThrow('did you mean "force"?');
  });
});
