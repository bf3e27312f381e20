import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { describe, expect, test } from 'vitest';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import { adapterChecks } from '../../../adapters/conformance.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, ModelTurn } from '../../../protocol/turn.ts';
import { sse } from '../../support/adapters/replay-server.ts';
import { calling, collect, rejection, request, result, sumOf } from '../../support/adapters/requests.ts';

const tool = {
  name: 'weather',
  description: 'The weather.',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

/** A `fetch` that gives the answers it was made with, one after another, and what it was sent. */
function replaying(...answers: (() => Response)[]): { fetch: typeof fetch; bodies: JsonObject[] } {
  const bodies: JsonObject[] = [];
  return {
    bodies,
    fetch: async (_, init) => {
      bodies.push(JSON.parse(String(init?.body)));
      const answer = answers[bodies.length - 1];
      if (!answer) throw new Error('no more answers');
      return answer();
    },
  };
}

const whole = (body: JsonObject) => () => Response.json(body);
const stream = (events: JsonObject[]) => () =>
  new Response(sse(...events), { headers: { 'content-type': 'text/event-stream' } });

async function turnOf(adapter: ModelAdapter, of: ModelRequest, streaming: boolean): Promise<ModelTurn> {
  if (!streaming) return adapter.generate(of, calling());
  const deltas = await collect(adapter.stream(of, calling()));
  const last = deltas.at(-1);
  if (last?.type !== 'turn') throw new Error('The stream did not end with a turn.');
  const { text, reasoning, toolCalls } = last.turn;
  const calls = toolCalls.map(call => [call.name, call.arguments]);
  expect(sumOf(deltas)).toEqual({ text, reasoning, calls });
  return last.turn;
}

/** Two rounds of a run whose transcript goes through JSON in between. */
async function twoRounds(adapter: ModelAdapter, of: Partial<ModelRequest>, streaming: boolean) {
  const asked = [userMessage('Weather in Oslo?')];
  const first = await turnOf(adapter, request(asked, of), streaming);
  const items: Item[] = JSON.parse(JSON.stringify(first.items));
  const answered = first.toolCalls.map(call => result(call.callId, 'rain'));
  const second = await turnOf(adapter, request([...asked, ...items, ...answered], of), streaming);
  return { first, second };
}

describe('@ai-sdk/anthropic', () => {
  const BLOCKS: JsonObject[] = [
    { type: 'thinking', thinking: 'Let me look.', signature: 'c2lnbmF0dXJl' },
    { type: 'redacted_thinking', data: 'cmVkYWN0ZWQ=' },
    { type: 'text', text: 'Searching first.' },
    { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'oslo' } },
    {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [
        {
          type: 'web_search_result',
          url: 'https://x.test',
          title: 'Oslo',
          encrypted_content: 'ZW5jcnlwdGVk',
          page_age: null,
        },
      ],
    },
    { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Oslo' } },
  ];
  const ANSWER: JsonObject[] = [{ type: 'text', text: 'Rain.' }];
  const usage = { input_tokens: 10, cache_read_input_tokens: 4, output_tokens: 6 };

  const message = (content: JsonObject[], stop: string) => ({
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    model: 'claude-x',
    content,
    stop_reason: stop,
    stop_sequence: null,
    usage,
  });

  function events(content: JsonObject[], stop: string): JsonObject[] {
    return [
      {
        type: 'message_start',
        message: { ...message([], stop), stop_reason: null, usage: { ...usage, output_tokens: 1 } },
      },
      ...content.flatMap((block, index) => blockEvents(block, index)),
      {
        type: 'message_delta',
        delta: { stop_reason: stop, stop_sequence: null },
        usage: { output_tokens: 6 },
      },
      { type: 'message_stop' },
    ];
  }

  function blockEvents(block: JsonObject, index: number): JsonObject[] {
    const delta = (value: JsonObject) => ({ type: 'content_block_delta', index, delta: value });
    const start = (value: JsonObject) => ({ type: 'content_block_start', index, content_block: value });
    const stop = { type: 'content_block_stop', index };
    switch (block.type) {
      case 'thinking':
        return [
          start({ type: 'thinking', thinking: '', signature: '' }),
          delta({ type: 'thinking_delta', thinking: block.thinking ?? '' }),
          delta({ type: 'signature_delta', signature: block.signature ?? '' }),
          stop,
        ];
      case 'text':
        return [
          start({ type: 'text', text: '' }),
          delta({ type: 'text_delta', text: block.text ?? '' }),
          stop,
        ];
      case 'tool_use':
      case 'server_tool_use':
        return [
          start({ ...block, input: {} }),
          delta({ type: 'input_json_delta', partial_json: JSON.stringify(block.input) }),
          stop,
        ];
      default:
        return [start(block), stop];
    }
  }

  test.each([false, true])(
    'two rounds, streaming %s: blocks come back in order, bytes unchanged',
    async streaming => {
      const { fetch, bodies } = streaming
        ? replaying(stream(events(BLOCKS, 'tool_use')), stream(events(ANSWER, 'end_turn')))
        : replaying(whole(message(BLOCKS, 'tool_use')), whole(message(ANSWER, 'end_turn')));
      const anthropic = createAnthropic({ apiKey: 'test', fetch });
      const adapter = aiSdk(anthropic('claude-sonnet-4-5'), {
        providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } } },
        providerTools: { web_search: anthropic.tools.webSearch_20250305({ maxUses: 1 }) },
      });
      const { first, second } = await twoRounds(
        adapter,
        { tools: [tool], settings: { maxOutputTokens: 100 } },
        streaming,
      );
      expect(first).toMatchObject({
        text: 'Searching first.',
        reasoning: 'Let me look.',
        finishReason: 'tool_calls',
        toolCalls: [{ callId: 'toolu_1', name: 'weather', input: { city: 'Oslo' } }],
        usage: { inputTokens: 14, outputTokens: 6, cachedInputTokens: 4 },
      });
      expect(second).toMatchObject({ text: 'Rain.', finishReason: 'stop', toolCalls: [] });
      const [, assistant, results] = (bodies[1]?.messages ?? []) as JsonObject[];
      expect(assistant).toEqual({ role: 'assistant', content: BLOCKS });
      expect(results).toEqual({
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'rain' }],
      });
      expect(bodies[0]).toMatchObject({
        thinking: { type: 'enabled', budget_tokens: 2000 },
        tools: [{ name: 'weather' }, { type: 'web_search_20250305', name: 'web_search', max_uses: 1 }],
      });
    },
  );

  test('the same turn whole and streamed', async () => {
    const of = request('Weather in Oslo?', { tools: [tool] });
    const first = createAnthropic({
      apiKey: 'k',
      fetch: replaying(whole(message(BLOCKS, 'tool_use'))).fetch,
    });
    const second = createAnthropic({
      apiKey: 'k',
      fetch: replaying(stream(events(BLOCKS, 'tool_use'))).fetch,
    });
    expect(await turnOf(aiSdk(second('claude-sonnet-4-5')), of, true)).toEqual(
      await turnOf(aiSdk(first('claude-sonnet-4-5')), of, false),
    );
  });

  test('a paused turn is continued without a user message', async () => {
    const paused = BLOCKS.slice(2, 4);
    const { fetch, bodies } = replaying(
      whole(message(paused, 'pause_turn')),
      whole(message(ANSWER, 'end_turn')),
    );
    const anthropic = createAnthropic({ apiKey: 'test', fetch });
    const adapter = aiSdk(anthropic('claude-sonnet-4-5'), {
      providerTools: { web_search: anthropic.tools.webSearch_20250305({}) },
    });
    const asked = [userMessage('hi')];
    const turn = await adapter.generate(request(asked), calling());
    expect(turn).toMatchObject({ finishReason: 'pause', toolCalls: [] });
    await adapter.generate(request([...asked, ...turn.items]), calling());
    expect(bodies[1]?.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [{ type: 'text' }, { type: 'server_tool_use', id: 'srvtoolu_1' }] },
    ]);
  });

  test('a refused key and an overloaded server are mapped', async () => {
    const failing = (status: number, type: string) => () =>
      Response.json({ type: 'error', error: { type, message: 'no' } }, { status });
    const { fetch } = replaying(failing(401, 'authentication_error'), failing(529, 'overloaded_error'));
    const adapter = aiSdk(createAnthropic({ apiKey: 'test', fetch })('claude-sonnet-4-5'));
    const errors = [
      await rejection(adapter.generate(request('hi'), calling())),
      await rejection(collect(adapter.stream(request('hi'), calling()))),
    ];
    expect(errors).toMatchObject([
      { code: 'authentication', status: 401, retryable: false },
      { code: 'overloaded', status: 529, retryable: true },
    ]);
  });

  test('an error in a 200 stream, and a stream cut off, are errors', async () => {
    const [begin, ...rest] = events(ANSWER, 'end_turn');
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
    const { fetch } = replaying(
      stream([overloaded]),
      stream([begin ?? {}, ...rest.slice(0, 2), overloaded]),
      stream([begin ?? {}, ...rest.slice(0, 2)]),
    );
    const adapter = aiSdk(createAnthropic({ apiKey: 'test', fetch })('claude-sonnet-4-5'));
    const errors: unknown[] = [];
    for (let at = 0; at < 3; at += 1) {
      errors.push(await rejection(collect(adapter.stream(request('hi'), calling()))));
    }
    expect(errors).toMatchObject([
      { code: 'overloaded', retryable: true },
      { code: 'overloaded', retryable: true },
      { code: 'malformed-stream', retryable: true },
    ]);
  });
});

