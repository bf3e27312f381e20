import { beforeEach, describe, expect, test, vi } from 'vitest';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { textOf, userMessage } from '../../../protocol/message.ts';
import type { TurnDelta } from '../../../protocol/turn.ts';
import { calling, collect, rejection, request, sumOf } from '../../support/adapters/requests.ts';
import { answering, call, DONE, line, streamed, turnIn, whole } from '../../support/adapters/wire/ollama.ts';

beforeEach(() => {
  vi.unstubAllEnvs();
  vi.stubEnv('OLLAMA_BASE_URL', '');
  vi.stubEnv('OLLAMA_API_KEY', '');
});

describe('a turn', () => {
  test('is assembled from lines, with thinking separate from text', async () => {
    const { deltas, turn } = await streamed(
      line({ thinking: 'Let me' }) +
        line({ thinking: ' see.' }) +
        line({ content: 'Hel' }) +
        line({ content: 'lo ' }) +
        line({}, DONE),
    );
    expect(turn).toEqual({
      text: 'Hello ',
      reasoning: 'Let me see.',
      toolCalls: [],
      finishReason: 'stop',
      usage: {
        inputTokens: 7,
        outputTokens: 3,
        cachedInputTokens: null,
        cacheWriteTokens: null,
        reasoningTokens: null,
      },
      model: 'qwen3:8b',
      items: [
        { type: 'reasoning', text: 'Let me see.' },
        { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'Hello ' }] },
      ],
    });
    expect(sumOf(deltas)).toEqual({ text: 'Hello ', reasoning: 'Let me see.', calls: [] });
  });

  test('keeps thinking and text that alternate in the order of the stream, and sends them back as one each', async () => {
    const { deltas, turn } = await streamed(
      line({ thinking: 'First' }) +
        line({ content: 'One' }) +
        line({ thinking: ', then' }) +
        line({ content: ', two.' }) +
        line({}, DONE),
    );
    expect(deltas.slice(0, 4).map(delta => ('text' in delta ? delta.text : delta.type))).toEqual([
      ...['First', 'One', ', then', ', two.'],
    ]);
    expect(turn.items.map(item => (item.type === 'reasoning' ? `(${item.text})` : textOf(item)))).toEqual([
      ...['(First)', 'One', '(, then)', ', two.'],
    ]);
    expect(turn).toMatchObject({ text: 'One, two.', reasoning: 'First, then' });
    const { adapter, sent } = answering(line({}, DONE));
    await collect(adapter.stream(request([userMessage('hi'), ...turn.items]), calling()));
    expect(sent[0]?.body.messages).toEqual([
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'One, two.', thinking: 'First, then' },
    ]);
  });

  test('with parallel calls, one per line and all at index 0, has all of them and finishes with tool_calls', async () => {
    const { deltas, turn } = await streamed(
      line(call('weather', { city: 'Detroit' })) +
        line(call('search', { query: 'tigers' }, { index: 1 })) +
        line(call('weather', { city: 'Detroit' })) +
        line({}, DONE),
    );
    expect(turn.finishReason).toBe('tool_calls');
    expect(turn.toolCalls.map(({ name, input }) => [name, input])).toEqual([
      ['weather', { city: 'Detroit' }],
      ['search', { query: 'tigers' }],
      ['weather', { city: 'Detroit' }],
    ]);
    expect(new Set(turn.toolCalls.map(each => each.callId)).size).toBe(3);
    expect(sumOf(deltas).calls).toEqual(turn.toolCalls.map(each => [each.name, each.arguments]));
  });

  test('is the same whole and streamed, including its call ids', async () => {
    const message = {
      role: 'assistant',
      content: 'Looking.',
      thinking: 'hm',
      tool_calls: [
        { function: { name: 'weather', arguments: { city: 'Oslo', days: 0 } } },
        { function: { name: 'now', arguments: {} } },
      ],
    };
    const of = request('hi');
    const first = await answering(whole({ model: 'qwen3:8b', message, ...DONE })).adapter.generate(
      of,
      calling(),
    );
    const { turn } = await streamed(
      line({ thinking: 'hm' }) +
        line({ content: 'Looking.' }) +
        line(call('weather', { city: 'Oslo', days: 0 })) +
        line(call('now', {})) +
        line({}, DONE),
      of,
    );
    expect(turn).toEqual(first);
    expect(first.items.map(item => item.type)).toEqual(['reasoning', 'message', 'tool_call', 'tool_call']);
  });

  test('is the same however its bytes are split', async () => {
    const text = line({ content: 'Grüße 🌦' }) + line(call('weather', { city: 'Tromsø' })) + line({}, DONE);
    const bytes = new TextEncoder().encode(text);
    const expected = (await streamed(text)).turn;
    for (let at = 1; at < bytes.length; at += 1) {
      const body = new Blob([bytes]).stream().pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform: (chunk, controller) => {
            controller.enqueue(chunk.slice(0, at));
            controller.enqueue(chunk.slice(at));
          },
        }),
      );
      const { adapter } = answering('', { fetch: async () => new Response(body) });
      expect(turnIn(await collect(adapter.stream(request('hi'), calling())))).toEqual(expected);
    }
  });

  test.each<[string, JsonObject, string]>([
    ['length', { done_reason: 'length' }, 'length'],
    ['load', { done_reason: 'load' }, 'unknown'],
    ['unload', { done_reason: 'unload' }, 'unknown'],
    ['a reason of its own', { done_reason: 'custom' }, 'unknown'],
    ['no reason, from an old server', {}, 'stop'],
  ])('that is done by %s', async (_, more, expected) => {
    const { turn } = await streamed(line({}, { done: true, ...more }));
    expect(turn.finishReason).toBe(expected);
    expect(turn.items).toEqual([]);
    expect(turn.usage).toBeNull();
  });

  test('cut off in its calls finishes with length, so that none of them runs', async () => {
    const { turn } = await streamed(
      line(call('weather', {})) + line({}, { done: true, done_reason: 'length' }),
    );
    expect(turn).toMatchObject({ finishReason: 'length', toolCalls: [{ name: 'weather' }] });
  });

  test('of a fully cached prompt counts no input tokens', async () => {
    const { turn } = await streamed(line({ content: 'hi' }, { done: true, eval_count: 4 }));
    expect(turn.usage).toMatchObject({ inputTokens: 0, outputTokens: 4, cachedInputTokens: null });
  });

  test('keeps the white space of JSON output', async () => {
    const { turn } = await streamed(line({ content: '{"a":1}\n  \t' }, DONE));
    expect(turn.text).toBe('{"a":1}\n  \t');
  });

  test.each<[string, JsonObject, JsonObject]>([
    ['null', { arguments: null }, { arguments: '{}', input: {} }],
    ['absent', {}, { arguments: '{}', input: {} }],
    ['text', { arguments: '{"a":0}' }, { arguments: '{"a":0}', input: { a: 0 } }],
    ['a list', { arguments: [1] }, { arguments: '[1]', error: expect.stringContaining('an array') as never }],
  ])('with arguments that are %s', async (_, written, expected) => {
    const { turn } = await streamed(
      line({ tool_calls: [{ function: { name: 'a', ...written } }] }) + line({}, DONE),
    );
    expect(turn.toolCalls).toMatchObject([expected]);
  });
});

