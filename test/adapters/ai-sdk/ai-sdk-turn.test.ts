import type { LanguageModelV2, LanguageModelV3, LanguageModelV4FinishReason } from '@ai-sdk/provider';
import { describe, expect, test } from 'vitest';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import { calling, collect, request, result, sumOf } from '../../support/adapters/requests.ts';
import {
  CALLS,
  CONTENT,
  finished,
  generated,
  OWN,
  type Part,
  STOP,
  scripted,
  streamed,
  streamOf,
  turnIn,
} from '../../support/adapters/wire/ai-sdk-model.ts';

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
  test("has the model's text, reasoning, calls and usage, and only calls of the agent's tools", async () => {
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

  test('is the same when streamed, and its deltas add up to it', async () => {
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

  test("has Anthropic's summary of the conversation apart from the answer, and sends it back", async () => {
    const providerMetadata = { anthropic: { type: 'compaction', signature: 'c2ln' } };
    const summary = { type: 'text' as const, text: 'The user asked for a plan.', providerMetadata };
    const content = [summary, { type: 'text' as const, text: 'Here it is.' }];
    const { deltas, turn } = await streamed([
      { type: 'text-start', id: '0', providerMetadata },
      { type: 'text-delta', id: '0', delta: summary.text },
      { type: 'text-end', id: '0' },
      { type: 'text-start', id: '1' },
      { type: 'text-delta', id: '1', delta: 'Here it is.' },
      { type: 'text-end', id: '1' },
      finished(),
    ]);
    expect(deltas.slice(0, -1)).toEqual([{ type: 'text', text: 'Here it is.' }]);
    expect(turn.text).toBe('Here it is.');
    expect(turn.items[0]).toMatchObject({ type: 'provider_item', kind: 'compaction' });
    expect((await generated({ content })).items).toEqual(turn.items);
    const { model, calls } = scripted({});
    await aiSdk(model).generate(
      { ...request('hi'), transcript: [...turn.items, userMessage('Go on.')] },
      calling(),
    );
    expect(calls[0]?.prompt[0]).toEqual({
      role: 'assistant',
      content: [
        { type: 'text', text: summary.text, providerOptions: providerMetadata },
        { type: 'text', text: 'Here it is.' },
      ],
    });
  });

  test('with interleaved text blocks is streamed block by block', async () => {
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
    [{ unified: 'other', raw: 'compaction' }, 'pause'],
    [{ unified: 'other', raw: 'new' }, 'unknown'],
    [{ unified: 'stop', raw: 'pause_turn' }, 'pause'],
  ])('that finishes with %o', async (finishReason, expected) => {
    expect((await generated({ finishReason })).finishReason).toBe(expected);
  });

  test.each<[LanguageModelV4FinishReason['unified'], string]>([
    ['stop', 'tool_calls'],
    ['other', 'tool_calls'],
    ['length', 'length'],
  ])('with calls that finishes with %s', async (unified, expected) => {
    const turn = await generated({ content: CONTENT, finishReason: { unified, raw: undefined } });
    expect(turn.finishReason).toBe(expected);
  });

  test('with only provider-run calls is a final answer', async () => {
    const turn = await generated({ content: CONTENT.slice(0, 6), finishReason: CALLS });
    expect(turn).toMatchObject({ finishReason: 'stop', toolCalls: [] });
  });

  test('without token counts has no usage', async () => {
    const none = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
    const usage = { inputTokens: none, outputTokens: { ...none, text: undefined, reasoning: undefined } };
    expect((await generated({ usage })).usage).toBeNull();
  });

  test('has generated files as parts of its answer', async () => {
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

  test('has call ids that are new in the transcript and the same for a repeated request', async () => {
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

  test('keeps arguments that are not JSON unchanged', async () => {
    const turn = await generated({
      content: [{ type: 'tool-call', toolCallId: 'c', toolName: 'a', input: '{"b":' }],
    });
    expect(turn.toolCalls[0]).toMatchObject({
      arguments: '{"b":',
      error: expect.stringContaining('not valid'),
    });
  });
});

describe('older specifications', () => {
  const image: Item = {
    type: 'message',
    role: 'user',
    content: [{ type: 'image', url: 'data:image/png;base64,AAAA' }],
  };

  test('version 2 is supported: flat usage, a plain finish reason, plain file data, its own tool type', async () => {
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
    ['a later version', { specificationVersion: 'v9', provider: 'a', modelId: 'b' }, 'specification "v9"'],
    ['a string', 'openai/gpt-5', 'the text "openai/gpt-5"'],
    ['nothing', undefined, 'specification none'],
  ])('%s is rejected when the adapter is created', (_, model, found) => {
    const make = () => aiSdk(model as never);
    expect(make).toThrow(found);
    expect(make).toThrow(expect.objectContaining({ name: 'ProviderError', code: 'model-unknown' }));
  });
});
