import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';
import {
  answering,
  call,
  events,
  generate,
  says,
  stream,
  text,
} from '../../support/adapters/wire/gemini-stream.ts';

describe('the end of a turn', () => {
  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['BLOCKLIST', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['SPII', 'content_filter'],
    ['IMAGE_SAFETY', 'content_filter'],
    ['IMAGE_OTHER', 'content_filter'],
    ['LANGUAGE', 'content_filter'],
    ['NO_IMAGE', 'error'],
    ['MODEL_ARMOR', 'content_filter'],
    ['MALFORMED_FUNCTION_CALL', 'error'],
    ['UNEXPECTED_TOOL_CALL', 'error'],
    ['OTHER', 'unknown'],
    ['SOMETHING_NEW', 'unknown'],
  ])('%s without content is %s', async (finishReason, expected) => {
    const response = { candidates: [{ finishReason }] };
    expect(await generate(response)).toMatchObject({ text: '', items: [], finishReason: expected });
    expect((await stream(response)).turn.finishReason).toBe(expected);
  });

  test('a call does not change a finish reason other than stop', async () => {
    expect((await stream(says([call('a')], 'MAX_TOKENS'))).turn.finishReason).toBe('length');
  });

  test('a blocked prompt has no candidate', async () => {
    const blocked = { promptFeedback: { blockReason: 'MODEL_ARMOR' }, usageMetadata: { trafficType: 'X' } };
    const turn = await generate(blocked);
    expect(turn).toMatchObject({ finishReason: 'content_filter', items: [], model: 'gemini-3-flash' });
    expect(turn.usage).toMatchObject({ inputTokens: 0, outputTokens: 0 });
    expect((await stream(blocked)).turn).toEqual(turn);
  });

  test('content after the finish reason still counts', async () => {
    const { turn } = await stream(says([text('hi')], 'STOP'), {
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1 },
      modelVersion: 'gemini-3-flash-001',
    });
    expect(turn).toMatchObject({
      finishReason: 'stop',
      usage: { inputTokens: 3 },
      model: 'gemini-3-flash-001',
    });
  });

  test('a stream that just stops is truncated, even after a call', async () => {
    for (const all of [[], [says([text('hi')])], [says([call('a')]), { usageMetadata: {} }]]) {
      const error = await rejection(stream(...all));
      expect(error).toMatchObject({ code: 'malformed-stream', retryable: true });
      expect(String(error)).toContain('truncated stream');
    }
  });

  test('a response without a candidate is malformed', async () => {
    const error = await rejection(generate({ candidates: [], usageMetadata: { promptTokenCount: 3 } }));
    expect(error).toMatchObject({ code: 'malformed-stream', retryable: true });
  });

  test.each([
    ['plain', (body: JsonObject) => JSON.stringify(body)],
    ['in a list', (body: JsonObject) => JSON.stringify([body])],
  ])('an error in the middle of a stream (%s) is that error', async (_, write) => {
    const body = { error: { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' } };
    const answer = `${events(says([text('hi')]))}data: ${write(body)}\n\n`;
    const error = await rejection(collect(answering(answer).stream(request('hi'), calling())));
    expect(error).toMatchObject({ code: 'overloaded', status: 503, retryable: true });
  });

  test('an event that is not an object is malformed', async () => {
    const error = await rejection(collect(answering('data: <html>\n\n').stream(request('hi'), calling())));
    expect(error).toMatchObject({ code: 'malformed-stream' });
    expect(String(error)).toContain('<html>');
  });
});

describe('usage', () => {
  test('prompt and output include the separately counted tokens', async () => {
    const usageMetadata = {
      promptTokenCount: 10,
      toolUsePromptTokenCount: 5,
      cachedContentTokenCount: 4,
      candidatesTokenCount: 3,
      thoughtsTokenCount: 2,
      totalTokenCount: 20,
    };
    const turn = await generate(says([text('hi')], 'STOP', { usageMetadata }));
    expect(turn.usage).toEqual({
      inputTokens: 15,
      outputTokens: 5,
      cachedInputTokens: 4,
      cacheWriteTokens: null,
      reasoningTokens: 2,
    });
  });

  test('the last counts apply, and a response without counts removes none', async () => {
    const { turn } = await stream(
      says([text('a')], undefined, { usageMetadata: { trafficType: 'ON_DEMAND' } }),
      says([text('b')], undefined, { usageMetadata: { promptTokenCount: 15, totalTokenCount: 15 } }),
      says([text('c')], 'STOP', { usageMetadata: { promptTokenCount: 13, candidatesTokenCount: 8 } }),
      { usageMetadata: { trafficType: 'ON_DEMAND' } },
    );
    expect(turn.usage).toMatchObject({ inputTokens: 13, outputTokens: 8, reasoningTokens: null });
  });

  test('that is missing is unknown', async () => {
    expect((await generate(says([text('hi')], 'STOP'))).usage).toBeNull();
  });
});
