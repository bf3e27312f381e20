import { afterEach, describe, expect, it } from 'vitest';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { InDoubt } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Settled } from '../../protocol/run-view.ts';
import type { Store } from '../../protocol/store.ts';
import type { AskedQuestion } from '../../protocol/tool.ts';
import { memory } from '../../stores/memory.ts';
import type { McpOptions } from '../../tools/mcp.ts';
import { calls, eventsOf, resultsIn } from '../support/engine/agents.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';
import { AskingWorld, addAsking } from '../support/tools/asking-server.ts';
import { createKeepingContext, rejectionOf, runTool } from '../support/tools/call-context.ts';
import { closeDesks, desk, start } from '../support/tools/http-desk.ts';

afterEach(closeDesks);

type Overrides = Partial<Pick<McpOptions, 'tools' | 'resources'>>;

async function begin(halt?: () => unknown) {
  const world = new AskingWorld(makeTemporaryFolder('asking'));
  const add = (server: Parameters<typeof addAsking>[0]) => addAsking(server, world, halt);
  const server = await start({ serves: 'current', add });
  return { world, server, add };
}

function makeAgent(url: string, store: Store, turns: ScriptedTurn[], options: Overrides = {}) {
  return createAgent({
    name: 'a',
    store,
    model: scripted([...turns, { text: 'done' }]),
    tools: [desk(url, options)],
  });
}

const PAY = [calls(['pay', { amount: 5 }])];

async function waiting(run: { settled(): Promise<Settled> }) {
  const settled = await run.settled();
  if (settled.status !== 'waiting')
    throw new Error(`the run is ${settled.status}: ${JSON.stringify(settled)}`);
  return settled.questions.flatMap(({ questions }) => questions);
}