describe('@ai-sdk/openai', () => {
  const REASONING: JsonObject = {
    type: 'reasoning',
    id: 'rs_1',
    encrypted_content: 'ZW5jcnlwdGVk',
    summary: [{ type: 'summary_text', text: 'Look it up.' }],
  };
  const CALL: JsonObject = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_1',
    name: 'weather',
    arguments: '{"city": "Oslo"}',
    status: 'completed',
  };
  const MESSAGE: JsonObject = {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: 'Rain.', annotations: [], logprobs: [] }],
  };

  const response = (output: JsonObject[]): JsonObject => ({
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    model: 'gpt-5-2025',
    status: 'completed',
    output,
    incomplete_details: null,
    error: null,
    usage: {
      input_tokens: 20,
      input_tokens_details: { cached_tokens: 8 },
      output_tokens: 12,
      output_tokens_details: { reasoning_tokens: 5 },
    },
  });

  const events = (output: JsonObject[]): JsonObject[] => [
    { type: 'response.created', response: { ...response([]), status: 'in_progress' } },
    ...output.flatMap((item, output_index) => itemEvents(item, output_index)),
    { type: 'response.completed', response: response(output) },
  ];

  function itemEvents(item: JsonObject, output_index: number): JsonObject[] {
    const item_id = item.id ?? '';
    const at = { item_id, output_index };
    const added = (empty: JsonObject) => ({
      type: 'response.output_item.added',
      output_index,
      item: { ...item, ...empty },
    });
    const done = { type: 'response.output_item.done', output_index, item };
    switch (item.type) {
      case 'reasoning':
        return [
          added({ summary: [], encrypted_content: 'Zmlyc3Q=' }),
          {
            type: 'response.reasoning_summary_part.added',
            ...at,
            summary_index: 0,
            part: { type: 'summary_text', text: '' },
          },
          {
            type: 'response.reasoning_summary_text.delta',
            ...at,
            summary_index: 0,
            delta: 'Look it up.',
          },
          {
            type: 'response.reasoning_summary_part.done',
            ...at,
            summary_index: 0,
            part: { type: 'summary_text', text: 'Look it up.' },
          },
          done,
        ];
      case 'function_call':
        return [
          added({ arguments: '', status: 'in_progress' }),
          { type: 'response.function_call_arguments.delta', ...at, delta: '{"city": ' },
          { type: 'response.function_call_arguments.delta', ...at, delta: '"Oslo"}' },
          { type: 'response.function_call_arguments.done', ...at, arguments: item.arguments ?? '' },
          done,
        ];
      default:
        return [
          added({ content: [], status: 'in_progress' }),
          { type: 'response.output_text.delta', ...at, content_index: 0, delta: 'Rain.', logprobs: [] },
          done,
        ];
    }
  }

  test.each([false, true])(
    'two rounds, streaming %s: encrypted reasoning comes back before its call',
    async streaming => {
      const outputs = [[REASONING, CALL], [MESSAGE]];
      const { fetch, bodies } = replaying(
        ...outputs.map(output => (streaming ? stream(events(output)) : whole(response(output)))),
      );
      const adapter = aiSdk(createOpenAI({ apiKey: 'test', fetch })('gpt-5'), {
        providerOptions: { openai: { store: false } },
      });
      const { first, second } = await twoRounds(
        adapter,
        { tools: [tool], settings: { reasoningEffort: 'low', parallelToolCalls: false } },
        streaming,
      );
      expect(first).toMatchObject({
        reasoning: 'Look it up.',
        finishReason: 'tool_calls',
        model: 'gpt-5-2025',
        toolCalls: [{ callId: 'call_1', arguments: '{"city": "Oslo"}', input: { city: 'Oslo' } }],
        usage: { inputTokens: 20, outputTokens: 12, cachedInputTokens: 8, reasoningTokens: 5 },
      });
      expect(first.continuation).toBeUndefined();
      expect(second).toMatchObject({ text: 'Rain.', finishReason: 'stop' });
      expect(bodies[0]).toMatchObject({
        store: false,
        parallel_tool_calls: false,
        reasoning: { effort: 'low' },
        include: ['reasoning.encrypted_content'],
      });
      expect(bodies[1]?.input).toMatchObject([
        { role: 'user' },
        {
          type: 'reasoning',
          encrypted_content: 'ZW5jcnlwdGVk',
          summary: [{ type: 'summary_text', text: 'Look it up.' }],
        },
        { type: 'function_call', call_id: 'call_1', name: 'weather' },
        { type: 'function_call_output', call_id: 'call_1', output: 'rain' },
      ]);
    },
  );

  test('the same turn whole and streamed', async () => {
    const of = request('Weather in Oslo?', { tools: [tool] });
    const output = [REASONING, MESSAGE, CALL];
    const first = createOpenAI({ apiKey: 'k', fetch: replaying(whole(response(output))).fetch });
    const second = createOpenAI({ apiKey: 'k', fetch: replaying(stream(events(output))).fetch });
    expect(await turnOf(aiSdk(second('gpt-5')), of, true)).toEqual(
      await turnOf(aiSdk(first('gpt-5')), of, false),
    );
  });

  test('a missing key says so, and nothing is retried', async () => {
    const keyless = createOpenAI({ apiKey: undefined as never, fetch: replaying().fetch });
    const { OPENAI_API_KEY } = process.env;
    delete process.env.OPENAI_API_KEY;
    try {
      const error = await rejection(aiSdk(keyless('gpt-5')).generate(request('hi'), calling()));
      expect(error).toMatchObject({ code: 'key-missing', provider: 'ai-sdk:openai.responses' });
      expect(String(error)).toContain('OPENAI_API_KEY');
    } finally {
      if (OPENAI_API_KEY !== undefined) process.env.OPENAI_API_KEY = OPENAI_API_KEY;
    }
    const { fetch, bodies } = replaying(() => Response.json({ error: { message: 'oops' } }, { status: 500 }));
    const adapter = aiSdk(createOpenAI({ apiKey: 'test', fetch })('gpt-5'));
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({ code: 'server' });
    expect(bodies).toHaveLength(1);
  });
});

