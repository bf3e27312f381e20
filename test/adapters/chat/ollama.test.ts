import { beforeEach, describe, expect, test, vi } from 'vitest';
import { type OllamaOptions, ollama } from '../../../adapters/ollama.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../../protocol/turn.ts';
import { calling, collect, rejection, request, result, sumOf } from '../../support/adapters/requests.ts';

type Sent = { url: string; headers: Headers; body: JsonObject };

/** An adapter whose every call is answered with `answer`, and what it sent. */
function answering(answer: Response | string, options: Partial<OllamaOptions> = {}) {
  const sent: Sent[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    sent.push({
      url: String(input),
      headers: new Headers(init?.headers),
      body: JSON.parse(String(init?.body)),
    });
    return typeof answer === 'string' ? ndjson(answer) : answer.clone();
  };
  return { adapter: ollama({ model: 'qwen3', fetch, ...options }), sent };
}

function ndjson(text: string): Response {
  return new Response(text, { headers: { 'content-type': 'application/x-ndjson' } });
}

function whole(body: JsonObject): Response {
  return Response.json(body);
}

const line = (message: JsonObject, more: JsonObject = {}): string =>
  `${JSON.stringify({ model: 'qwen3:8b', message: { role: 'assistant', content: '', ...message }, done: false, ...more })}\n`;
const DONE = { done: true, done_reason: 'stop', prompt_eval_count: 7, eval_count: 3 };
const call = (name: string, input: JsonObject, more: JsonObject = {}): JsonObject => ({
  tool_calls: [{ function: { name, arguments: input, ...more } }],
});
const tool = { name: 'weather', description: 'The weather.', inputSchema: { type: 'object' } };

async function streamed(text: string, of: ModelRequest = request('hi')) {
  const deltas = await collect(answering(text).adapter.stream(of, calling()));
  return { deltas, turn: turnIn(deltas) };
}

function turnIn(deltas: readonly TurnDelta[]): ModelTurn {
  const last = deltas.at(-1);
  if (last?.type !== 'turn') throw new Error('The stream did not end with a turn.');
  return last.turn;
}

async function bodyFor(of: ModelRequest, options: Partial<OllamaOptions> = {}): Promise<JsonObject> {
  const { adapter, sent } = answering(whole({ message: { content: 'ok' }, ...DONE }), options);
  await adapter.generate(of, calling());
  return sent[0]?.body ?? {};
}

const messagesFor = async (transcript: readonly Item[]) => (await bodyFor(request(transcript))).messages;

beforeEach(() => {
  vi.unstubAllEnvs();
  vi.stubEnv('OLLAMA_BASE_URL', '');
  vi.stubEnv('OLLAMA_API_KEY', '');
});

