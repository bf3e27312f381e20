import type {
  LanguageModelV2,
  LanguageModelV3,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from '@ai-sdk/provider';
import { describe, expect, test } from 'vitest';
import { type AiSdkOptions, aiSdk } from '../../../adapters/ai-sdk.ts';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../../protocol/turn.ts';
import { calling, collect, rejection, request, result, sumOf } from '../../support/adapters/requests.ts';

type Part = LanguageModelV4StreamPart;

const STOP: LanguageModelV4FinishReason = { unified: 'stop', raw: 'stop' };
const CALLS: LanguageModelV4FinishReason = { unified: 'tool-calls', raw: 'tool_use' };
const USAGE: LanguageModelV4Usage = {
  inputTokens: { total: 9, noCache: 5, cacheRead: 3, cacheWrite: 1 },
  outputTokens: { total: 7, text: 5, reasoning: 2 },
};
const OWN = 'ai-sdk:acme.chat';
const tool = { name: 'weather', description: 'The weather.', inputSchema: { type: 'object' } };

type Script = {
  content?: LanguageModelV4Content[];
  parts?: Part[];
  finishReason?: LanguageModelV4FinishReason;
  usage?: LanguageModelV4Usage;
  thrown?: unknown;
};

/** A model of the current specification that gives what it is told to, and the options it was called with. */
function scripted(script: Script): { model: LanguageModelV4; calls: LanguageModelV4CallOptions[] } {
  const calls: LanguageModelV4CallOptions[] = [];
  const finish = { finishReason: script.finishReason ?? STOP, usage: script.usage ?? USAGE };
  const answer = (options: LanguageModelV4CallOptions) => {
    calls.push(options);
    if (script.thrown !== undefined) throw script.thrown;
  };
  return {
    calls,
    model: {
      specificationVersion: 'v4',
      provider: 'acme.chat',
      modelId: 'acme-1',
      supportedUrls: {},
      doGenerate: async options => {
        answer(options);
        return {
          content: script.content ?? [],
          ...finish,
          response: { modelId: 'acme-1-0815' },
          warnings: [],
        };
      },
      doStream: async options => {
        answer(options);
        return { stream: streamOf(script.parts ?? []) };
      },
    },
  };
}

function streamOf<Value>(values: readonly Value[]): ReadableStream<Value> {
  return new ReadableStream({
    start(controller) {
      for (const value of values) controller.enqueue(value);
      controller.close();
    },
  });
}

const finished = (finishReason: LanguageModelV4FinishReason = STOP): Part => ({
  type: 'finish',
  finishReason,
  usage: USAGE,
});

async function generated(script: Script, of: ModelRequest = request('hi')): Promise<ModelTurn> {
  return aiSdk(scripted(script).model).generate(of, calling());
}

async function streamed(parts: Part[], of: ModelRequest = request('hi')) {
  const deltas = await collect(aiSdk(scripted({ parts }).model).stream(of, calling()));
  return { deltas, turn: turnIn(deltas) };
}

function turnIn(deltas: readonly TurnDelta[]): ModelTurn {
  const last = deltas.at(-1);
  if (last?.type !== 'turn') throw new Error('The stream did not end with a turn.');
  return last.turn;
}

async function optionsFor(of: ModelRequest, options: AiSdkOptions = {}): Promise<LanguageModelV4CallOptions> {
  const { model, calls } = scripted({});
  await aiSdk(model, options).generate(of, calling());
  return calls[0] ?? { prompt: [] };
}

const promptFor = async (transcript: readonly Item[]) => (await optionsFor(request(transcript))).prompt;

const overJson = (items: readonly Item[]): Item[] => JSON.parse(JSON.stringify(items));

const CONTENT: LanguageModelV4Content[] = [
  { type: 'reasoning', text: 'hm', providerMetadata: { acme: { signature: 'c2ln' } } },
  { type: 'reasoning', text: '', providerMetadata: { acme: { redactedData: 'cmVk' } } },
  { type: 'text', text: 'Looking.' },
  { type: 'tool-call', toolCallId: 'srv_1', toolName: 'search', input: '{"q":"a"}', providerExecuted: true },
  { type: 'tool-result', toolCallId: 'srv_1', toolName: 'search', result: [{ url: 'https://x.test' }] },
  { type: 'source', sourceType: 'url', id: 's1', url: 'https://x.test' },
  {
    type: 'tool-call',
    toolCallId: 'c1',
    toolName: 'weather',
    input: '{"city":"Oslo"}',
    providerMetadata: { acme: { thoughtSignature: 'dGhvdWdodA' } },
  },
  { type: 'tool-call', toolCallId: 'c2', toolName: 'now', input: '' },
];

const PARTS: Part[] = [
  { type: 'stream-start', warnings: [] },
  { type: 'response-metadata', modelId: 'acme-1-0815' },
  { type: 'reasoning-start', id: 'r' },
  { type: 'reasoning-delta', id: 'r', delta: 'h' },
  { type: 'reasoning-delta', id: 'r', delta: 'm' },
  { type: 'reasoning-delta', id: 'r', delta: '', providerMetadata: { acme: { signature: 'c2ln' } } },
  { type: 'reasoning-end', id: 'r' },
  { type: 'reasoning-start', id: 'r', providerMetadata: { acme: { redactedData: 'cmVk' } } },
  { type: 'reasoning-end', id: 'r' },
  { type: 'text-start', id: '0' },
  { type: 'text-delta', id: '0', delta: 'Look' },
  { type: 'ping' },
  { type: 'text-delta', id: '0', delta: 'ing.' },
  { type: 'text-end', id: '0' },
  { type: 'tool-input-start', id: 'srv_1', toolName: 'search' },
  { type: 'tool-input-delta', id: 'srv_1', delta: '{"q":"a"}' },
  { type: 'tool-input-end', id: 'srv_1' },
  { type: 'tool-call', toolCallId: 'srv_1', toolName: 'search', input: '{"q":"a"}', providerExecuted: true },
  { type: 'tool-result', toolCallId: 'srv_1', toolName: 'search', result: [], preliminary: true },
  { type: 'tool-result', toolCallId: 'srv_1', toolName: 'search', result: [{ url: 'https://x.test' }] },
  { type: 'source', sourceType: 'url', id: 's1', url: 'https://x.test' },
  { type: 'tool-input-start', id: 'c1', toolName: 'weather' },
  { type: 'tool-input-delta', id: 'c1', delta: '{"city": "Oslo"}' },
  { type: 'tool-input-end', id: 'c1' },
  {
    type: 'tool-call',
    toolCallId: 'c1',
    toolName: 'weather',
    input: '{"city":"Oslo"}',
    providerMetadata: { acme: { thoughtSignature: 'dGhvdWdodA' } },
  },
  { type: 'tool-call', toolCallId: 'c2', toolName: 'now', input: '' },
  finished(CALLS),
];

describe('a turn', () => {
  test("has the model's text, reasoning, calls and usage, and only the calls that are ours", async () => {
    const turn = await generated({ content: CONTENT, finishReason: CALLS });
    expect(turn).toMatchObject({
      text: 'Looking.',
      reasoning: 'hm',
      finishReason: 'tool_calls',
      model: 'acme-1-0815',
      usage: {
        inputTokens: 9,
        outputTokens: 7,
        cachedInputTokens: 3,
        cacheWriteTokens: 1,
        reasoningTokens: 2,
      },
      toolCalls: [
        { callId: 'c1', name: 'weather', arguments: '{"city":"Oslo"}', input: { city: 'Oslo' } },
        { callId: 'c2', name: 'now', arguments: '{}', input: {} },
      ],
    });
    expect(turn.items.map(item => (item.type === 'provider_item' ? item.kind : item.type))).toEqual([
      'reasoning',
      'reasoning',
      'message',
      'tool-call',
      'tool-result',
      'source',
      'tool_call',
      'tool_call',
    ]);
    for (const item of turn.items) if ('opaque' in item) expect(item.opaque?.provider).toBe(OWN);
  });

  test('is the same streamed, and its deltas add up to it', async () => {
    const { deltas, turn } = await streamed(PARTS);
    expect(turn).toEqual(await generated({ content: CONTENT, finishReason: CALLS }));
    expect(sumOf(deltas)).toEqual({
      text: 'Looking.',
      reasoning: 'hm',
      calls: [
        ['weather', '{"city":"Oslo"}'],
        ['now', '{}'],
      ],
    });
    expect(deltas.slice(0, 4)).toEqual([
      { type: 'reasoning', text: 'h' },
      { type: 'reasoning', text: 'm' },
      { type: 'text', text: 'Look' },
      { type: 'text', text: 'ing.' },
    ]);
  });

  test('whose text blocks come interleaved is shown block by block', async () => {
    const { deltas, turn } = await streamed([
      { type: 'text-start', id: 'a' },
      { type: 'text-start', id: 'b' },
      { type: 'text-delta', id: 'b', delta: '3' },
      { type: 'text-delta', id: 'a', delta: '1' },
      { type: 'text-delta', id: 'b', delta: '4' },
      { type: 'text-delta', id: 'a', delta: '2' },
      { type: 'text-end', id: 'a' },
      { type: 'text-delta', id: 'b', delta: '5' },
      finished(),
    ]);
    expect(deltas.map(delta => (delta.type === 'text' ? delta.text : delta.type))).toEqual([
      '1',
      '2',
      '34',
      '5',
      'turn',
    ]);
    expect(turn.text).toBe('12345');
    expect(turn.items).toHaveLength(2);
  });

  test.each<[LanguageModelV4FinishReason, string]>([
    [STOP, 'stop'],
    [{ unified: 'length', raw: 'max_tokens' }, 'length'],
    [{ unified: 'content-filter', raw: 'refusal' }, 'content_filter'],
    [{ unified: 'error', raw: 'MALFORMED_FUNCTION_CALL' }, 'error'],
    [{ unified: 'other', raw: 'compaction' }, 'unknown'],
    [{ unified: 'stop', raw: 'pause_turn' }, 'pause'],
  ])('that ends with %o', async (finishReason, expected) => {
    expect((await generated({ finishReason })).finishReason).toBe(expected);
  });

  test.each<[LanguageModelV4FinishReason['unified'], string]>([
    ['stop', 'tool_calls'],
    ['other', 'tool_calls'],
    ['length', 'length'],
  ])('with calls that ends with %s', async (unified, expected) => {
    const turn = await generated({ content: CONTENT, finishReason: { unified, raw: undefined } });
    expect(turn.finishReason).toBe(expected);
  });

  test('whose only calls the provider ran is a final answer', async () => {
    const turn = await generated({ content: CONTENT.slice(0, 6), finishReason: CALLS });
    expect(turn).toMatchObject({ finishReason: 'stop', toolCalls: [] });
  });

  test('without counts has no usage', async () => {
    const none = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
    const usage = { inputTokens: none, outputTokens: { ...none, text: undefined, reasoning: undefined } };
    expect((await generated({ usage })).usage).toBeNull();
  });

  test('has files the model made as parts of its answer', async () => {
    const turn = await generated({
      content: [
        { type: 'file', mediaType: 'image/png', data: { type: 'data', data: new Uint8Array([1, 2, 3]) } },
        {
          type: 'file',
          mediaType: 'text/csv',
          data: { type: 'url', url: new URL('https://x.test/a.csv') },
        },
      ],
    });
    expect(turn.items).toMatchObject([
      { content: [{ type: 'image', url: 'data:image/png;base64,AQID' }] },
      { content: [{ type: 'file', url: 'https://x.test/a.csv', mediaType: 'text/csv' }] },
    ]);
  });

  test('gives call ids that are new in the transcript, the same ones when it is asked again', async () => {
    const of = request([
      userMessage('hi'),
      { type: 'tool_call', callId: 'c1', name: 'weather', arguments: '{}' },
      result('c1', 'rain'),
    ]);
    const [first, again] = [
      await generated({ content: CONTENT, finishReason: CALLS }, of),
      (await streamed(PARTS, of)).turn,
    ];
    expect(first.toolCalls[0]?.callId).not.toBe('c1');
    expect(first).toEqual(again);
  });

  test('keeps arguments that are not JSON as they are', async () => {
    const turn = await generated({
      content: [{ type: 'tool-call', toolCallId: 'c', toolName: 'a', input: '{"b":' }],
    });
    expect(turn.toolCalls[0]).toMatchObject({
      arguments: '{"b":',
      error: expect.stringContaining('not valid'),
    });
  });
});

describe('what a model is called with', () => {
  test('settings, tools, output and options have their places', async () => {
    const of = request('hi', {
      instructions: 'Be brief.',
      tools: [{ ...tool, strict: true }],
      toolChoice: { name: 'weather' },
      output: { name: 'city', schema: { type: 'object' } },
      settings: {
        temperature: 0,
        topP: 0.5,
        maxOutputTokens: 9,
        parallelToolCalls: false,
        reasoningEffort: 'low',
      },
      providerOptions: { acme: { effort: 'high' } },
    });
    const { abortSignal, ...options } = await optionsFor(of, {
      headers: { 'x-team': 'blue' },
      providerOptions: { acme: { effort: 'low', user: 'u' }, other: { a: 1 } },
      providerTools: { search: { id: 'acme.search', args: { max: 1 } } },
    });
    expect(abortSignal).toBeInstanceOf(AbortSignal);
    expect(options).toEqual({
      prompt: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', text: 'hi' }] },
      ],
      temperature: 0,
      topP: 0.5,
      maxOutputTokens: 9,
      reasoning: 'low',
      tools: [
        {
          type: 'function',
          name: 'weather',
          description: 'The weather.',
          inputSchema: { type: 'object' },
          strict: true,
        },
        { type: 'provider', id: 'acme.search', name: 'search', args: { max: 1 } },
      ],
      toolChoice: { type: 'tool', toolName: 'weather' },
      responseFormat: { type: 'json', name: 'city', schema: { type: 'object' } },
      headers: { 'x-team': 'blue' },
      providerOptions: {
        acme: { parallelToolCalls: false, disableParallelToolUse: true, effort: 'high', user: 'u' },
        other: { a: 1 },
      },
    });
  });

  test('tools off keeps the tools, and without tools there is no choice', async () => {
    const off = await optionsFor(request('hi', { tools: [tool], toolChoice: 'none' }));
    expect(off).toMatchObject({ tools: [{ name: 'weather' }], toolChoice: { type: 'none' } });
    const bare = await optionsFor(
      request('hi', { toolChoice: 'none', settings: { parallelToolCalls: true } }),
    );
    expect(Object.keys(bare).sort()).toEqual(['abortSignal', 'prompt']);
  });

  test('a turn goes back as it came, after JSON too', async () => {
    const { items } = await generated({ content: CONTENT, finishReason: CALLS });
    expect(
      await promptFor([
        userMessage('hi'),
        ...overJson(items),
        result('c1', 'rain'),
        result('c2', 'oops', true),
      ]),
    ).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: 'hm', providerOptions: { acme: { signature: 'c2ln' } } },
          { type: 'reasoning', text: '', providerOptions: { acme: { redactedData: 'cmVk' } } },
          { type: 'text', text: 'Looking.' },
          {
            type: 'tool-call',
            toolCallId: 'srv_1',
            toolName: 'search',
            input: { q: 'a' },
            providerExecuted: true,
          },
          {
            type: 'tool-result',
            toolCallId: 'srv_1',
            toolName: 'search',
            output: { type: 'json', value: [{ url: 'https://x.test' }] },
          },
          {
            type: 'tool-call',
            toolCallId: 'c1',
            toolName: 'weather',
            input: { city: 'Oslo' },
            providerOptions: { acme: { thoughtSignature: 'dGhvdWdodA' } },
          },
          { type: 'tool-call', toolCallId: 'c2', toolName: 'now', input: {} },
        ],
      },
      {
        role: 'tool',
        content: [
          {
            type: 'tool-result',
            toolCallId: 'c1',
            toolName: 'weather',
            output: { type: 'text', value: 'rain' },
            providerOptions: { acme: { thoughtSignature: 'dGhvdWdodA' } },
          },
          {
            type: 'tool-result',
            toolCallId: 'c2',
            toolName: 'now',
            output: { type: 'error-text', value: 'oops' },
          },
        ],
      },
    ]);
  });

  test('what was changed goes without the id the provider knows it by', async () => {
    const metadata = { acme: { itemId: 'item_1', phase: 'final' } };
    const { items } = await generated({
      content: [
        { type: 'text', text: 'yes', providerMetadata: metadata },
        { type: 'tool-call', toolCallId: 'c', toolName: 'a', input: '{}', providerMetadata: metadata },
      ],
    });
    const [message, call] = items as [Item, Item];
    const sent = await promptFor([
      { ...message, content: [{ type: 'text', text: 'no' }] } as Item,
      { ...call, callId: 'c_2' } as Item,
      result('c_2', 'ok'),
    ]);
    const changed = { acme: { phase: 'final' } };
    expect(sent).toMatchObject([
      {
        content: [
          { text: 'no', providerOptions: changed },
          { toolCallId: 'c_2', providerOptions: changed },
        ],
      },
      { content: [{ toolCallId: 'c_2', providerOptions: changed }] },
    ]);
    expect(JSON.stringify(sent)).not.toContain('item_1');
    expect(JSON.stringify(await promptFor(items))).toContain('item_1');
  });

  test("another provider's items go along in their portable part, of another model of the AI SDK too", async () => {
    const opaque = { provider: 'ai-sdk:other.chat', data: { metadata: { acme: { signature: 'x' } } } };
    expect(
      await promptFor([
        { type: 'message', role: 'developer', content: [{ type: 'text', text: 'd' }], opaque },
        { type: 'reasoning', text: 'alone', opaque },
        userMessage('hi'),
        { type: 'reasoning', text: 'hm', opaque },
        { type: 'provider_item', kind: 'tool-call', opaque },
        { type: 'message', role: 'assistant', content: [{ type: 'text', text: '' }], opaque },
        { type: 'tool_call', callId: 'c', name: 'a', arguments: 'not JSON', opaque },
        { type: 'approval_request', callId: 'c', name: 'a', arguments: '{}' },
        { type: 'tool_result', callId: 'c', output: { a: 0 }, isError: true },
        { type: 'tool_result', callId: 'gone', output: 'x', isError: false },
      ]),
    ).toEqual([
      { role: 'system', content: 'd' },
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: 'hm' },
          { type: 'tool-call', toolCallId: 'c', toolName: 'a', input: { invalid_arguments: 'not JSON' } },
        ],
      },
      {
        role: 'tool',
        content: [
          {
            type: 'tool-result',
            toolCallId: 'c',
            toolName: 'a',
            output: { type: 'error-json', value: { a: 0 } },
          },
        ],
      },
    ]);
  });

  test('files are data or URLs, with what is known of their type', async () => {
    const content: Extract<Item, { type: 'message' }>['content'] = [
      { type: 'image', url: 'https://x.test/a' },
      { type: 'image', url: 'data:image/png;base64,AAAA' },
      { type: 'file', url: 'data:text/plain,a%20b', name: 'a.txt' },
      { type: 'file', url: 'https://x.test/b.pdf' },
    ];
    expect(await promptFor([{ type: 'message', role: 'user', content }])).toEqual([
      {
        role: 'user',
        content: [
          { type: 'file', mediaType: 'image/*', data: { type: 'url', url: new URL('https://x.test/a') } },
          { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'AAAA' } },
          {
            type: 'file',
            mediaType: 'text/plain',
            data: { type: 'data', data: 'YSBi' },
            filename: 'a.txt',
          },
          {
            type: 'file',
            mediaType: 'application/pdf',
            data: { type: 'url', url: new URL('https://x.test/b.pdf') },
          },
        ],
      },
    ]);
  });
});