describe('an invalid response', () => {
  test('a stream without a done line is malformed', async () => {
    expect(await rejection(streamed(line({ content: 'Hel' })))).toMatchObject({
      code: 'malformed-stream',
      retryable: true,
    });
    const body = whole({ message: { content: 'x' }, done: false });
    expect(await rejection(answering(body).adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'malformed-stream',
    });
  });

  test('an error line is a server error, thrown after the preceding deltas', async () => {
    const { adapter } = answering(
      line({ content: 'Hel' }) + JSON.stringify({ error: 'model runner stopped' }),
    );
    const seen: TurnDelta[] = [];
    const error = await rejection(
      (async () => {
        for await (const delta of adapter.stream(request('hi'), calling())) seen.push(delta);
      })(),
    );
    expect(seen).toEqual([{ type: 'text', text: 'Hel' }]);
    expect(error).toMatchObject({ code: 'server', retryable: true, raw: { error: 'model runner stopped' } });
    expect(String(error)).toContain('ollama (qwen3) failed: model runner stopped.');
  });

  test('an error line with a more specific reason is mapped to it', async () => {
    const text = JSON.stringify({ error: 'the prompt exceeds the context window', status_code: 400 });
    expect(await rejection(streamed(text))).toMatchObject({ status: 400, retryable: false });
  });

  test('a line that is not JSON is malformed', async () => {
    expect(await rejection(streamed('<html>'))).toMatchObject({ code: 'malformed-stream' });
  });

  test.each([
    [404, "model 'qwen3' not found", 'not-found'],
    [400, 'registry.ollama.ai/library/gemma3:1b does not support tools', 'invalid-request'],
    [401, 'unauthorized', 'authentication'],
    [503, 'server busy, please try again. maximum pending requests exceeded', 'overloaded'],
    [500, 'model requires more system memory (8 GiB) than is available', 'server'],
  ])('HTTP %i with the error as text is mapped', async (status, error, code) => {
    const { adapter } = answering(Response.json({ error }, { status }));
    const thrown = await rejection(adapter.generate(request('hi'), calling()));
    expect(thrown).toMatchObject({ code, status, provider: 'ollama', model: 'qwen3', raw: { error } });
    expect(String(thrown)).toContain(error);
  });
});