describe('what every adapter must hold, by @ai-sdk/openai', () => {
  const call = (args: string) => ({
    id: 'call_1',
    type: 'function',
    function: { name: 'weather', arguments: args },
  });
  const usage = { prompt_tokens: 1, completion_tokens: 2 };
  const message = { role: 'assistant', content: 'hello', tool_calls: [call('{"a":0}')] };
  const completion = {
    id: 'a',
    model: 'm',
    choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
    usage,
  };
  const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) =>
    `data: ${JSON.stringify({ id: 'a', model: 'm', choices: [{ index: 0, delta, finish_reason }], ...more })}\n\n`;
  const chunks = [
    chunk({ role: 'assistant', content: 'hel' }),
    chunk({ content: 'lo' }),
    chunk({ tool_calls: [{ index: 0, ...call('{"a"') }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: ':0}' } }] }),
    chunk({}, 'tool_calls', { usage }),
    'data: [DONE]\n\n',
  ];
  const checks = adapterChecks({
    open: ({ apiKey, baseURL, fetch, idleTimeoutMs }) => {
      const openai = createOpenAI({
        baseURL,
        ...(apiKey === '' ? {} : { apiKey }),
        ...(fetch ? { fetch } : {}),
      });
      return aiSdk(openai.chat('gpt-4.1'), { secrets: [apiKey], idleTimeoutMs, timeoutMs: idleTimeoutMs });
    },
    exchanges: [
      { name: 'whole', streamed: false, response: JSON.stringify(completion), expect: { text: 'hello' } },
      { name: 'streamed', streamed: true, response: chunks.join(''), sameTurnAs: 'whole' },
    ],
    except: {
      'an error in a body with a status of 200 is an error (a stream)':
        'the package looks for events only; the stream is malformed',
      'a stream of more bytes than allowed is given up': "the bytes are the package's own",
      'a response of more bytes than allowed is given up': "the bytes are the package's own",
    },
  });
  test.each(checks.map(({ name, run }) => [name, run] as const))('%s', async (_, run) => run());
});