test('a file whose URL is none is refused before the model is called', async () => {
  const { model, calls } = scripted({});
  const content: Extract<Item, { type: 'message' }>['content'] = [{ type: 'image', url: 'a.png' }];
  const of = request([{ type: 'message', role: 'user', content }]);
  const error = await rejection(aiSdk(model).generate(of, calling()));
  expect(error).toMatchObject({ code: 'invalid-request', retryable: false });
  expect(String(error)).toContain('"a.png"');
  expect(calls).toEqual([]);
});

describe('older specifications', () => {
  const image: Item = {
    type: 'message',
    role: 'user',
    content: [{ type: 'image', url: 'data:image/png;base64,AAAA' }],
  };

  test('version 2: flat usage, a plain finish reason, plain file data, its own tool type', async () => {
    const calls: unknown[] = [];
    const model: LanguageModelV2 = {
      specificationVersion: 'v2',
      provider: 'acme.chat',
      modelId: 'acme-1',
      supportedUrls: {},
      doGenerate: async options => {
        calls.push(options);
        return {
          content: [
            { type: 'file', mediaType: 'image/png', data: 'AQID' },
            { type: 'tool-call', toolCallId: 'c', toolName: 'weather', input: '{}' },
          ],
          finishReason: 'tool-calls',
          usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5, cachedInputTokens: 1 },
          warnings: [],
        };
      },
      doStream: async () => ({ stream: streamOf([]) }),
    };
    const providerTools = { search: { id: 'acme.search', args: {} } };
    const turn = await aiSdk(model, { providerTools }).generate(
      request([image], { settings: { reasoningEffort: 'low' } }),
      calling(),
    );
    expect(turn).toMatchObject({
      finishReason: 'tool_calls',
      usage: { inputTokens: 3, outputTokens: 2, cachedInputTokens: 1, reasoningTokens: null },
      items: [{ content: [{ type: 'image', url: 'data:image/png;base64,AQID' }] }, { type: 'tool_call' }],
    });
    expect(calls).toMatchObject([
      {
        prompt: [{ content: [{ type: 'file', data: 'AAAA' }] }],
        tools: [{ type: 'provider-defined' }],
        providerOptions: { acme: { reasoningEffort: 'low' } },
      },
    ]);
  });

  test('version 3 streams as version 4 does', async () => {
    const model = { ...scripted({ parts: PARTS }).model, specificationVersion: 'v3' } as unknown;
    const deltas = await collect(aiSdk(model as LanguageModelV3).stream(request([image]), calling()));
    expect(turnIn(deltas)).toEqual((await streamed(PARTS)).turn);
  });

  test.each([
    ['a later one', { specificationVersion: 'v9', provider: 'a', modelId: 'b' }, 'specification "v9"'],
    ['a string', 'openai/gpt-5', 'the text "openai/gpt-5"'],
    ['nothing', undefined, 'specification none'],
  ])('%s is refused when the adapter is made', (_, model, found) => {
    const make = () => aiSdk(model as never);
    expect(make).toThrow(found);
    expect(make).toThrow(expect.objectContaining({ name: 'ProviderError', code: 'model-unknown' }));
  });
});