describe('a server that asks', () => {
  it('is asked again with the answers and its state unchanged, in each round by another client and a restarted server', async () => {
    const { world, server, add } = await begin();
    const store = memory();
    const first = await makeAgent(server.url, store, PAY).start('go');
    const [account] = await waiting(first);
    expect(account).toMatchObject({
      key: '1.account',
      message: 'The MCP server "desk" asks: Which account?',
      schema: { type: 'object', properties: { account: { enum: ['main', 'spare'] } }, required: ['account'] },
    });
    expect(await first.answer('call_0_0', { answers: { '1.account': { account: 'none' } } })).toMatchObject({
      code: 'input-invalid',
    });

    await server.close();
    const restarted = await start({ serves: 'current', add });
    const second = await makeAgent(restarted.url, store, PAY).open(first.id);
    await second.answer('call_0_0', { answers: { '1.account': { account: 'main' } } });
    const [sure] = await waiting(second);
    expect(sure?.message).toBe('The MCP server "desk" asks: Pay 5?');
    expect(sure?.key).toMatch(/^2\.is_it_right_\.[0-9a-f]{12}$/);

    const third = await makeAgent(restarted.url, store, PAY).open(first.id);
    await third.answer('call_0_0', { answers: { [sure?.key ?? '']: { sure: true } } });
    expect((await third.settled()).status).toBe('finished');
    expect(resultsIn(third.context.transcript)).toEqual({ call_0_0: 'paid 5 from main' });
    expect(world.ledger).toEqual([
      'asked first',
      'asked {"account":{"action":"accept","content":{"account":"main"}}}',
      'asked {"is it right?":{"action":"accept","content":{"sure":true}}}',
      'paid 5 from main',
    ]);
    const starts = (await eventsOf(store, first.id)).filter(({ type }) => type === 'tool.started');
    expect(starts.map(event => 'attempt' in event && event.attempt)).toEqual([1, 2, 3]);
    expect(new Set(starts.map(event => 'key' in event && event.key)).size).toBe(1);
  });

  it('gets a new request id, and the capabilities with calls only', async () => {
    const { server } = await begin();
    const run = await makeAgent(server.url, memory(), PAY).start('go');
    await waiting(run);
    await run.reject('call_0_0', { reason: 'secret' });
    await run.settled();
    const sent = await Promise.all(server.seen.map(({ body }) => body));
    const called = sent.filter(({ method }) => method === 'tools/call');
    expect(new Set(called.map(({ id }) => id)).size).toBe(2);
    const capabilities = sent.map(({ method, params }) => [
      method,
      params?._meta?.['io.modelcontextprotocol/clientCapabilities'],
    ]);
    for (const [method, given] of capabilities)
      expect(given, String(method)).toEqual(
        method === 'tools/call'
          ? { elicitation: { form: {}, url: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } }
          : {},
      );
    expect(JSON.stringify(sent)).not.toContain('secret');
  });

  it('reads that a person declined, and not why', async () => {
    const { world, server } = await begin();
    const run = await makeAgent(server.url, memory(), PAY).start('go');
    await waiting(run);
    await run.reject('call_0_0', { reason: 'none of its business' });
    expect((await run.settled()).status).toBe('finished');
    expect(resultsIn(run.context.transcript)).toEqual({ call_0_0: 'not paid: no account' });
    expect(world.ledger).toEqual(['asked first', 'asked {"account":{"action":"decline"}}']);
  });

  it('has people open a URL: consent is an answer without content', async () => {
    const { server } = await begin();
    const run = await makeAgent(server.url, memory(), [calls('visit')]).start('go');
    const [open] = await waiting(run);
    expect(open).toMatchObject({
      url: 'https://example.com/key?id=1',
      schema: { additionalProperties: false },
    });
    expect((await run.answer('call_0_0', { answers: { '1.key': { secret: 1 } } })).accepted).toBe(false);
    await run.answer('call_0_0', { answers: { '1.key': {} } });
    expect((await run.settled()).status).toBe('finished');
    expect(resultsIn(run.context.transcript)).toEqual({
      call_0_0: '[{"key":{"action":"accept"}},"id=1"]',
    });
  });

  it('several calls at once ask each for itself', async () => {
    const { world, server } = await begin();
    const turns = [calls(['pay', { amount: 5 }], ['pay', { amount: 7 }], 'visit')];
    const run = await makeAgent(server.url, memory(), turns).start('go');
    expect(await waiting(run)).toHaveLength(3);
    const sure = async (callId: string, account: string) => {
      await run.answer(callId, { answers: { '1.account': { account } } });
      await run.settled();
      const asked = run.context.calls.find(call => call.callId === callId)?.asked?.questions[0];
      await run.answer(callId, { answers: { [asked?.key ?? '']: { sure: true } } });
      await run.settled();
    };
    await sure('call_0_1', 'spare');
    await sure('call_0_0', 'main');
    await run.answer('call_0_2', { answers: { '1.key': {} } });
    expect((await run.settled()).status).toBe('finished');
    expect(world.ledger.filter(line => line.startsWith('paid'))).toEqual([
      'paid 7 from spare',
      'paid 5 from main',
    ]);
  });

  it('in the run of a sub-agent asks at the top run', async () => {
    const { server } = await begin();
    const store = memory();
    const low = createAgent({
      name: 'low',
      description: 'low',
      store,
      model: scripted([...PAY, { text: 'low done' }]),
      tools: [desk(server.url)],
    });
    const top = createAgent({
      name: 'top',
      store,
      model: scripted([calls(['low', { input: 'x' }]), { text: 'done' }]),
      tools: [low.asTool({ name: 'low', description: 'low' })],
    });
    const run = await top.start('go');
    const settled = await run.settled();
    const [open] = settled.status === 'waiting' ? settled.questions : [];
    expect(open?.questions).toMatchObject([{ key: '1.account' }]);
    expect(open?.runId).not.toBe(run.id);
    expect((await run.reject(open ?? '')).accepted).toBe(true);
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'done' });
  });

  it('for ever is stopped after a hundred rounds', async () => {
    const { world, server } = await begin();
    const given = { type: 'given' as const, value: { ok: true } };
    const { context, asked } = createKeepingContext({ '98.ok': given, '99.ok': given, '100.ok': given });
    const question = { key: '98.ok', message: 'm', schema: { type: 'object' } };
    const kept = { type: 'asked', round: 98, questions: [{ name: 'ok', question }], requestState: '98' };
    const error = await rejectionOf(
      runTool(await desk(server.url).connect(), 'nag', {}, { ...context, kept }),
    );
    expect(String(error)).toBe(
      'Error: "nag": the MCP server "desk" asks for more input after 100 rounds of it. The call ends without a result.',
    );
    expect(asked.map(({ key }) => key)).toEqual(['98.ok', '99.ok', '100.ok']);
    expect(world.ledger).toEqual(['nag 98', 'nag 99', 'nag 100']);
  });

  it('for nothing but another request gets it after a pause', async () => {
    const { server } = await begin();
    const { context, waits, kept } = createKeepingContext();
    const tools = await desk(server.url).connect();
    expect(await runTool(tools, 'stall', {}, context)).toBe('done after 4');
    expect(waits).toEqual([250, 500, 1000]);
    expect(kept).toHaveLength(6);
  });

  it('may ask about a resource', async () => {
    const { server } = await begin();
    const run = await makeAgent(server.url, memory(), [calls(['read_resource', { uri: 'vault://1' }])], {
      resources: true,
    }).start('go');
    expect(await waiting(run)).toMatchObject([{ key: '1.pin' }]);
    await run.answer('call_0_0', { answers: { '1.pin': { pin: '1234' } } });
    expect((await run.settled()).status).toBe('finished');
    expect(resultsIn(run.context.transcript)).toEqual({ call_0_0: 'opened with 1234' });
  });

  it('in an earlier revision is not told that people can answer', async () => {
    const world = new AskingWorld(makeTemporaryFolder('asking'));
    const server = await start({ add: made => addAsking(made, world) });
    const run = await makeAgent(server.url, memory(), PAY).start('go');
    expect((await run.settled()).status).toBe('finished');
    const sent = await Promise.all(server.seen.map(({ body }) => body));
    expect(JSON.stringify(sent.find(({ method }) => method === 'initialize'))).toContain('"capabilities":{}');
    expect(JSON.stringify(sent)).not.toContain('clientCapabilities":{"elicitation"');
    expect(resultsIn(run.context.transcript).call_0_0).toMatch(/elicitation/i);
  });

  it('where nobody can be asked is told no capability, and the call fails', async () => {
    const { server } = await begin();
    const error = await rejectionOf(runTool(await desk(server.url).connect(), 'pay', { amount: 5 }));
    expect(error).not.toBeInstanceOf(InDoubt);
    expect(String(error)).toMatch(/elicitation|asks for input/);
  });
});

