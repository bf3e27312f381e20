import assert from 'node:assert/strict';
import type { ProviderErrorDetails } from '../../protocol/error.ts';
import { modeOf, oneOfEach } from './abort-checks.ts';
import type { Answer } from './answer.ts';
import { API_KEY, answerOf, bytesOf, call, failsWith, NOWHERE, play, WIDE } from './call.ts';
import type { AdapterCheck, AdapterUnderTest, Exchange } from './check.ts';
import { replayFetch } from './replay-fetch.ts';
import { startReplayServer } from './replay-server.ts';

const JSON_HEADERS = { 'content-type': 'application/json' };
const HTML: Pick<Answer, 'headers' | 'chunks'> = {
  headers: { 'content-type': 'text/html; charset=utf-8' },
  chunks: ['<!doctype html><html><head><title>Hold on</title></head><body>Try later</body></html>'],
};

/** An error body in the most common form, which repeats the API key, as some providers do. */
function errorBody(type: string): string {
  return JSON.stringify({ error: { message: `it broke, said ${API_KEY}`, type, code: null, param: null } });
}

type Failure = { name: string; answer: Answer; error: Partial<ProviderErrorDetails> };

const FAILURES: readonly Failure[] = [
  {
    name: 'a status of 401 is an authentication error',
    answer: { status: 401, headers: JSON_HEADERS, chunks: [errorBody('invalid_request_error')] },
    error: { code: 'authentication', status: 401, retryable: false },
  },
  {
    name: 'a status of 429 is a rate limit, with the wait in ms',
    answer: {
      status: 429,
      headers: { ...JSON_HEADERS, 'retry-after': '7' },
      chunks: [errorBody('requests')],
    },
    error: { code: 'rate-limit', status: 429, retryable: true, retryAfterMs: 7_000 },
  },
  {
    name: 'a status of 500 is retryable',
    answer: { status: 500, headers: JSON_HEADERS, chunks: [errorBody('server_error')] },
    error: { code: 'server', status: 500, retryable: true, retryAfterMs: null },
  },
  {
    name: 'an HTML page with a status of 502 is retryable',
    answer: { status: 502, ...HTML },
    error: { code: 'server', status: 502, retryable: true },
  },
  {
    name: 'an HTML page is malformed',
    answer: HTML,
    error: { code: 'malformed-stream', retryable: true },
  },
  {
    name: 'JSON that ends early is malformed',
    answer: { headers: JSON_HEADERS, chunks: ['{"id":"1","cho'] },
    error: { code: 'malformed-stream', retryable: true },
  },
  {
    name: 'an empty body is malformed',
    answer: { headers: JSON_HEADERS, chunks: [] },
    error: { code: 'malformed-stream', retryable: true },
  },
  {
    name: 'an error body with a status of 200 is an error',
    answer: { headers: JSON_HEADERS, chunks: [errorBody('server_error')] },
    error: { code: 'server', retryable: true },
  },
];

/** Every failure is a `ProviderError` with its code, after one request, without the API key. */
export function errorChecks(subject: AdapterUnderTest): AdapterCheck[] {
  const modes = oneOfEach(subject.exchanges);
  return [
    ...modes.flatMap(exchange => FAILURES.map(failure => failing(subject, exchange, failure))),
    ...modes.map(exchange => cutOff(subject, exchange)),
    ...modes.map(exchange => notJson(subject, exchange)),
    ...subject.exchanges.filter(({ fails }) => fails).map(exchange => failsAsExpected(subject, exchange)),
    unreachable(subject, modes),
    withoutKey(subject, modes),
    withoutURL(subject, modes),
  ];
}

function failing(subject: AdapterUnderTest, exchange: Exchange, failure: Failure): AdapterCheck {
  return {
    name: `${failure.name} (${modeOf(exchange)})`,
    async run() {
      const { fetch, requests } = replayFetch(failure.answer);
      const adapter = subject.open({ ...WIDE, baseURL: NOWHERE, fetch });
      await failsWith(failure.error, adapter, call(adapter, exchange));
      assert.equal(requests.length, 1, 'a failed call must not be repeated');
    },
  };
}

function failsAsExpected(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: fails with the expected error`,
    async run() {
      const adapter = subject.open({ ...WIDE, baseURL: NOWHERE });
      await failsWith(exchange.fails ?? {}, adapter, play(subject, exchange));
    },
  };
}

function notJson(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `a body that is not JSON is malformed (${modeOf(exchange)})`,
    async run() {
      const adapter = subject.open({ ...WIDE, baseURL: NOWHERE });
      const work = play(subject, { ...exchange, response: 'data: {"id":"1","cho\n\n' });
      await failsWith({ code: 'malformed-stream', retryable: true }, adapter, work);
    },
  };
}

function cutOff(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `a connection that breaks midway is a network error (${modeOf(exchange)})`,
    async run() {
      await using server = await startReplayServer();
      const bytes = bytesOf(exchange);
      server.answer({
        ...answerOf(exchange, [bytes.subarray(0, Math.floor(bytes.length / 2))]),
        cut: true,
      });
      const adapter = subject.open({ ...WIDE, baseURL: server.baseURL });
      await failsWith({ code: 'network', status: null, retryable: true }, adapter, call(adapter, exchange));
    },
  };
}

function unreachable(subject: AdapterUnderTest, modes: readonly Exchange[]): AdapterCheck {
  return {
    name: 'an unreachable server is a network error',
    async run() {
      const server = await startReplayServer();
      await server[Symbol.asyncDispose]();
      const adapter = subject.open({ ...WIDE, baseURL: server.baseURL });
      for (const exchange of modes) {
        await failsWith({ code: 'network', status: null, retryable: true }, adapter, call(adapter, exchange));
      }
    },
  };
}

function withoutKey(subject: AdapterUnderTest, modes: readonly Exchange[]): AdapterCheck {
  return {
    name: 'without a key no request is sent',
    async run() {
      for (const exchange of modes) {
        const { fetch, requests } = replayFetch(answerOf(exchange));
        const adapter = subject.open({ ...WIDE, apiKey: '', baseURL: NOWHERE, fetch });
        await failsWith({ code: 'key-missing', retryable: false }, adapter, call(adapter, exchange));
        assert.equal(requests.length, 0);
      }
    },
  };
}

function withoutURL(subject: AdapterUnderTest, modes: readonly Exchange[]): AdapterCheck {
  return {
    name: 'with an invalid base URL no request is sent',
    async run() {
      for (const exchange of modes) {
        const { fetch, requests } = replayFetch(answerOf(exchange));
        const adapter = subject.open({ ...WIDE, baseURL: 'not a url', fetch });
        await failsWith({ code: 'base-url-invalid', retryable: false }, adapter, call(adapter, exchange));
        assert.equal(requests.length, 0);
      }
    },
  };
}
