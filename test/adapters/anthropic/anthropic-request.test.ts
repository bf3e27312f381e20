import { describe, expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import type { Item } from '../../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { bodyFor } from '../../support/adapters/anthropic-exchange.ts';
import { request, result } from '../../support/adapters/requests.ts';

const TOOL = { name: 'lookup', description: 'Looks it up.', inputSchema: { type: 'object', properties: {} } };
const tools = [TOOL];
const instructed = (role: 'system' | 'developer', text: string): Item => ({
  type: 'message',
  role,
  content: [{ type: 'text', text }],
});
const body = (more: Partial<ModelRequest>, model = 'claude-sonnet-4-5') =>
  bodyFor(request('hi', more), { model });

const SHOWN = { thinking: { type: 'adaptive', display: 'summarized' } };

describe('a request', () => {
  test('has the model, its maximum output and the messages, and nothing that was not requested', async () => {
    expect(await bodyFor(request('hi'))).toEqual({
      model: 'claude-sonnet-4-5',
      max_tokens: 64_000,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }],
    });
  });

  test.each([
    ['claude-opus-4-6', 64_000],
    ['claude-opus-5-5', 64_000],
    ['claude-sonnet-4-20250514', 32_000],
    ['claude-opus-4-1', 32_000],
    ['claude-3-7-sonnet-latest', 32_000],
    ['claude-3-5-haiku-20241022', 8_192],
    ['claude-3-haiku-20240307', 4_096],
    ['some-other-model', 8_192],
  ])('to %s may be answered with %d tokens', async (model, max_tokens) => {
    expect(await body({}, model)).toMatchObject({ max_tokens });
    expect(await body({ settings: { maxOutputTokens: 77 } }, model)).toMatchObject({ max_tokens: 77 });
  });

  test('has the instructions and the leading system messages of the transcript as its system prompt', async () => {
    const transcript = [
      instructed('system', 'Be brief.'),
      instructed('developer', 'Be kind.'),
      userMessage('hi'),
    ];
    expect(await bodyFor(request(transcript, { instructions: 'Be just.' }))).toMatchObject({
      system: 'Be just.\n\nBe brief.\n\nBe kind.',
      messages: [{ role: 'user' }],
    });
  });

  test('has later instructions of the transcript in place, marked as instructions', async () => {
    const transcript = [userMessage('hi'), instructed('developer', 'Now answer.')];
    expect((await bodyFor(request(transcript))).messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'hi' },
          { type: 'text', text: '<system>\nNow answer.\n</system>' },
        ],
      },
    ]);
  });

  test('is overridden by the options of adapter and request', async () => {
    const sent = await bodyFor(
      request('hi', {
        tools,
        providerOptions: { top_k: 5, tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      }),
      { providerOptions: { top_k: 1, metadata: { user_id: 'u' } } },
    );
    expect(sent).toMatchObject({
      top_k: 5,
      metadata: { user_id: 'u' },
      tool_choice: { type: 'auto' },
    });
    expect((sent.tools as JsonObject[]).map(tool => tool.name)).toEqual(['lookup', 'web_search']);
  });
});

describe('the choice of tools', () => {
  test.each([
    ['auto' as const, { type: 'auto' }],
    ['required' as const, { type: 'any' }],
    ['none' as const, { type: 'none' }],
    [{ name: 'lookup' }, { type: 'tool', name: 'lookup' }],
  ])('%j is sent as %j, and the tools stay', async (toolChoice, tool_choice) => {
    expect(await body({ tools, toolChoice })).toMatchObject({ tool_choice, tools: [{ name: 'lookup' }] });
  });

  test('disables parallel calls if requested, except without tools', async () => {
    const settings = { parallelToolCalls: false };
    const choice = async (toolChoice: ModelRequest['toolChoice']) =>
      (await body({ tools, toolChoice, settings })).tool_choice;
    expect(await choice('auto')).toEqual({ type: 'auto', disable_parallel_tool_use: true });
    expect(await choice('required')).toEqual({ type: 'any', disable_parallel_tool_use: true });
    expect(await choice('none')).toEqual({ type: 'none' });
  });

  test('that forces a call turns thinking off for the call, except where a model accepts both', async () => {
    const forced = (model: string) =>
      body({ tools, toolChoice: 'required', settings: { reasoningEffort: 'low' } }, model);
    expect(await forced('claude-sonnet-4-5')).toMatchObject({ tool_choice: { type: 'any' } });
    expect(await forced('claude-sonnet-4-5')).not.toHaveProperty('thinking');
    expect(await forced('claude-opus-5')).toMatchObject({
      tool_choice: { type: 'any' },
      thinking: { type: 'disabled' },
    });
    expect(await forced('claude-haiku-5-5')).toMatchObject({
      tool_choice: { type: 'any' },
      thinking: { type: 'adaptive' },
    });
  });

  test('is not sent without tools', async () => {
    expect(await body({ toolChoice: 'required', settings: { parallelToolCalls: false } })).not.toHaveProperty(
      'tool_choice',
    );
  });

  test('is none for tools that were called before and are no longer offered; they are still declared', async () => {
    const transcript: Item[] = [
      userMessage('hi'),
      { type: 'tool_call', callId: 'a', name: 'lookup', arguments: '{}' },
      result('a', 'x'),
    ];
    expect(await bodyFor(request(transcript))).toMatchObject({
      tools: [{ name: 'lookup', input_schema: { type: 'object' } }],
      tool_choice: { type: 'none' },
    });
  });

  test('leaves strict tools strict if the model and the schema allow it', async () => {
    const strict = [{ ...TOOL, strict: true }];
    const [closed] = (await body({ tools: strict })).tools as JsonObject[];
    expect(closed).toMatchObject({
      strict: true,
      input_schema: { type: 'object', additionalProperties: false },
    });
    const [loose] = (await body({ tools: strict }, 'claude-3-7-sonnet-latest')).tools as JsonObject[];
    expect(loose).not.toHaveProperty('strict');
  });
});