type Params = { [name: string]: unknown };

/** A server whose tool `echo` returns these results, one after the other; and the requests for it. */
async function answering(...results: object[]) {
  const calls: Params[] = [];
  const server = await start({
    serves: 'current',
    instead: async (request, says) => {
      if (says !== 'tools/call') return undefined;
      const { id, params } = (await request.clone().json()) as { id: number; params: Params };
      calls.push(params);
      const asks = results[calls.length - 1];
      const result = asks
        ? { resultType: 'input_required', ...asks }
        : { content: [{ type: 'text', text: 'done' }] };
      return Response.json({ jsonrpc: '2.0', id, result });
    },
  });
  return { calls, tools: await desk(server.url).connect() };
}

const formOf = (requestedSchema: unknown, message: unknown = 'Which?') => ({
  inputRequests: { a: { method: 'elicitation/create', params: { message, requestedSchema } } },
});
const urlOf = (url: unknown) => ({
  inputRequests: { a: { method: 'elicitation/create', params: { mode: 'url', message: 'Open.', url } } },
});
const OBJECT = { type: 'object', properties: { a: { type: 'string' } } };

describe('a server that lies', () => {
  const many = Object.fromEntries(
    Array.from({ length: 21 }, (_, index) => [`a${index}`, formOf(OBJECT).inputRequests.a]),
  );
  it.each([
    [
      'another method',
      { inputRequests: { a: { method: 'sampling/createMessage', params: {} } } },
      'asks for sampling/createMessage, which',
    ],
    ['no method', { inputRequests: { a: 'who?' } }, 'asks for input, which'],
    [
      'no parameters',
      { inputRequests: { a: { method: 'elicitation/create' } } },
      'which this client does not have',
    ],
    [
      'another mode',
      {
        inputRequests: {
          a: {
            method: 'elicitation/create',
            params: { mode: 'voice', message: 'a', requestedSchema: OBJECT },
          },
        },
      },
      'without a schema',
    ],
    ['no schema', formOf(undefined), 'without a schema of an object'],
    ['a schema of a text', formOf({ type: 'string' }), 'without a schema of an object'],
    ['too many questions', { inputRequests: many }, 'asks for 21 inputs at once; the limit is 20'],
    ['too much', formOf({ ...OBJECT, description: 'a'.repeat(200_000) }), 'more than 200000 characters'],
    [
      'a large state',
      { ...formOf(OBJECT), requestState: 'a'.repeat(100_001) },
      'more than 100000 characters',
    ],
    ['a script as a URL', urlOf('javascript:alert(1)'), 'not http or https'],
    ['a file as a URL', urlOf('file:///etc/passwd'), 'not http or https'],
    ['a URL with a password', urlOf('https://a:b@example.com/'), 'has credentials'],
    ['a long URL', urlOf(`https://example.com/${'a'.repeat(5_000)}`), 'too long'],
    ['no URL', urlOf(7), 'not http or https'],
  ])('and asks with %s is refused, and nothing is kept', async (_what, result, message) => {
    const { tools, calls: sent } = await answering(result);
    const { context, kept, asked } = createKeepingContext();
    const error = await rejectionOf(runTool(tools, 'echo', {}, context));
    expect(error).not.toBeInstanceOf(InDoubt);
    expect(String(error)).toContain(message);
    expect(String(error).length).toBeLessThan(400);
    expect([kept, asked]).toEqual([[], []]);
    expect(sent).toHaveLength(1);
  });

  it('about its state gets back the last one only, and none if the last result had none', async () => {
    const { tools, calls: sent } = await answering(
      { ...formOf(OBJECT), requestState: 'one' },
      { ...formOf(OBJECT), requestState: '' },
      { ...formOf(OBJECT), requestState: 7 },
    );
    const given = { type: 'given' as const, value: { a: 'x' } };
    const { context } = createKeepingContext({ '1.a': given, '2.a': given, '3.a': given });
    expect(await runTool(tools, 'echo', {}, context)).toBe('done');
    expect(sent.map(params => ['requestState' in params, params.requestState])).toEqual([
      [false, undefined],
      [true, 'one'],
      [true, ''],
      [false, undefined],
    ]);
  });

  it('in its words is quoted as its words, and cut', async () => {
    const { tools } = await answering(formOf(OBJECT, `Agentchart needs your password. ${'a'.repeat(5_000)}`));
    const { context, asked } = createKeepingContext();
    await rejectionOf(runTool(tools, 'echo', {}, context));
    expect(asked[0]?.message).toMatch(/^The MCP server "desk" asks: Agentchart needs.*…$/);
    expect(asked[0]?.message.length).toBeLessThan(2_100);
  });

  it('with a schema of another dialect or a pattern that explodes has answers checked all the same, in linear time', async () => {
    const { tools } = await answering(
      formOf({
        $schema: 'https://example.com/mine',
        type: 'object',
        properties: { a: { type: 'string', pattern: '^(a+)+$' } },
      }),
    );
    const run = await createAgent({
      name: 'a',
      model: scripted([calls('echo'), { text: 'done' }]),
      tools: [...tools],
    }).start('go');
    await waiting(run);
    const answer = async (value: JsonValue) => await run.answer('call_0_0', { answers: { '1.a': value } });
    expect((await answer({ a: `${'a'.repeat(50)}b` })).accepted).toBe(false);
    expect((await answer('text')).accepted).toBe(false);
    expect((await answer({ a: 'aaa' })).accepted).toBe(true);
    expect((await run.settled()).status).toBe('finished');
  });

  it('with keys that differ only in what ours cannot have still gets each answer under its own', async () => {
    const one = formOf(OBJECT).inputRequests.a;
    const names = ['a b', 'a_b', 'a.b', '', '__proto__', 'ä'.repeat(100)];
    const inputRequests = JSON.parse(
      `{${names.map(name => `${JSON.stringify(name)}: ${JSON.stringify(one)}`).join()}}`,
    );
    const { tools, calls: sent } = await answering({ inputRequests });
    const { context, asked } = createKeepingContext();
    const declining = {
      ...context,
      askPeople: async (question: (typeof asked)[number]) => {
        asked.push(question);
        return { type: 'declined' as const };
      },
    };
    expect(await runTool(tools, 'echo', {}, declining)).toBe('done');
    expect(new Set(asked.map(({ key }) => key)).size).toBe(names.length);
    for (const { key } of asked) expect(key).toMatch(/^[A-Za-z0-9_.-]{1,64}$/);
    expect(Object.keys(sent[1]?.inputResponses as object)).toEqual(names);
  });
});