describe('failures', () => {
  const failing = (thrown: unknown) =>
    rejection(aiSdk(scripted({ thrown }).model, { now: () => 0 }).generate(request('hi'), calling()));
  const named = (name: string, message: string, more: object = {}): Error =>
    Object.assign(new Error(message), { name, ...more });

  test('a response that failed is mapped by its status, body and headers', async () => {
    const error = named('AI_APICallError', 'slow down', {
      statusCode: 429,
      responseHeaders: { 'retry-after': '2' },
      responseBody: JSON.stringify({ error: { message: 'Slow down, key sk-abcdefghijkl' } }),
    });
    const mapped = await failing(error);
    expect(mapped).toMatchObject({
      code: 'rate-limit',
      status: 429,
      retryable: true,
      retryAfterMs: 2_000,
      provider: OWN,
      model: 'acme-1',
    });
    expect(JSON.stringify(mapped) + String(mapped)).not.toContain('abcdefghijkl');
  });

  test('a 200 that is not what it should be is malformed, one that holds an error is that', async () => {
    const html = named('AI_APICallError', 'Invalid JSON response', {
      statusCode: 200,
      responseBody: '<html>',
    });
    expect(await failing(html)).toMatchObject({ code: 'malformed-stream', raw: '<html>' });
    const body = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
    const overloaded = named('AI_APICallError', 'x', {
      statusCode: 200,
      responseBody: JSON.stringify(body),
    });
    expect(await failing(overloaded)).toMatchObject({ code: 'overloaded', retryable: true });
  });

  test.each<[string, Error, object]>([
    ['a missing key', named('AI_LoadAPIKeyError', 'ACME_API_KEY is missing'), { code: 'key-missing' }],
    [
      'what the model cannot do',
      named('AI_UnsupportedFunctionalityError', "'x' not supported"),
      { code: 'invalid-request' },
    ],
    [
      'data that is not as promised',
      named('AI_TypeValidationError', 'Type validation failed'),
      { code: 'malformed-stream', retryable: true },
    ],
    [
      'a refused connection',
      named('AI_APICallError', 'Cannot connect to API', {
        cause: Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }),
      }),
      { code: 'network', retryable: true },
    ],
    ['a bug', new TypeError('x is not a function'), { code: 'unknown', retryable: false }],
  ])('%s', async (_, thrown, expected) => {
    const mapped = await failing(thrown);
    expect(mapped).toMatchObject({ name: 'ProviderError', ...expected });
  });

  test.each<[string, unknown, object]>([
    ['a body', { type: 'overloaded_error', message: 'Overloaded' }, { code: 'overloaded', retryable: true }],
    ['text', 'it broke', { code: 'unknown' }],
    [
      'an error that holds a body',
      named('ProviderStreamError', 'x', { data: { error: { code: 'insufficient_quota', message: 'x' } } }),
      { code: 'quota', retryable: false },
    ],
  ])('an error part with %s is thrown behind what came', async (_, error, expected) => {
    const parts: Part[] = [
      { type: 'text-start', id: '0' },
      { type: 'text-delta', id: '0', delta: 'Hel' },
      { type: 'error', error },
      finished({ unified: 'error', raw: undefined }),
    ];
    const seen: TurnDelta[] = [];
    const thrown = await rejection(
      (async () => {
        for await (const delta of aiSdk(scripted({ parts }).model).stream(request('hi'), calling())) {
          seen.push(delta);
        }
      })(),
    );
    expect(seen).toEqual([{ type: 'text', text: 'Hel' }]);
    expect(thrown).toMatchObject({ name: 'ProviderError', ...expected });
  });

  test.each<[string, Part[]]>([
    ['ends without finish', [{ type: 'text-start', id: '0' }]],
    ['says that it was interrupted', [finished({ unified: 'interrupted', raw: undefined })]],
    [
      'begins a call and never makes it',
      [{ type: 'tool-input-start', id: 'c', toolName: 'a' }, finished(CALLS)],
    ],
  ])('a stream that %s is malformed', async (_, parts) => {
    expect(await rejection(streamed(parts))).toMatchObject({ code: 'malformed-stream', retryable: true });
  });

  test('an abort ends a call whose model does not listen, and closes its stream', async () => {
    const cancelled = Promise.withResolvers<unknown>();
    const stream = new ReadableStream<Part>({
      start: controller => {
        controller.enqueue({ type: 'text-start', id: '0' });
        controller.enqueue({ type: 'text-delta', id: '0', delta: 'Hel' });
      },
      cancel: cancelled.resolve,
    });
    const deaf: LanguageModelV4 = {
      ...scripted({}).model,
      doGenerate: () => new Promise(() => undefined),
      doStream: async () => ({ stream }),
    };
    const controller = new AbortController();
    const generating = rejection(aiSdk(deaf).generate(request('hi'), { signal: controller.signal }));
    const streaming = rejection(
      (async () => {
        for await (const _ of aiSdk(deaf).stream(request('hi'), { signal: controller.signal })) {
          controller.abort();
        }
      })(),
    );
    expect(await generating).toMatchObject({ code: 'aborted', retryable: false });
    expect(await streaming).toMatchObject({ code: 'aborted' });
    await cancelled.promise;
  });

  test('a reader that stops early closes the stream', async () => {
    const cancelled = Promise.withResolvers<unknown>();
    const stream = new ReadableStream<Part>({
      start: controller => {
        controller.enqueue({ type: 'text-start', id: '0' });
        controller.enqueue({ type: 'text-delta', id: '0', delta: 'Hel' });
      },
      cancel: cancelled.resolve,
    });
    const model: LanguageModelV4 = { ...scripted({}).model, doStream: async () => ({ stream }) };
    for await (const _ of aiSdk(model).stream(request('hi'), calling())) break;
    await cancelled.promise;
  });
});
