import { describe, expect, test } from 'vitest';
import type { ChatOptions } from '../../../adapters/chat/adapter.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { userMessage } from '../../../protocol/message.ts';
import {
  chunk,
  completion,
  ended,
  generate,
  messagesBy,
  piece,
  sentBy,
  stored,
  stream,
} from '../../support/adapters/chat-wire.ts';
import { request, result } from '../../support/adapters/requests.ts';

describe('OpenAI Chat Completions and compatible providers', () => {
  test('declares its capabilities', () => {
    expect(openaiChat({ model: 'm' })).toMatchObject({
      provider: 'openai-chat',
      capabilities: {
        reasoningReplay: true,
        serverTools: false,
        structuredOutput: 'native',
        continuation: false,
      },
    });
  });

  test('the prompt cache has its key, and explicitly ends after each message of the user', async () => {
    const open = (options: ChatOptions) =>
      openaiChat({ ...options, promptCache: { key: 'support', mode: 'explicit', ttl: '30m' } });
    const body = await sentBy(open, request([userMessage('one')]));
    expect(body).toMatchObject({
      prompt_cache_key: 'support',
      prompt_cache_options: { mode: 'explicit', ttl: '30m' },
      messages: [
        {
          role: 'user',
          content: [{ type: 'text', text: 'one', prompt_cache_breakpoint: { mode: 'explicit' } }],
        },
      ],
    });
    expect(() => openaiChat({ model: 'm', promptCache: { ttl: '12h' } })).toThrow(
      'promptCache.ttl of openaiChat to be "30m", got "12h"',
    );
  });

  test('a refusal is sent back as a refusal', async () => {
    const turn = await generate(openaiChat, completion({ content: null, refusal: 'No.' }));
    const sent = await messagesBy(openaiChat, [...stored(turn), userMessage('please')]);
    expect(sent[0]).toEqual({ role: 'assistant', content: null, refusal: 'No.' });
  });

  test.each(['reasoning', 'reasoning_content'])(
    '%s is sent back under its name, with its calls only',
    async member => {
      const { turn } = await stream(
        openaiChat,
        chunk({ [member]: 'hm' }),
        piece({ index: 0, id: 'a', function: { name: 'get_weather', arguments: '{}' } }),
        ended('tool_calls'),
      );
      const [message] = await messagesBy(openaiChat, [...stored(turn), result('a', 'x')]);
      expect(message).toMatchObject({ [member]: 'hm', tool_calls: [{ id: 'a' }] });
      const { turn: answer } = await stream(openaiChat, chunk({ [member]: 'hm', content: 'hi' }), ended());
      expect(await messagesBy(openaiChat, stored(answer))).toEqual([{ role: 'assistant', content: 'hi' }]);
    },
  );

  test("a thought signature in a call's extra content is sent back with the call, under the call's current id", async () => {
    const extra = { extra_content: { google: { thought_signature: 'c2ln' } } };
    const { turn } = await stream(
      openaiChat,
      piece({ index: 0, id: 'a', ...extra, function: { name: 'get_weather', arguments: '{}' } }),
      ended('stop'),
    );
    const inPieces = [
      piece({ index: 0, id: '', function: { name: 'get_weather', arguments: '{}' } }),
      piece({ index: 0, ...extra }),
    ];
    const { turn: unnamed } = await stream(openaiChat, ...inPieces, ended('stop'));
    const [sent] = await messagesBy(openaiChat, [
      ...stored(unnamed),
      result(unnamed.toolCalls[0]?.callId ?? '', 'x'),
    ]);
    expect(sent?.tool_calls).toMatchObject([extra]);
    const renamed = stored(turn).map(item => (item.type === 'tool_call' ? { ...item, callId: 'a_2' } : item));
    const [message] = await messagesBy(openaiChat, [...renamed, result('a_2', 'x')]);
    expect(message?.tool_calls).toEqual([
      { ...extra, id: 'a_2', type: 'function', function: { name: 'get_weather', arguments: '{}' } },
    ]);
  });

  test("a thought signature in a message's extra content is sent back with the message", async () => {
    const extra = { extra_content: { google: { thought_signature: 'c2ln' } } };
    const expected = [{ role: 'assistant', content: 'hi', ...extra }];
    const whole = await generate(openaiChat, completion({ content: 'hi', ...extra }));
    expect(await messagesBy(openaiChat, stored(whole))).toEqual(expected);
    const { turn } = await stream(openaiChat, chunk({ content: 'hi' }), chunk(extra), ended());
    expect(await messagesBy(openaiChat, stored(turn))).toEqual(expected);
    const silent = await generate(openaiChat, completion({ content: '', ...extra }));
    expect(await messagesBy(openaiChat, [...stored(silent), userMessage('and?')])).toEqual([
      { role: 'user', content: 'and?' },
    ]);
    const own = piece({ index: 0, id: 'a', function: { name: 'get_weather', arguments: '{}' } });
    const { turn: calling } = await stream(openaiChat, own, chunk(extra), ended('tool_calls'));
    const [message] = await messagesBy(openaiChat, [...stored(calling), result('a', 'x')]);
    expect(message).toMatchObject({ ...extra, tool_calls: [{ id: 'a' }] });
  });
});