describe('thinking and sampling', () => {
  const thinkingFor = async (
    reasoningEffort: string | undefined,
    model: string,
    more: Partial<ModelRequest['settings']> = {},
  ) => {
    const effort = omitUndefined({ reasoningEffort });
    const { thinking, output_config } = await body({ settings: { ...effort, ...more } }, model);
    return { thinking, output_config };
  };

  test('models with a budget get one below their maximum output', async () => {
    expect(await thinkingFor('high', 'claude-sonnet-4-5')).toEqual({
      thinking: { type: 'enabled', budget_tokens: 20_000 },
    });
    expect(await thinkingFor('high', 'claude-sonnet-4-5', { maxOutputTokens: 4_000 })).toEqual({
      thinking: { type: 'enabled', budget_tokens: 3_000 },
    });
    expect(await thinkingFor('high', 'claude-sonnet-4-5', { maxOutputTokens: 1_100 })).toEqual({
      thinking: { type: 'enabled', budget_tokens: 1_024 },
    });
    expect(await thinkingFor('high', 'claude-sonnet-4-5', { maxOutputTokens: 1_000 })).toEqual({});
  });

  test('newer models think adaptively, with a supported effort', async () => {
    const adaptive = (effort: string) => ({ thinking: { type: 'adaptive' }, output_config: { effort } });
    expect(await thinkingFor('minimal', 'claude-opus-4-6')).toEqual(adaptive('low'));
    expect(await thinkingFor('xhigh', 'claude-opus-4-6')).toEqual(adaptive('high'));
    expect(await thinkingFor('xhigh', 'claude-opus-4-7')).toMatchObject(adaptive('xhigh'));
    expect(await thinkingFor('max', 'claude-sonnet-5-5')).toMatchObject(adaptive('max'));
  });

  test.each([
    ['claude-sonnet-4-5', {}],
    ['claude-opus-4-7', {}],
    ['claude-opus-5', { thinking: { type: 'disabled' } }],
    ['claude-haiku-5-5', { thinking: { type: 'disabled' } }],
    ['claude-sonnet-5-5', { thinking: { type: 'between_tools' } }],
    ['claude-opus-5-5', { ...SHOWN, output_config: { effort: 'low' } }],
    ['claude-fable-5', { ...SHOWN, output_config: { effort: 'low' } }],
  ])('no effort is sent to %s in its own form', async (model, expected) => {
    expect(await thinkingFor('none', model)).toEqual(expected);
  });

  test('thinking that would come without its text is asked to show it, unless the options say otherwise', async () => {
    for (const model of ['claude-opus-5-5', 'claude-fable-5', 'claude-sonnet-5-5', 'claude-haiku-5-5']) {
      expect(await thinkingFor(undefined, model)).toEqual(SHOWN);
      expect(await thinkingFor('high', model)).toEqual({ ...SHOWN, output_config: { effort: 'high' } });
      const providerOptions = { thinking: { display: 'omitted' } };
      expect(await body({ providerOptions }, model)).toMatchObject({ thinking: { display: 'omitted' } });
      expect(await bodyFor(request('hi'), { model, display: 'updates' })).toMatchObject({
        thinking: { type: 'adaptive', display: 'updates' },
      });
    }
    expect(await thinkingFor('high', 'claude-opus-4-8')).toEqual({
      ...SHOWN,
      output_config: { effort: 'high' },
    });
    for (const model of ['claude-opus-4-8', 'claude-sonnet-4-5']) {
      expect(await thinkingFor(undefined, model)).toEqual({});
    }
    expect(await thinkingFor('high', 'claude-sonnet-4-5')).toMatchObject({ thinking: { type: 'enabled' } });
    expect(await thinkingFor('high', 'claude-sonnet-4-5')).not.toHaveProperty('thinking.display');
  });

  test('models that cannot think are not asked to', async () => {
    expect(await thinkingFor('high', 'claude-3-5-haiku-latest')).toEqual({});
  });

  test('max_tokens grows with a budget from the options, which stays below it', async () => {
    const providerOptions = { thinking: { type: 'enabled', budget_tokens: 40_000 } };
    expect(await body({ providerOptions }, 'claude-sonnet-4-0')).toMatchObject({ max_tokens: 72_000 });
  });

  test.each([
    ['claude-3-haiku-20240307', { temperature: 0.5, topP: 0.5 }, { temperature: 0.5, top_p: 0.5 }],
    ['claude-sonnet-4-5', { temperature: 0.5 }, { temperature: 0.5 }],
    ['claude-sonnet-4-5', { temperature: 1.5 }, { temperature: 1 }],
    ['claude-sonnet-4-5', { temperature: 1, reasoningEffort: 'low' }, { temperature: 1 }],
    ['claude-sonnet-4-5', { topP: 0.97, reasoningEffort: 'low' }, { top_p: 0.97 }],
    ['claude-opus-4-7', { temperature: 1, topP: 1 }, {}],
    ['claude-opus-9', { temperature: 0.5, topP: 0.5 }, { temperature: 0.5, top_p: 0.5 }],
    ['qwen3', { temperature: 0.5, reasoningEffort: 'low' }, { temperature: 0.5 }],
  ])('%s with %j is sent %j', async (model, settings, expected) => {
    const sent = await body({ settings }, model);
    const { temperature, top_p } = sent;
    expect({ temperature, top_p }).toEqual({ temperature: undefined, top_p: undefined, ...expected });
  });
});

