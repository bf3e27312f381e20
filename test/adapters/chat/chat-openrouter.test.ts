import { describe, expect, test } from 'vitest';
import { openrouter } from '../../../adapters/openrouter.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import {
  answering,
  chunk,
  completion,
  ended,
  generate,
  messagesBy,
  piece,
  sentBy,
  sse,
  stored,
  stream,
} from '../../support/adapters/chat-wire.ts';
import { calling, collect, rejection, request, result, sumOf } from '../../support/adapters/requests.ts';

const detail = (text: string | undefined, more: JsonObject = {}): JsonObject => ({
  type: 'reasoning.text',
  ...omitUndefined({ text }),
  format: 'anthropic-claude-v1',
  index: 0,
  ...more,
});
const called = piece({ index: 0, id: 'toolu_1', function: { name: 'get_weather', arguments: '{}' } });

describe('OpenRouter', () => {
  test('reasoning details are merged, read once, and go back unchanged with their signature', async () => {
    const { turn, deltas } = await stream(
      openrouter,
      chunk({ content: '', reasoning: 'The ', reasoning_details: [detail('The ')] }),
      chunk({ content: '', reasoning: 'user', reasoning_details: [detail('user', { signature: null })] }),
      chunk({ content: '', reasoning: null, reasoning_details: [detail(undefined, { signature: 'c2ln' })] }),
      called,
      ended('tool_calls'),
    );
    expect(turn.reasoning).toBe('The user');
    expect(sumOf(deltas).reasoning).toBe('The user');
    const [message] = await messagesBy(openrouter, [...stored(turn), result('toolu_1', 'x')]);
    expect(message?.reasoning_details).toEqual([detail('The user', { signature: 'c2ln' })]);
    expect(message).not.toHaveProperty('reasoning');
    const whole = completion(
      {
        content: '',
        reasoning: 'The user',
        reasoning_details: [detail('The user', { signature: 'c2ln' })],
        tool_calls: [{ index: 0, id: 'toolu_1', function: { name: 'get_weather', arguments: '{}' } }],
      },
      'tool_calls',
    );
    expect(await generate(openrouter, whole)).toEqual(turn);
  });

  test('details of different types, indexes and ids stay separate and in order', async () => {
    const details = [
      { type: 'reasoning.summary', summary: 'sum', index: 0 },
      { type: 'reasoning.encrypted', data: 'ZW5j', index: 0, id: 'rs_1' },
      { type: 'reasoning.encrypted', data: 'b3Ro', index: 0, id: 'rs_2' },
      { type: 'reasoning.text', text: 'two', index: 1 },
    ];
    const { turn } = await stream(
      openrouter,
      ...details.map(one => chunk({ reasoning_details: [one] })),
      chunk({ content: 'a' }),
      ended(),
    );
    expect(turn.reasoning).toBe('sumtwo');
    const [message] = await messagesBy(openrouter, stored(turn));
    expect(message?.reasoning_details).toEqual(details);
    expect(await generate(openrouter, completion({ content: 'a', reasoning_details: details }))).toEqual(
      turn,
    );
  });

  test('encrypted reasoning without text is sent back', async () => {
    const encrypted = { type: 'reasoning.encrypted', data: 'ZW5j', index: 0, format: 'openai-responses-v1' };
    const { turn } = await stream(
      openrouter,
      chunk({ reasoning_details: [encrypted] }),
      called,
      ended('tool_calls'),
    );
    expect(turn.reasoning).toBe('');
    const [message] = await messagesBy(openrouter, [...stored(turn), result('toolu_1', 'x')]);
    expect(message?.reasoning_details).toEqual([encrypted]);
  });

  test("a detail follows its call's id when the id was changed", async () => {
    const encrypted = { type: 'reasoning.encrypted', data: 'ZW5j', index: 0, id: 'toolu_1' };
    const { turn } = await stream(
      openrouter,
      chunk({ reasoning_details: [encrypted] }),
      called,
      ended('tool_calls'),
    );
    const renamed = stored(turn).map(item => (item.type === 'tool_call' ? { ...item, callId: 'new' } : item));
    const [message] = await messagesBy(openrouter, [...renamed, result('new', 'x')]);
    expect(message).toMatchObject({
      reasoning_details: [{ ...encrypted, id: 'new' }],
      tool_calls: [{ id: 'new' }],
    });
  });

  test("Anthropic's reasoning is not sent without a signature, other models' reasoning is", async () => {
    const own = detail('b', { format: null, index: 1 });
    const { turn } = await stream(
      openrouter,
      chunk({ reasoning_details: [detail('a'), own] }),
      chunk({ content: 'x' }),
      ended(),
    );
    expect((await messagesBy(openrouter, stored(turn)))[0]?.reasoning_details).toEqual([own]);
  });

  test('text that is repeated as a whole is read once', async () => {
    const { turn } = await stream(
      openrouter,
      chunk({ reasoning: 'The user', reasoning_details: [detail('The user', { format: null })] }),
      chunk({ reasoning: 'The user asks', reasoning_details: [detail('The user asks', { format: null })] }),
      chunk({ content: 'The answer to this' }),
      chunk({ content: ' is 42.' }),
      chunk({ content: 'The answer to this is 42.' }),
      ended(),
    );
    expect(turn).toMatchObject({ reasoning: 'The user asks', text: 'The answer to this is 42.' });
    expect((await messagesBy(openrouter, stored(turn)))[0]?.reasoning_details).toMatchObject([
      { text: 'The user asks' },
    ]);
  });

  test('short repeated text is kept', async () => {
    const { turn } = await stream(
      openrouter,
      chunk({ content: '1' }),
      chunk({ content: '12' }),
      chunk({ content: 'ha' }),
      ended(),
    );
    expect(turn.text).toBe('112ha');
  });

  test('comments are ignored, and usage after the end does not reset the turn', async () => {
    const usage = {
      prompt_tokens: 50,
      completion_tokens: 143,
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 3 },
      completion_tokens_details: { reasoning_tokens: 128 },
    };
    const body = `: OPENROUTER PROCESSING\n\n${sse(called)}: OPENROUTER PROCESSING\n\n${sse(
      chunk({ content: '' }, { finish_reason: 'tool_calls', native_finish_reason: 'completed' }),
      chunk({ content: '' }, { native_finish_reason: null }, { usage }),
      '[DONE]',
    )}`;
    const deltas = await collect(answering(openrouter, body).stream(request('hi'), calling()));
    expect(deltas.at(-1)).toMatchObject({
      turn: { finishReason: 'tool_calls', usage: { cacheWriteTokens: 3, reasoningTokens: 128 } },
    });
  });

  test('an error next to choices in a 200 is an error, whatever came before it', async () => {
    const error = await rejection(
      stream(
        openrouter,
        chunk({ reasoning: 'hm' }, { finish_reason: 'length', native_finish_reason: 'length' }),
        chunk(
          { content: '' },
          {},
          { error: { code: 400, message: 'Token limit reached' }, usage: { prompt_tokens: 4 } },
        ),
        '[DONE]',
      ),
    );
    expect(error).toMatchObject({
      code: 'invalid-request',
      status: 400,
      raw: { error: { message: 'Token limit reached' } },
    });
  });

  test('generated images come after the text, each once, and are not sent back', async () => {
    const image = (index: number, data: string): JsonObject => {
      return { index, type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } };
    };
    const { turn, deltas } = await stream(
      openrouter,
      chunk({ content: 'A cat' }),
      chunk({ content: '', images: [image(0, 'aaaa')] }),
      chunk({ content: '.', images: [image(0, 'aaaa'), image(1, 'bbbb')] }),
      ended('stop'),
    );
    expect(turn.items).toEqual([
      { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'A cat.' }] },
      {
        type: 'message',
        role: 'assistant',
        content: [
          { type: 'image', url: 'data:image/png;base64,aaaa' },
          { type: 'image', url: 'data:image/png;base64,bbbb' },
        ],
      },
    ]);
    expect(sumOf(deltas).text).toBe('A cat.');
    expect(await messagesBy(openrouter, stored(turn))).toEqual([{ role: 'assistant', content: 'A cat.' }]);
    const images = [image(0, 'aaaa'), image(1, 'bbbb')];
    expect(await generate(openrouter, completion({ content: 'A cat.', images }))).toEqual(turn);
  });

  test('the error of an upstream provider is reported', async () => {
    const body = {
      error: { code: 429, message: 'Provider returned error', metadata: { raw: 'busy' } },
      user_id: 'u',
    };
    const adapter = answering(openrouter, JSON.stringify(body), { status: 429, type: 'application/json' });
    const error = (await rejection(adapter.generate(request('hi'), calling()))) as Error;
    expect(error).toMatchObject({ code: 'rate-limit', retryable: true, retryAfterMs: null });
    expect(error.message).toContain('busy');
  });

  test.each([
    ['low', { effort: 'low' }],
    ['none', { enabled: false }],
  ])(
    'effort %s is a member of reasoning, merged with other options of it',
    async (reasoningEffort, expected) => {
      const of = request('hi', {
        settings: { reasoningEffort },
        providerOptions: { reasoning: { exclude: true } },
      });
      expect((await sentBy(openrouter, of)).reasoning).toEqual({ ...expected, exclude: true });
    },
  );
});
