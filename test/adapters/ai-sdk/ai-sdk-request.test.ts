import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import { describe, expect, test } from 'vitest';
import { type AiSdkOptions, aiSdk } from '../../../adapters/ai-sdk.ts';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { calling, rejection, request, result } from '../../support/adapters/requests.ts';
import { CALLS, CONTENT, generated, scripted, tool } from '../../support/adapters/wire/ai-sdk-model.ts';

async function optionsFor(of: ModelRequest, options: AiSdkOptions = {}): Promise<LanguageModelV4CallOptions> {
  const { model, calls } = scripted({});
  await aiSdk(model, options).generate(of, calling());
  return calls[0] ?? { prompt: [] };
}

const promptFor = async (transcript: readonly Item[]) => (await optionsFor(request(transcript))).prompt;

const overJson = (items: readonly Item[]): Item[] => JSON.parse(JSON.stringify(items));

describe('the request to a model', () => {
  test('settings, tools, output and options are mapped', async () => {
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

  test('toolChoice none keeps the tools, and without tools there is no tool choice', async () => {
    const off = await optionsFor(request('hi', { tools: [tool], toolChoice: 'none' }));
    expect(off).toMatchObject({ tools: [{ name: 'weather' }], toolChoice: { type: 'none' } });
    const bare = await optionsFor(
      request('hi', { toolChoice: 'none', settings: { parallelToolCalls: true } }),
    );
    expect(Object.keys(bare).sort()).toEqual(['abortSignal', 'prompt']);
  });

  test('a turn goes back unchanged, also after a JSON round trip', async () => {
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

  test('changed items are sent without the id that the provider knows them by', async () => {
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

  test('items of another provider, or of another AI SDK model, are sent in their portable form', async () => {
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

  test('files are sent as data or URLs, with their media type if known', async () => {
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

test('a file with an invalid URL is rejected before the model is called', async () => {
  const { model, calls } = scripted({});
  const content: Extract<Item, { type: 'message' }>['content'] = [{ type: 'image', url: 'a.png' }];
  const of = request([{ type: 'message', role: 'user', content }]);
  const error = await rejection(aiSdk(model).generate(of, calling()));
  expect(error).toMatchObject({ code: 'invalid-request', retryable: false });
  expect(String(error)).toContain('"a.png"');
  expect(calls).toEqual([]);
});
