import { createOpenAI } from '@ai-sdk/openai';
import { describe, expect, test } from 'vitest';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import { adapterChecks } from '../../../adapters/conformance.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { calling, rejection, request } from '../../support/adapters/requests.ts';
import {
  replaying,
  stream,
  tool,
  turnOf,
  twoRounds,
  whole,
} from '../../support/adapters/wire/ai-sdk-http.ts';

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
    'two rounds, streaming %s: encrypted reasoning goes back before its call',
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

  test('whole and streamed responses decode to the same turn', async () => {
    const of = request('Weather in Oslo?', { tools: [tool] });
    const output = [REASONING, MESSAGE, CALL];
    const first = createOpenAI({ apiKey: 'k', fetch: replaying(whole(response(output))).fetch });
    const second = createOpenAI({ apiKey: 'k', fetch: replaying(stream(events(output))).fetch });
    expect(await turnOf(aiSdk(second('gpt-5')), of, true)).toEqual(
      await turnOf(aiSdk(first('gpt-5')), of, false),
    );
  });

  test('a missing key is reported, and nothing is retried', async () => {
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

describe('the conformance checks, through @ai-sdk/openai', () => {
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
      'an error body with a status of 200 is an error (a stream)':
        'the package expects events only; the stream is malformed',
      'a stream with more bytes than allowed is aborted': 'the package reads the body',
      'a response with more bytes than allowed is aborted': 'the package reads the body',
    },
  });
  test.each(checks.map(({ name, run }) => [name, run] as const))('%s', async (_, run) => run());
});
