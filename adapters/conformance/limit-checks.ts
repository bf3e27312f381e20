import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { modeOf, oneOfEach } from './abort-checks.ts';
import { answerOf, bytesOf, call, failsWith, NOWHERE, play, soon, WIDE } from './call.ts';
import type { AdapterCheck, AdapterUnderTest, Exchange } from './check.ts';
import { replayFetch } from './replay-fetch.ts';
import { startReplayServer } from './replay-server.ts';

/** Size and time limits of a response, and its compression. */
export function limitChecks(subject: AdapterUnderTest): AdapterCheck[] {
  return oneOfEach(subject.exchanges).flatMap(exchange => [
    tooLarge(subject, exchange),
    neverEnds(subject, exchange),
    compressed(subject, exchange),
  ]);
}

function tooLarge(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${modeOf(exchange)} with more bytes than allowed is aborted`,
    async run() {
      const bytes = bytesOf(exchange);
      const { fetch, requests } = replayFetch(answerOf(exchange));
      const maxResponseBytes = Math.floor(bytes.length / 2);
      const adapter = subject.open({ ...WIDE, baseURL: NOWHERE, fetch, maxResponseBytes });
      await failsWith({ code: 'response-too-large', retryable: false }, adapter, call(adapter, exchange));
      assert.equal(requests.length, 1);
    },
  };
}

function neverEnds(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${modeOf(exchange)} that stalls is aborted, and its connection closed`,
    async run() {
      const bytes = bytesOf(exchange);
      const never = Promise.withResolvers<void>();
      const half = bytes.subarray(0, Math.floor(bytes.length / 2));
      const { fetch, requests } = replayFetch({ ...answerOf(exchange, [half]), end: never.promise });
      const adapter = subject.open({ ...WIDE, baseURL: NOWHERE, fetch, idleTimeoutMs: 20 });
      const failed = failsWith({ code: 'timeout', retryable: true }, adapter, call(adapter, exchange));
      await soon(failed, 'the call must fail');
      await soon(requests[0]?.closed ?? Promise.reject(), 'the connection must close');
      never.resolve();
    },
  };
}

function compressed(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${modeOf(exchange)} with compression gives the same turn`,
    async run() {
      await using server = await startReplayServer();
      const { headers = {} } = answerOf(exchange);
      const chunks = [gzipSync(bytesOf(exchange))];
      server.answer({ headers: { ...headers, 'content-encoding': 'gzip' }, chunks });
      const { turn } = await call(subject.open({ ...WIDE, baseURL: server.baseURL }), exchange);
      assert.deepEqual(turn, (await play(subject, exchange)).turn);
    },
  };
}