describe('a turn', () => {
  test('is put together from lines, thinking apart from text', async () => {
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

  test('with parallel calls one a line, all at position 0, has all of them and ends with tool_calls', async () => {
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

  test('is the same whole and streamed, its call ids too', async () => {
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

  test('however its bytes are cut is the same', async () => {
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

  test('cut off in its calls ends with length, so that none runs', async () => {
    const { turn } = await streamed(
      line(call('weather', {})) + line({}, { done: true, done_reason: 'length' }),
    );
    expect(turn).toMatchObject({ finishReason: 'length', toolCalls: [{ name: 'weather' }] });
  });

  test('of a prompt that was cached in full counts no input tokens', async () => {
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

describe('what is not a turn', () => {
  test('a stream that is never done is malformed', async () => {
    expect(await rejection(streamed(line({ content: 'Hel' })))).toMatchObject({
      code: 'malformed-stream',
      retryable: true,
    });
    const body = whole({ message: { content: 'x' }, done: false });
    expect(await rejection(answering(body).adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'malformed-stream',
    });
  });

  test('an error line is a failure of the server, behind what came', async () => {
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

  test('an error line that says more exactly what it is counts as that', async () => {
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

describe('where a call goes', () => {
  const ok = () => whole({ message: { content: 'ok' }, ...DONE });

  test.each([
    [undefined, 'http://localhost:11434/api/chat'],
    ['http://gpu:1/', 'http://gpu:1/api/chat'],
    ['http://gpu:1/v1', 'http://gpu:1/api/chat'],
    ['http://gpu:1/proxy/api/', 'http://gpu:1/proxy/api/chat'],
  ])('a base URL of %s', async (baseURL, expected) => {
    const { adapter, sent } = answering(ok(), baseURL === undefined ? {} : { baseURL });
    await adapter.generate(request('hi'), calling());
    expect(sent[0]?.url).toBe(expected);
  });

  test('needs no key, and takes URL and key from the environment', async () => {
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

  test('a base URL that is none is refused', async () => {
    const { adapter } = answering(ok(), { baseURL: 'localhost:11434' });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'base-url-invalid',
    });
  });

  test.each([
    [undefined, 'http://localhost:11434/v1/chat/completions'],
    ['http://gpu:1', 'http://gpu:1/v1/chat/completions'],
    ['http://gpu:1/v1/', 'http://gpu:1/v1/chat/completions'],
  ])('the compatible endpoint under a base URL of %s', async (baseURL, expected) => {
    const completion = {
      choices: [{ message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
    };
    const { adapter, sent } = answering(whole(completion), {
      api: 'chat',
      ...(baseURL === undefined ? {} : { baseURL }),
    });
    expect((await adapter.generate(request('hi'), calling())).text).toBe('hello');
    expect(sent[0]?.url).toBe(expected);
  });
});

describe('the request', () => {
  test('says always whether it wants a stream', async () => {
    expect(await bodyFor(request('hi'))).toEqual({
      model: 'qwen3',
      messages: [{ role: 'user', content: 'hi' }],
      stream: false,
    });
    const { adapter, sent } = answering(line({}, DONE));
    await collect(adapter.stream(request('hi'), calling()));
    expect(sent[0]?.body.stream).toBe(true);
  });

  test('settings, output and provider options have their places', async () => {
    const body = await bodyFor(
      request('hi', {
        instructions: 'Be brief.',
        tools: [tool],
        settings: { temperature: 0, topP: 0.5, maxOutputTokens: 9 },
        providerOptions: { options: { num_ctx: 8192, top_p: 1 }, keep_alive: 0 },
      }),
      { providerOptions: { keep_alive: '5m', options: { seed: 1 } } },
    );
    expect(body).toEqual({
      model: 'qwen3',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'hi' },
      ],
      stream: false,
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            description: 'The weather.',
            parameters: { type: 'object', properties: {} },
          },
        },
      ],
      options: { num_predict: 9, temperature: 0, top_p: 1, seed: 1, num_ctx: 8192 },
      keep_alive: 0,
    });
  });

  test('a schema is the format, but in the instructions beside tools, which a format would keep out', async () => {
    const output = { name: 'city', schema: { type: 'object', title: 'City' } };
    expect((await bodyFor(request('hi', { output }))).format).toEqual(output.schema);
    const beside = await bodyFor(request('hi', { instructions: 'Be brief.', output, tools: [tool] }));
    expect(beside).not.toHaveProperty('format');
    expect(beside.messages).toMatchObject([
      { role: 'system', content: expect.stringMatching(/^Be brief\..*"title":"City"/s) },
      { role: 'user' },
    ]);
    const off = await bodyFor(request('hi', { output, tools: [tool], toolChoice: 'none' }));
    expect(off.format).toEqual(output.schema);
  });

  test.each([
    ['qwen3', 'high', true],
    ['qwen3', 'none', false],
    ['gpt-oss:120b-cloud', 'medium', 'medium'],
    ['gpt-oss:20b', 'minimal', 'low'],
  ])('%s thinks with effort %s', async (model, reasoningEffort, think) => {
    expect((await bodyFor(request('hi', { settings: { reasoningEffort } }), { model })).think).toBe(think);
  });

  test('tools off sends none, and a forced tool is the only one', async () => {
    const tools = [tool, { ...tool, name: 'search' }];
    expect(await bodyFor(request('hi', { tools, toolChoice: 'none' }))).not.toHaveProperty('tools');
    const forced = await bodyFor(request('hi', { tools, toolChoice: { name: 'search' } }));
    expect(forced.tools).toMatchObject([{ function: { name: 'search' } }]);
    expect((await bodyFor(request('hi', { tools, toolChoice: 'required' }))).tools).toHaveLength(2);
  });

  test('a turn goes back as one message with its thinking, and results by the name of their tool', async () => {
    const { turn } = await streamed(
      line({ thinking: 'hm' }) +
        line({ content: 'Looking.' }) +
        line(call('weather', { city: 'Oslo' })) +
        line(call('now', {})) +
        line({}, DONE),
    );
    const items: Item[] = JSON.parse(JSON.stringify(turn.items));
    const [first, second] = turn.toolCalls;
    expect(
      await messagesFor([
        userMessage('hi'),
        ...items,
        result(first?.callId ?? '', 'rain'),
        { type: 'approval_request', callId: 'c', name: 'a', arguments: '{}' },
        result(second?.callId ?? '', 'broken', true),
        userMessage('thanks'),
      ]),
    ).toEqual([
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: 'Looking.',
        thinking: 'hm',
        tool_calls: [
          { function: { name: 'weather', arguments: { city: 'Oslo' } } },
          { function: { name: 'now', arguments: {} } },
        ],
      },
      { role: 'tool', tool_name: 'weather', content: 'rain' },
      { role: 'tool', tool_name: 'now', content: 'Error: broken' },
      { role: 'user', content: 'thanks' },
    ]);
  });

  test('a call that the server gave an id goes back with one, also when it was renamed', async () => {
    const withId = { tool_calls: [{ id: 'call_x', function: { name: 'weather', arguments: {} } }] };
    const { turn } = await streamed(line(withId) + line({}, DONE));
    expect(turn.toolCalls[0]?.callId).toBe('call_x');
    const [item] = turn.items;
    expect(await messagesFor([{ ...item, callId: 'call_x_2' } as Item, result('call_x_2', 'rain')])).toEqual([
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ id: 'call_x_2', function: { name: 'weather', arguments: {} } }],
      },
      { role: 'tool', tool_name: 'weather', tool_call_id: 'call_x_2', content: 'rain' },
    ]);
  });

  test("another provider's items go along in their portable part", async () => {
    const opaque = { provider: 'anthropic', data: { signature: 'x', id: 'toolu_1' } };
    expect(
      await messagesFor([
        { type: 'message', role: 'developer', content: [{ type: 'text', text: 'd' }] },
        { type: 'provider_item', kind: 'server_tool_use', opaque },
        { type: 'tool_call', callId: 'toolu_1', name: 'a', arguments: 'not JSON', opaque },
        { type: 'tool_result', callId: 'toolu_1', output: { a: 0 }, isError: false },
        { type: 'reasoning', text: '', opaque },
        { type: 'message', role: 'assistant', content: [], opaque },
        { type: 'tool_result', callId: 'gone', output: 'long', isError: false, shown: 'short' },
      ]),
    ).toEqual([
      { role: 'system', content: 'd' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ function: { name: 'a', arguments: { invalid_arguments: 'not JSON' } } }],
      },
      { role: 'tool', tool_name: 'a', content: '{"a":0}' },
      { role: 'tool', content: 'short' },
    ]);
  });

  test('pictures are base64 and text files text', async () => {
    expect(
      await messagesFor([
        {
          type: 'message',
          role: 'user',
          content: [
            { type: 'text', text: 'look' },
            { type: 'image', url: 'data:image/png;base64,AAAA' },
            { type: 'file', url: 'data:text/plain,a%20b' },
          ],
        },
      ]),
    ).toEqual([{ role: 'user', content: 'look\n\na b', images: ['AAAA'] }]);
  });

  test.each<[string, Extract<Item, { type: 'message' }>['content'][number]]>([
    ['an image at https://x.test/a.png', { type: 'image', url: 'https://x.test/a.png' }],
    ['a file of type application/pdf', { type: 'file', url: 'data:application/pdf;base64,AA' }],
  ])('%s is refused before anything is sent', async (what, part) => {
    const { adapter, sent } = answering(line({}, DONE));
    const of = request([{ type: 'message', role: 'user', content: [part] }]);
    const error = await rejection(adapter.generate(of, calling()));
    expect(error).toMatchObject({ name: 'ProviderError', code: 'invalid-request', retryable: false });
    expect(String(error)).toContain(what);
    expect(sent).toEqual([]);
  });
});
