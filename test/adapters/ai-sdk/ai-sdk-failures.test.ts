import type { LanguageModelV4 } from '@ai-sdk/provider';
import { describe, expect, test } from 'vitest';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import type { TurnDelta } from '../../../protocol/turn.ts';
import { calling, rejection, request } from '../../support/adapters/requests.ts';
import {
  CALLS,
  finished,
  OWN,
  type Part,
  scripted,
  streamed,
} from '../../support/adapters/wire/ai-sdk-model.ts';

describe('failures', () => {
  const failing = (thrown: unknown) =>
    rejection(aiSdk(scripted({ thrown }).model, { now: () => 0 }).generate(request('hi'), calling()));
  const named = (name: string, message: string, more: object = {}): Error =>
    Object.assign(new Error(message), { name, ...more });

  test('a failed response is mapped by its status, body and headers', async () => {
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

  test('an invalid 200 response is malformed, and one that contains an error is that error', async () => {
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
      'an unsupported feature',
      named('AI_UnsupportedFunctionalityError', "'x' not supported"),
      { code: 'invalid-request' },
    ],
    [
      'invalid data',
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
    ['an unexpected error', new TypeError('x is not a function'), { code: 'unknown', retryable: false }],
  ])('%s', async (_, thrown, expected) => {
    const mapped = await failing(thrown);
    expect(mapped).toMatchObject({ name: 'ProviderError', ...expected });
  });

  test.each<[string, unknown, object]>([
    ['a body', { type: 'overloaded_error', message: 'Overloaded' }, { code: 'overloaded', retryable: true }],
    ['text', 'it broke', { code: 'unknown' }],
    [
      'an error with a body',
      named('ProviderStreamError', 'x', { data: { error: { code: 'insufficient_quota', message: 'x' } } }),
      { code: 'quota', retryable: false },
    ],
  ])('an error part with %s is thrown after the preceding deltas', async (_, error, expected) => {
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
    ['reports an interruption', [finished({ unified: 'interrupted', raw: undefined })]],
    [
      'starts a call and never completes it',
      [{ type: 'tool-input-start', id: 'c', toolName: 'a' }, finished(CALLS)],
    ],
  ])('a stream that %s is malformed', async (_, parts) => {
    expect(await rejection(streamed(parts))).toMatchObject({ code: 'malformed-stream', retryable: true });
  });

  test('an abort ends a call whose model ignores the signal, and closes its stream', async () => {
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