describe('files', () => {
  const blocksOf = async (part: Extract<Item, { type: 'message' }>['content'][number]) => {
    const { messages } = await bodyFor(request([{ type: 'message', role: 'user', content: [part] }]));
    return (messages as { content: JsonObject[] }[])[0]?.content;
  };

  test('images are sent as their bytes or their URL', async () => {
    expect(await blocksOf({ type: 'image', url: 'data:image/png;base64,AAAA' })).toEqual([
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
    ]);
    expect(await blocksOf({ type: 'image', url: 'https://x.test/a.png' })).toEqual([
      { type: 'image', source: { type: 'url', url: 'https://x.test/a.png' } },
    ]);
  });

  test('PDFs are documents, texts are text, images are images', async () => {
    expect(await blocksOf({ type: 'file', url: 'data:application/pdf;base64,JVBE', name: 'a.pdf' })).toEqual([
      {
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
        title: 'a.pdf',
      },
    ]);
    expect(await blocksOf({ type: 'file', url: 'https://x.test/a.pdf' })).toEqual([
      { type: 'document', source: { type: 'url', url: 'https://x.test/a.pdf' } },
    ]);
    const plain = [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a,é' } }];
    expect(
      await blocksOf({ type: 'file', url: `data:text/csv;base64,${Buffer.from('a,é').toString('base64')}` }),
    ).toEqual(plain);
    expect(await blocksOf({ type: 'file', url: 'data:,a,%C3%A9' })).toEqual(plain);
    expect(await blocksOf({ type: 'file', url: 'data:image/gif;base64,R0lG' })).toMatchObject([
      { type: 'image' },
    ]);
  });
});

test('the adapter declares its capabilities, by its model or by its option', () => {
  const output = (model: string, nativeOutput?: boolean) =>
    anthropic({ model, ...omitUndefined({ nativeOutput }) }).capabilities.structuredOutput;
  expect(output('claude-sonnet-4-5')).toBe('native');
  expect(output('claude-sonnet-4-0')).toBe('tool');
  expect(output('claude-sonnet-4-0', true)).toBe('native');
  expect(anthropic({ model: 'claude-opus-4-6' })).toMatchObject({
    provider: 'anthropic',
    capabilities: { reasoningReplay: true, serverTools: true, continuation: false },
  });
});
