import assert from 'node:assert/strict';
import { API_KEY, answerOf, bytesOf, call, failsWith, NOWHERE, soon, WIDE } from './call.ts';
import type { AdapterCheck, AdapterUnderTest, Exchange } from './check.ts';
import { replayFetch } from './replay-fetch.ts';
import { startReplayServer } from './replay-server.ts';

/** An aborted call sends no request, closes its connection, and fails with `aborted`. */
export function abortChecks(subject: AdapterUnderTest): AdapterCheck[] {
  return oneOfEach(subject.exchanges).flatMap(exchange => [
    abortedBefore(subject, exchange),
    abortedWithin(subject, exchange),
  ]);
}

/** Returns the first streamed and the first complete exchange. */
export function oneOfEach(exchanges: readonly Exchange[]): Exchange[] {
  const good = exchanges.filter(({ fails }) => fails === undefined);
  return [true, false].flatMap(mode => good.find(({ streamed }) => streamed === mode) ?? []);
}

/** Describes the mode of an exchange, for the names of checks. */
export function modeOf({ streamed }: Exchange): string {
  return streamed ? 'a stream' : 'a response';
}

function abortedBefore(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${modeOf(exchange)} that is aborted before it starts sends no request`,
    async run() {
      const { fetch, requests } = replayFetch(answerOf(exchange));
      const adapter = subject.open({ ...WIDE, baseURL: NOWHERE, fetch });
      const signal = AbortSignal.abort(new Error(`over, ${API_KEY}`));
      await failsWith({ code: 'aborted', retryable: false }, adapter, call(adapter, exchange, { signal }));
      assert.equal(requests.length, 0);
    },
  };
}

function abortedWithin(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${modeOf(exchange)} that is aborted midway closes its connection`,
    async run() {
      await using server = await startReplayServer();
      const bytes = bytesOf(exchange);
      const never = Promise.withResolvers<void>();
      server.answer({
        ...answerOf(exchange, [bytes.subarray(0, Math.floor(bytes.length / 2))]),
        end: never.promise,
      });
      const adapter = subject.open({ ...WIDE, baseURL: server.baseURL });
      const controller = new AbortController();
      const failed = failsWith(
        { code: 'aborted', retryable: false },
        adapter,
        call(adapter, exchange, { signal: controller.signal }),
      );
      const asked = await soon(
        Promise.race([server.asked(), failed.then(() => undefined)]),
        'a request must come',
      );
      assert.ok(asked, 'the call ended before it was aborted');
      await soon(asked.sent, 'the answer must start');
      controller.abort();
      await soon(failed, 'the call must fail');
      await soon(asked.closed, 'the connection must close');
      never.resolve();
    },
  };
}
