import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { errorFromBody, errorFromThrown, malformedStream } from '../../../adapters/http/provider-errors.ts';
import { context, fromHttp, NOW, SECRET } from '../../support/adapters/wire/provider-errors.ts';

function fromThrown(thrown: unknown, signal = new AbortController().signal) {
  return errorFromThrown(thrown, context, signal, NOW);
}

describe('a thrown error', () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });

  test('a refused connection names the base URL without user and password', () => {
    const error = fromThrown(new TypeError('fetch failed', { cause: new AggregateError([refused]) }));
    expect(error).toMatchObject({ code: 'network', retryable: true, status: null });
    expect(error.message).toContain('https://example.test/v1 (ECONNREFUSED)');
    expect(error.message).toContain('OPENAI_BASE_URL');
    expect(inspect(error)).not.toContain('password');
  });

  test('a temporary error suggests a retry', () => {
    for (const error of [fromHttp(500, {}), malformedStream('an event is not JSON', context)])
      expect(error.message).toContain('Try again');
    const lost = Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });
    expect(fromThrown(new TypeError('terminated', { cause: lost })).message).toContain('was lost');
  });

  test('an unknown model names the base URL with its path, which reveals a missing /v1', () => {
    const { message } = fromHttp(404, {});
    expect(message).toContain('https://example.test/v1');
    expect(message).not.toContain('password');
  });

  test('a timeout is distinguished from a lost connection', () => {
    const slow = Object.assign(new Error('Headers Timeout Error'), { code: 'UND_ERR_HEADERS_TIMEOUT' });
    expect(fromThrown(new TypeError('fetch failed', { cause: slow }))).toMatchObject({
      code: 'timeout',
      retryable: true,
    });
  });

  test('every error of an aborted call is an abort', () => {
    const controller = new AbortController();
    controller.abort(new Error('enough'));
    expect(fromThrown(refused, controller.signal)).toMatchObject({ code: 'aborted', retryable: false });
  });

  test('a ProviderError passes unchanged', () => {
    const ours = malformedStream('x', context);
    expect(fromThrown(ours)).toBe(ours);
  });

  test('an error of the caller is not retried', () => {
    expect(fromThrown(new TypeError('"Bearer invalid-key\\n" is an invalid header value.'))).toMatchObject({
      code: 'unknown',
      retryable: false,
    });
  });
});

describe('no error contains a key', () => {
  const keys = [
    'sk-proj-abcDEF123_-456ghi',
    'sk-ant-api03-abcdefghijkl',
    'gsk_abcdefghijklmnop',
    'xai-abcdefghijklmnop',
    'AIzaSyA-abcdefghijklmnop',
    SECRET,
  ];
  test.each(keys)('%s', key => {
    const errors = [
      fromHttp(401, { error: { message: `Incorrect API key provided: ${key}. Find it at https://x.test.` } }),
      fromHttp(500, `echo: authorization: Bearer ${key}`),
      fromHttp(400, { headers: { Authorization: `Bearer ${key}`, 'x-api-key': key }, message: 'bad' }),
      fromHttp(400, { error: `https://x.test/?key=${key}&a=1` }),
      errorFromBody({ error: { message: key } }, context),
      fromThrown(new TypeError(`Headers.append: "Bearer ${key}" is an invalid header value.`)),
    ];
    for (const error of errors) {
      expect(inspect(error, { depth: null })).not.toContain(key);
      expect(JSON.stringify(error)).not.toContain(key);
    }
  });

  test('a masked key is removed too, and the rest of the message stays', () => {
    const { message } = fromHttp(401, {
      error: {
        message:
          'Incorrect API key provided: sk-abc*****wxyz. You can find your API key at https://platform.openai.com.',
      },
    });
    expect(message).toContain('[redacted]. You can find your API key at https://platform.openai.com.');
    expect(message).not.toContain('wxyz');
  });
});
