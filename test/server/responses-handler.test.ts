import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, tool } from '../../agent/index.ts';
import { createChatHandler } from '../../fronts/ai-sdk-ui/index.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { createResponsesHandler, type Handler, runsApp } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';

const closing: Handler[] = [];
afterEach(() => {
  for (const handler of closing.splice(0)) handler.close();
});

function handlerFor(agents: Agent | readonly Agent[]): Handler {
  const handler = createResponsesHandler(agents, { log: () => {} });
  closing.push(handler);
  return handler;
}

const fetchOf = (handler: Handler) => async (url: string | URL | Request, init?: RequestInit) =>
  await handler(new Request(url, init));

const openaiOf = (handler: Handler) =>
  new OpenAI({
    baseURL: 'http://shop.example/api/v1',
    apiKey: 'unused',
    maxRetries: 0,
    fetch: fetchOf(handler),
  });

const anthropicOf = (handler: Handler) =>
  new Anthropic({
    baseURL: 'http://shop.example/api',
    apiKey: 'unused',
    maxRetries: 0,
    fetch: fetchOf(handler),
  });

/** The official client, on the handler of these agents. */
const clientOf = (agents: Agent | readonly Agent[]): OpenAI => openaiOf(handlerFor(agents));

/** Keeps what the model is asked. */
function watched(turns: Parameters<typeof scripted>[0]): { model: ModelAdapter; asked: ModelRequest[] } {
  const model = scripted(turns);
  const asked: ModelRequest[] = [];
  const stream: ModelAdapter['stream'] = (request, options) => {
    asked.push(request);
    return model.stream(request, options);
  };
  return { model: { ...model, capabilities: model.capabilities, generate: model.generate, stream }, asked };
}

const REFUND = { toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] };

function makeDesk(turns: Parameters<typeof scripted>[0], { approval = false } = {}) {
  const refunded: number[] = [];
  const { model, asked } = watched(turns);
  const refund = tool({
    name: 'refund',
    description: 'Refunds.',
    input: z.object({ cents: z.number() }),
    approval,
    run: ({ cents }) => {
      refunded.push(cents);
      return { refunded: cents };
    },
  });
  const desk = createAgent({
    name: 'desk',
    model,
    store: memory(),
    instructions: 'You are the desk.',
    tools: [refund],
  });
  return { desk, refunded, asked };
}