describe('a call whose answers were sent', () => {
  const SENT = { '1.go': { go: true } };

  it('and whose connection breaks is in doubt; a retry begins anew, and does not ask the same again', async () => {
    const held = Promise.withResolvers<void>();
    const { world, server } = await begin(held.resolve);
    const run = await makeAgent(server.url, memory(), [calls('halt')]).start('go');
    await waiting(run);
    await run.answer('call_0_0', { answers: SENT });
    await held.promise;
    server.breakConnections();
    const settled = await run.settled();
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    expect(world.ledger).toEqual(['began halt']);
    await run.resolve('call_0_0', { retry: true });
    expect((await run.settled()).status).toBe('finished');
    expect(resultsIn(run.context.transcript)).toEqual({ call_0_0: 'did halt' });
  });

  const KEPT: JsonValue = {
    type: 'sent',
    round: 1,
    questions: [{ name: 'go', question: { key: '1.go', message: 'm', schema: { type: 'object' } } }],
  };
  const answers = { '1.go': { type: 'given' as const, value: { go: true } } };

  it('found so by a later attempt is in doubt without another request, if it must happen once', async () => {
    const { world, server } = await begin();
    const { context } = createKeepingContext(answers);
    const tools = await desk(server.url).connect();
    const error = await rejectionOf(runTool(tools, 'halt', {}, { ...context, kept: KEPT }));
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toContain('was sent the answers');
    expect(world.ledger).toEqual([]);
  });

  it('found so by a later attempt sends them again, if it may happen again', async () => {
    const { world, server } = await begin();
    world.note('began halt_again');
    const { context, kept } = createKeepingContext(answers);
    const tools = await desk(server.url, { trustHints: true }).connect();
    expect(await runTool(tools, 'halt_again', {}, { ...context, kept: KEPT })).toBe('did halt_again');
    expect(kept).toEqual([]);
  });

  it('and whose connection breaks is reconciled, if its tool can', async () => {
    const held = Promise.withResolvers<void>();
    const { world, server } = await begin(held.resolve);
    const tools = { halt: { reconcile: () => ({ happened: true as const, output: 'found' }) } };
    const run = await makeAgent(server.url, memory(), [calls('halt')], { tools }).start('go');
    await waiting(run);
    await run.answer('call_0_0', { answers: SENT });
    await held.promise;
    server.breakConnections();
    expect((await run.settled()).status).toBe('finished');
    expect(resultsIn(run.context.transcript)).toEqual({ call_0_0: 'found' });
    expect(world.ledger).toEqual(['began halt']);
  });

  it('and did not arrive may send them again', async () => {
    const { server } = await begin();
    const { context, kept } = createKeepingContext(answers);
    const tools = await desk(server.url).connect();
    const asked = {
      ...context,
      askPeople: async (question: AskedQuestion) => {
        server.instead = () => new Response('not you', { status: 403 });
        return await context.askPeople(question);
      },
    };
    const error = await rejectionOf(runTool(tools, 'halt', {}, asked));
    expect(error).not.toBeInstanceOf(InDoubt);
    expect(kept).toMatchObject([{ type: 'asked' }, { type: 'sent' }, { type: 'asked' }]);
  });

  it('is kept as such before they are sent', async () => {
    const { server } = await begin();
    const steps: string[] = [];
    const { context } = createKeepingContext({
      '1.account': { type: 'given', value: { account: 'main' } },
    });
    const keeping = {
      ...context,
      keep: async (state: JsonValue) =>
        void steps.push(
          `${JSON.stringify(state).slice(0, 15)} after ${server.listMethods().filter(says => says === 'tools/call').length}`,
        ),
    };
    await rejectionOf(runTool(await desk(server.url).connect(), 'pay', { amount: 5 }, keeping));
    expect(steps).toEqual(['{"type":"asked" after 1', '{"type":"sent", after 1', '{"type":"asked" after 2']);
  });
});
