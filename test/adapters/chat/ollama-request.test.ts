import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { OllamaOptions } from '../../../adapters/ollama.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { calling, collect, rejection, request, result } from '../../support/adapters/requests.ts';
import { answering, call, DONE, line, streamed, whole } from '../../support/adapters/wire/ollama.ts';

const tool = { name: 'weather', description: 'The weather.', inputSchema: { type: 'object' } };

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

describe('the request', () => {
  test('always states whether it is streamed', async () => {
    expect(await bodyFor(request('hi'))).toEqual({
      model: 'qwen3',
      messages: [{ role: 'user', content: 'hi' }],
      stream: false,
    });
    const { adapter, sent } = answering(line({}, DONE));
    await collect(adapter.stream(request('hi'), calling()));
    expect(sent[0]?.body.stream).toBe(true);
  });

  test('settings, output and provider options are mapped', async () => {
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

  test('a schema becomes the format; with tools, which a format would prevent, it goes into the instructions', async () => {
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

  test('toolChoice none sends no tools, and a forced tool is the only one sent', async () => {
    const tools = [tool, { ...tool, name: 'search' }];
    expect(await bodyFor(request('hi', { tools, toolChoice: 'none' }))).not.toHaveProperty('tools');
    const forced = await bodyFor(request('hi', { tools, toolChoice: { name: 'search' } }));
    expect(forced.tools).toMatchObject([{ function: { name: 'search' } }]);
    expect((await bodyFor(request('hi', { tools, toolChoice: 'required' }))).tools).toHaveLength(2);
  });

  test('a turn is sent back as one message with its thinking, and results by the name of their tool', async () => {
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

  test('a call with an id from the server is sent back with an id, also after it was renamed', async () => {
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

  test('items of another provider are sent in their portable form', async () => {
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

  test('images are base64 and text files are text', async () => {
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
  ])('%s is rejected before anything is sent', async (what, part) => {
    const { adapter, sent } = answering(line({}, DONE));
    const of = request([{ type: 'message', role: 'user', content: [part] }]);
    const error = await rejection(adapter.generate(of, calling()));
    expect(error).toMatchObject({ name: 'ProviderError', code: 'invalid-request', retryable: false });
    expect(String(error)).toContain(what);
    expect(sent).toEqual([]);
  });
});