describe('agents as models of the openai client', () => {
  test('an answer that a guardrail or the output schema of the agent refuses is given again', async () => {
    const { model, asked } = watched([
      { text: '{"ok":"no"}' },
      { text: '{"ok":false}' },
      { text: '{"ok":true}' },
    ]);
    const strict = createAgent({
      name: 'strict',
      model,
      store: memory(),
      output: z.object({ ok: z.boolean() }),
      guardrails: {
        answer: text => (text.includes('false') ? { type: 'block', reason: 'Try again.' } : { type: 'pass' }),
      },
    });
    const response = await clientOf(strict).responses.create({ model: 'strict', input: 'Is it ok?' });
    expect(response.status).toBe('completed');
    expect(response.output_text).toMatch(/\{"ok":true\}$/);
    expect(asked).toHaveLength(3);
    expect(asked[0]?.output?.schema).toMatchObject({ properties: { ok: { type: 'boolean' } } });
  });

  test.each([false, true])('a held answer is shown once it has passed (stream: %s)', async stream => {
    const model = scripted([{ text: 'A rude answer.' }, { text: 'A polite answer.' }]);
    const polite = createAgent({
      name: 'polite',
      model,
      store: memory(),
      finalAnswer: 'held',
      guardrails: {
        answer: text =>
          text.includes('rude')
            ? { type: 'block', reason: 'Be polite.' }
            : { type: 'replace', value: `${text} Thanks.` },
      },
    });
    const openai = clientOf(polite);
    const asked = { model: 'polite', input: 'Go.' };
    const texts: string[] = [];
    if (stream) {
      for await (const event of await openai.responses.create({ ...asked, stream }))
        if (event.type === 'response.output_text.delta') texts.push(event.delta);
    } else texts.push((await openai.responses.create(asked)).output_text);
    expect(texts.join('')).toBe('A polite answer. Thanks.');
    const chat = await openai.chat.completions.create({
      model: 'polite',
      messages: [{ role: 'user', content: 'Go.' }],
    });
    expect(chat.choices[0]?.message.content).toContain('Thanks.');
  });

  test.each([false, true])(
    'an answer under review is not complete, and a held one not shown (stream: %s)',
    async stream => {
      const reviewed = createAgent({
        name: 'reviewed',
        model: scripted([{ text: 'It costs 5.' }]),
        store: memory(),
        finalAnswer: 'held',
        guardrails: { answer: () => ({ type: 'ask', reason: 'a price' }) },
      });
      const openai = clientOf(reviewed);
      const asked = { model: 'reviewed', input: 'Go.' };
      const events: { type: string; response?: unknown }[] = [];
      if (stream)
        for await (const event of await openai.responses.create({ ...asked, stream })) events.push(event);
      else events.push({ type: 'response', response: await openai.responses.create(asked) });
      expect(JSON.stringify(events)).not.toContain('It costs');
      expect(events.at(-1)?.response).toMatchObject({
        status: 'incomplete',
        incomplete_details: { reason: 'answer_under_review' },
      });
    },
  );

  test.each(['live', 'held'] as const)(
    'a %s answer under review is no finished answer of Chat Completions and Messages either',
    async finalAnswer => {
      const reviewed = createAgent({
        name: 'reviewed',
        model: scripted([{ text: 'It costs 5.' }]),
        store: memory(),
        finalAnswer,
        guardrails: { answer: () => ({ type: 'ask', reason: 'a price' }) },
      });
      const handler = handlerFor(reviewed);
      const shown = finalAnswer === 'held' ? '' : 'It costs 5.';
      const messages = [{ role: 'user' as const, content: 'Go.' }];
      const asked = { model: 'reviewed', messages, max_tokens: 100 };
      const { chat } = openaiOf(handler);
      expect((await chat.completions.create(asked)).choices).toMatchObject([
        { finish_reason: 'content_filter', message: { content: shown } },
      ]);
      const chunks = [];
      for await (const chunk of await chat.completions.create({ ...asked, stream: true })) chunks.push(chunk);
      expect(chunks.at(-1)?.choices).toMatchObject([{ finish_reason: 'content_filter' }]);
      const anthropic = anthropicOf(handler);
      const refused = {
        stop_reason: 'refusal',
        stop_details: { type: 'refusal', explanation: expect.stringContaining('review') },
        content: shown === '' ? [] : [{ text: shown }],
      };
      expect(await anthropic.messages.create(asked)).toMatchObject(refused);
      expect(await anthropic.messages.stream(asked).finalMessage()).toMatchObject(refused);
      const { runs } = await reviewed.store.list({});
      expect(runs.map(({ state }) => state)).toEqual(Array(4).fill('resting.awaitingReview'));
    },
  );

  test('a request that comes before the decision takes the place of an answer under review', async () => {
    const { model, asked } = watched([{ text: 'It costs 5.' }, { text: 'Good.' }]);
    const reviewed = createAgent({
      name: 'reviewed',
      model,
      store: memory(),
      guardrails: {
        answer: text => (text === 'Good.' ? { type: 'pass' } : { type: 'ask', reason: 'a price' }),
      },
    });
    const openai = clientOf(reviewed);
    const first = await openai.responses.create({ model: 'reviewed', input: 'Go.' });
    const next = { model: 'reviewed', input: 'Thanks.', previous_response_id: first.id };
    expect(await openai.responses.create(next)).toMatchObject({ status: 'completed', output_text: 'Good.' });
    expect(JSON.stringify(asked.at(-1)?.transcript)).toContain('This answer was not given');
    const { runs } = await reviewed.store.list({});
    expect(runs).toMatchObject([{ status: 'finished' }]);
  });

  test('a request that names an agent runs it, with its instructions and tools', async () => {
    const { desk, refunded, asked } = makeDesk([REFUND, { text: 'Refunded.' }]);
    const openai = clientOf([desk, createAgent({ name: 'other', model: scripted([{ text: 'Other.' }]) })]);
    const response = await openai.responses.create({
      model: 'desk',
      input: 'Refund it.',
      instructions: 'Be brief.',
    });
    expect(response.output_text).toBe('Refunded.');
    expect(response.output).toMatchObject([
      { type: 'mcp_call', server_label: 'desk', name: 'refund', status: 'completed' },
      { type: 'message' },
    ]);
    expect(refunded).toEqual([5]);
    expect(asked[0]).toMatchObject({
      instructions: 'You are the desk.\n\nBe brief.',
      tools: [{ name: 'refund' }],
    });
    expect((await openai.responses.create({ model: 'other', input: 'Hi.' })).output_text).toBe('Other.');
    await expect(openai.responses.create({ model: 'unknown', input: 'Hi.' })).rejects.toMatchObject({
      status: 400,
      code: 'model_not_found',
    });
  });

  test('a gated call of an agent is an approval request, which a second response answers', async () => {
    const { desk, refunded } = makeDesk([REFUND, { text: 'Refunded.' }], { approval: true });
    const openai = clientOf(desk);
    const asked = await openai.responses.create({ model: 'desk', input: 'Refund it.' });
    expect(refunded).toEqual([]);
    expect(asked.output).toMatchObject([
      { type: 'mcp_approval_request', server_label: 'desk', name: 'refund', arguments: '{"cents":5}' },
    ]);
    const [request] = asked.output;
    const done = await openai.responses.create({
      model: 'desk',
      previous_response_id: asked.id,
      input: [{ type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true }],
    });
    expect([done.output_text, refunded]).toEqual(['Refunded.', [5]]);
  });

  test('a function of the request is added and cannot replace a tool of the agent', async () => {
    const { desk, refunded, asked } = makeDesk([REFUND, { text: 'Refunded.' }]);
    const parameters = { type: 'object', properties: {} };
    const tools = ['refund', 'ask'].map(name => ({
      type: 'function' as const,
      name,
      parameters,
      strict: false,
    }));
    const response = await clientOf(desk).responses.create({ model: 'desk', input: 'Refund it.', tools });
    expect(response.output_text).toBe('Refunded.');
    expect(refunded).toEqual([5]);
    expect(asked[0]?.tools.map(({ name }) => name)).toEqual(['refund', 'client_refund', 'ask']);
  });

  test('runs an agent in Chat Completions too, and with its second model if the first fails', async () => {
    const broken = scripted([{ error: { code: 'authentication' } }]);
    const desk = createAgent({ name: 'desk', model: [broken, scripted([{ text: 'Hello.' }])] });
    const answer = await clientOf(desk).chat.completions.create({
      model: 'desk',
      messages: [{ role: 'user', content: 'Hi.' }],
    });
    expect(answer.choices[0]?.message.content).toBe('Hello.');
  });

  /** Sends a command about what the only run waits for to the runs API beside the handler. */
  async function decideBeside(
    handler: Handler,
    agent: Agent,
    command: string,
    body: object,
  ): Promise<number> {
    const runs = runsApp({ agents: [agent], gateway: handler, log: () => {} });
    const headers = { host: '127.0.0.1', 'content-type': 'application/json' };
    const inbox = (await (await runs.request('http://127.0.0.1/inbox', { headers })).json()) as Inbox;
    const [item] = inbox.items;
    const path = `http://127.0.0.1/runs/${item?.runId}/${command}`;
    const sent = JSON.stringify({ callId: item?.call.callId, ...body });
    const { status } = await runs.request(path, { method: 'POST', headers, body: sent });
    await expect.poll(async () => (await agent.store.get(item?.runId ?? ''))?.status).toBe('finished');
    runs.close();
    return status;
  }
  type Inbox = { items: { runId: string; call: { callId: string } }[] };

  test('ends a chat completion at a gated call, which the runs API can decide', async () => {
    const turns = [{ ...REFUND, text: 'I ask.' }, { text: 'Refunded.' }];
    const { desk, refunded } = makeDesk(turns, { approval: true });
    const messages = [{ role: 'user' as const, content: 'Refund it.' }];
    const handler = handlerFor(desk);
    const answer = await openaiOf(handler).chat.completions.create({ model: 'desk', messages });
    expect(answer.choices).toMatchObject([{ message: { content: 'I ask.' } }]);
    expect(refunded).toEqual([]);
    expect(await decideBeside(handler, desk, 'approve', {})).toBe(200);
    expect(refunded).toEqual([5]);
  });

  test('the runs API decides about an answer under review, and the next request reads what was given', async () => {
    const { model, asked } = watched([{ text: 'It costs 5.' }, { text: 'Good.' }]);
    const reviewed = createAgent({
      name: 'reviewed',
      model,
      store: memory(),
      finalAnswer: 'held',
      guardrails: {
        answer: text => (text === 'Good.' ? { type: 'pass' } : { type: 'ask', reason: 'a price' }),
      },
    });
    const handler = handlerFor(reviewed);
    const openai = openaiOf(handler);
    const first = await openai.responses.create({ model: 'reviewed', input: 'Go.' });
    expect(await decideBeside(handler, reviewed, 'approve', { answer: 'Ask sales.' })).toBe(200);
    expect(await openai.responses.retrieve(first.id)).toMatchObject({
      output: [],
      incomplete_details: { reason: 'answer_under_review' },
    });
    const next = { model: 'reviewed', input: 'Thanks.', previous_response_id: first.id };
    expect(await openai.responses.create(next)).toMatchObject({ status: 'completed', output_text: 'Good.' });
    expect(JSON.stringify(asked.at(-1)?.transcript)).toContain('Ask sales.');
  });

  describe('a tool that asks people', () => {
    const makeAsking = (sideEffect: 'once' | 'none' = 'once') => {
      const how = { key: 'how', message: 'How many?', schema: z.int() };
      const book = tool({
        name: 'book',
        description: 'Books.',
        input: z.object({}),
        sideEffect,
        ...(sideEffect === 'once' && { prepare: ({ ask }) => ask(how) }),
        run: async (_, { ask, prepared }) => ({ booked: prepared ?? (await ask(how)) }),
      });
      const call = { text: 'I will.', toolCalls: [{ name: 'book', arguments: {} }] };
      const { model, asked } = watched([call, { text: 'Booked.' }, { text: 'Welcome.' }]);
      return { agent: createAgent({ name: 'asking', model, store: memory(), tools: [book] }), asked };
    };

    test.each([
      [false, 'once'],
      [true, 'once'],
      [true, 'none'],
    ] as const)(
      'ends the response as incomplete, and people answer beside it (stream: %s, %s)',
      async (stream, sideEffect) => {
        const { agent, asked } = makeAsking(sideEffect);
        const lines: string[] = [];
        const handler = createResponsesHandler(agent, { log: line => lines.push(line) });
        closing.push(handler);
        const openai = openaiOf(handler);
        const request = { model: 'asking', input: 'Go.' };
        const events: { type: string; response?: OpenAI.Responses.Response }[] = [];
        if (stream)
          for await (const event of await openai.responses.create({ ...request, stream })) events.push(event);
        else events.push({ type: 'response', response: await openai.responses.create(request) });
        const { response } = events.at(-1) ?? {};
        expect(response).toMatchObject({
          status: 'incomplete',
          incomplete_details: { reason: 'tool_awaits_answers' },
        });
        expect(JSON.stringify(response?.output)).not.toContain('in_progress');
        await expect.poll(() => lines).toContainEqual(expect.stringContaining('(book) asks people'));
        expect(await decideBeside(handler, agent, 'answer', { answers: { how: 4 } })).toBe(200);
        expect(JSON.stringify(asked.at(-1)?.transcript)).toContain('"booked":4');
        expect(await openai.responses.retrieve(response?.id ?? '')).toMatchObject({
          incomplete_details: { reason: 'tool_awaits_answers' },
        });
        const thanks = { model: 'asking', input: 'Thanks.', previous_response_id: response?.id ?? '' };
        expect(await openai.responses.create(thanks)).toMatchObject({ status: 'completed' });
      },
    );

    test('a request that comes before the answers takes the place of the call', async () => {
      const { agent, asked } = makeAsking();
      const openai = clientOf(agent);
      const first = await openai.responses.create({ model: 'asking', input: 'Go.' });
      const next = { model: 'asking', input: 'Never mind.', previous_response_id: first.id };
      expect(await openai.responses.create(next)).toMatchObject({
        status: 'completed',
        output_text: 'Booked.',
      });
      expect(JSON.stringify(asked.at(-1)?.transcript)).toContain('superseded by a new message');
    });

    test('is no finished answer of Chat Completions and Messages either', async () => {
      const messages = [{ role: 'user' as const, content: 'Go.' }];
      const chat = await openaiOf(handlerFor(makeAsking().agent)).chat.completions.create({
        model: 'asking',
        messages,
      });
      expect(chat.choices).toMatchObject([{ finish_reason: 'content_filter' }]);
      const message = await anthropicOf(handlerFor(makeAsking().agent)).messages.create({
        model: 'asking',
        max_tokens: 100,
        messages,
      });
      expect(message).toMatchObject({
        stop_reason: 'refusal',
        stop_details: { explanation: expect.stringContaining('asks people') },
      });
    });
  });

  test('the runs API takes no other handler for the gateway', () => {
    const { desk } = makeDesk([]);
    const gateway = createChatHandler(desk);
    closing.push(gateway);
    expect(() => runsApp({ agents: [desk], gateway })).toThrow(TypeError);
  });
});

describe('an agent with a limit on tokens', () => {
  const limited = (model: ModelAdapter) =>
    clientOf(createAgent({ name: 'desk', model, store: memory(), limits: { tokens: 1_000 } }));

  test('ends a response whose turn reports no usage as incomplete, with the reason', async () => {
    const response = await limited(scripted([{ text: 'Hello.' }])).responses.create({
      model: 'desk',
      input: 'Hi',
    });
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'usage_unknown' },
      output_text: 'Hello.',
    });
  });

  test('begins no response on a model that never reports usage', async () => {
    const model = scripted([{ text: 'Hello.' }]);
    const silent = { ...model, capabilities: { ...model.capabilities, usage: false } };
    const refused = limited(silent).responses.create({ model: 'desk', input: 'Hi' });
    await expect(refused).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('onUnknownUsage'),
    });
  });
});