describe('the address of a call', () => {
  const ok = () => whole({ message: { content: 'ok' }, ...DONE });

  test.each([
    [undefined, 'http://localhost:11434/api/chat'],
    ['http://gpu:1/', 'http://gpu:1/api/chat'],
    ['http://gpu:1/v1', 'http://gpu:1/api/chat'],
    ['http://gpu:1/proxy/api/', 'http://gpu:1/proxy/api/chat'],
  ])('is /api/chat for a base URL of %s', async (baseURL, expected) => {
    const { adapter, sent } = answering(ok(), baseURL === undefined ? {} : { baseURL });
    await adapter.generate(request('hi'), calling());
    expect(sent[0]?.url).toBe(expected);
  });

  test('comes from the environment, as does the key, which is optional', async () => {
    const { adapter, sent } = answering(ok(), { headers: { 'x-team': 'blue' } });
    await adapter.generate(request('hi'), calling());
    vi.stubEnv('OLLAMA_BASE_URL', 'https://ollama.example');
    vi.stubEnv('OLLAMA_API_KEY', 'secret-key');
    await adapter.generate(request('hi'), calling());
    expect(
      sent.map(({ url, headers }) => [url, headers.get('authorization'), headers.get('x-team')]),
    ).toEqual([
      ['http://localhost:11434/api/chat', null, 'blue'],
      ['https://ollama.example/api/chat', 'Bearer secret-key', 'blue'],
    ]);
  });

  test('is rejected if the base URL is invalid', async () => {
    const { adapter } = answering(ok(), { baseURL: 'localhost:11434' });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'base-url-invalid',
    });
  });

  test.each([
    [undefined, 'http://localhost:11434/v1/chat/completions'],
    ['http://gpu:1', 'http://gpu:1/v1/chat/completions'],
    ['http://gpu:1/v1/', 'http://gpu:1/v1/chat/completions'],
  ])('of the compatible endpoint is /v1/chat/completions for a base URL of %s', async (baseURL, expected) => {
    const completion = {
      choices: [{ message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
    };
    const { adapter, sent } = answering(whole(completion), {
      api: 'chat',
      ...omitUndefined({ baseURL }),
    });
    expect((await adapter.generate(request('hi'), calling())).text).toBe('hello');
    expect(sent[0]?.url).toBe(expected);
  });
});
