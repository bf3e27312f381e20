import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { ProviderError, type ProviderErrorDetails } from '../../protocol/error.ts';
import type { Item, Part } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ModelTurn } from '../../protocol/turn.ts';
import { ShownDeltas } from '../turn/turn-deltas.ts';
import type { AdapterCheck, AdapterUnderTest, Exchange } from './call.ts';
import {
  API_KEY,
  answerOf,
  bytesOf,
  call,
  failsWith,
  NOWHERE,
  type Outcome,
  type Play,
  play,
  player,
  requestOf,
  send,
  soon,
  WIDE,
} from './call.ts';
import type { Answer } from './replay.ts';
import {
  atRandom,
  inTwoEverywhere,
  oneByOne,
  randomNumbers,
  replayFetch,
  splitAt,
  startReplayServer,
} from './replay.ts';

/** Requirements for the turn of every exchange. */
export function turnChecks(subject: AdapterUnderTest): AdapterCheck[] {
  const good = subject.exchanges.filter(({ fails }) => fails === undefined);
  return good.flatMap(exchange => [
    ...(exchange.expect === undefined ? [] : [givesWhatIsExpected(subject, exchange)]),
    ...(exchange.streamed ? [deltasAddUp(subject, exchange)] : []),
    ...(exchange.sameTurnAs === undefined ? [] : [sameTurn(subject, exchange)]),
    isPlainJson(subject, exchange),
    callIdsHold(subject, exchange),
    asksOnce(subject, exchange),
  ]);
}

function givesWhatIsExpected(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: gives the expected turn`,
    async run() {
      const { turn } = await play(subject, exchange);
      const expected = exchange.expect ?? {};
      const found = Object.fromEntries(
        Object.keys(expected).map(name => [name, turn[name as keyof typeof turn]]),
      );
      assert.deepEqual(found, expected);
    },
  };
}

function deltasAddUp(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: ends with one turn, which its deltas add up to`,
    async run() {
      const { turn, deltas } = await play(subject, exchange);
      assert.ok(
        deltas.every(delta => delta.type !== 'turn'),
        'the stream contained more than one turn',
      );
      const shown = new ShownDeltas();
      for (const delta of deltas) shown.record(delta);
      assert.deepEqual(
        { text: shown.text, reasoning: shown.reasoning, calls: shown.calls },
        {
          text: turn.text,
          reasoning: turn.reasoning,
          calls: turn.toolCalls.map(({ name, arguments: text }) => ({ name, arguments: text })),
        },
      );
    },
  };
}

function sameTurn(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  const other = subject.exchanges.find(({ name }) => name === exchange.sameTurnAs);
  if (other === undefined)
    throw new RangeError(`sameTurnAs names an unknown exchange: "${exchange.sameTurnAs}".`);
  return {
    name: `${exchange.name}: gives the same turn as ${other.name}`,
    async run() {
      assert.deepEqual((await play(subject, exchange)).turn, (await play(subject, other)).turn);
    },
  };
}

function isPlainJson(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: gives a turn of plain JSON whose items include its text and calls`,
    async run() {
      const { turn } = await play(subject, exchange);
      assert.deepEqual(JSON.parse(JSON.stringify(turn)), turn);
      const text = turn.items.flatMap(item =>
        item.type === 'message' ? item.content.flatMap(part => (part.type === 'text' ? part.text : [])) : [],
      );
      assert.equal(text.join(''), turn.text);
      const calls = turn.items.flatMap(item => (item.type === 'tool_call' ? item.callId : []));
      const asked = turn.toolCalls.filter(({ executedBy }) => executedBy !== 'provider');
      assert.deepEqual(
        calls,
        asked.map(({ callId }) => callId),
      );
    },
  };
}

function callIdsHold(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: gives each call its own id, and the same one when requested again`,
    async run() {
      const ids = (await play(subject, exchange)).turn.toolCalls.map(({ callId }) => callId);
      assert.equal(new Set(ids).size, ids.length, `these ids are not unique: ${ids.join(', ')}`);
      assert.ok(!ids.includes(''), 'a call has an empty id');
      const again = (await play(subject, exchange)).turn.toolCalls.map(({ callId }) => callId);
      assert.deepEqual(again, ids);
    },
  };
}

function asksOnce(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: sends one request, and the same one when requested again`,
    async run() {
      const first = await send(subject, exchange, requestOf(exchange));
      assert.equal(first.length, 1);
      const { fetch, requests } = replayFetch(answerOf(exchange));
      const adapter = subject.open({ ...WIDE, baseURL: NOWHERE, fetch });
      await call(adapter, exchange);
      await call(adapter, exchange);
      assert.deepEqual(
        requests.map(({ body }) => body),
        [first[0]?.body, first[0]?.body],
      );
    },
  };
}

/** Responses smaller than this are split at every position, larger ones only at random positions. */
const SMALL_BYTES = 4_096;

/** A turn does not depend on how its bytes are split. An incomplete response is never accepted as a turn. */
export function splitChecks(subject: AdapterUnderTest): AdapterCheck[] {
  return subject.exchanges.flatMap(exchange => {
    const bytes = bytesOf(exchange);
    const small = bytes.length < SMALL_BYTES;
    return [
      sameHowever('one byte at a time', subject, exchange, () => [oneByOne(bytes)]),
      ...(small
        ? [sameHowever('in two at every position', subject, exchange, () => inTwoEverywhere(bytes))]
        : []),
      sameHowever('split at random positions', subject, exchange, () =>
        atRandom(bytes, { seed: bytes.length, times: 16 }),
      ),
      ...(exchange.streamed && exchange.fails === undefined ? [truncated(subject, exchange)] : []),
      damaged(subject, exchange),
    ];
  });
}

function sameHowever(
  how: string,
  subject: AdapterUnderTest,
  exchange: Exchange,
  splits: () => Iterable<readonly Uint8Array[]>,
): AdapterCheck {
  return {
    name: `${exchange.name}: gives the same ${how}`,
    async run() {
      const play = player(subject);
      const complete = await endOf(play, exchange);
      for (const pieces of splits()) {
        const found = await endOf(play, exchange, pieces);
        assert.deepEqual(found, complete, `cut at ${pieces.map(piece => piece.byteOffset).join(', ')}`);
      }
    },
  };
}

function truncated(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: is malformed wherever it is cut off`,
    async run() {
      const bytes = bytesOf(exchange);
      const play = player(subject);
      const malformed = { code: 'malformed-stream', retryable: true } as const;
      const complete = await play(exchange);
      await failsWith(malformed, play.adapter, play(exchange, []));
      for (const length of lengthsBelow(bytes.length)) {
        try {
          const { turn } = await play(exchange, [bytes.subarray(0, length)]);
          assert.deepEqual(essenceOf(turn), essenceOf(complete.turn), `ended after ${length} bytes`);
        } catch (thrown) {
          if (!(thrown instanceof ProviderError)) throw thrown;
          await failsWith(malformed, play.adapter, Promise.reject(thrown));
        }
      }
    },
  };
}

function damaged(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: gives a turn or a ProviderError if its bytes are damaged`,
    async run() {
      const play = player(subject);
      const random = randomNumbers(bytesOf(exchange).length);
      for (let time = 0; time < 24; time += 1) {
        const bytes = bytesOf(exchange).slice();
        const at = Math.floor(random() * bytes.length);
        if (time % 2 === 0) bytes[at] = Math.floor(random() * 256);
        const pieces = time % 2 === 0 ? [bytes] : splitAt(bytes, [at, at + 20]).toSpliced(1, 1);
        await endOf(play, exchange, pieces);
      }
    },
  };
}

async function endOf(
  play: Play,
  exchange: Exchange,
  pieces?: readonly Uint8Array[],
): Promise<Pick<Outcome, 'turn'> | { code: string; message: string }> {
  try {
    return { turn: (await play(exchange, pieces)).turn };
  } catch (thrown) {
    if (!(thrown instanceof ProviderError)) throw thrown;
    return { code: thrown.code, message: thrown.message };
  }
}

function* lengthsBelow(length: number): Generator<number, void> {
  const step = Math.ceil(length / 60);
  for (let kept = 1; kept < length; kept += step) yield kept;
}

/** Returns the members that must be complete. Usage may arrive after everything else. */
function essenceOf({ text, toolCalls, finishReason }: Outcome['turn']): object {
  return { text, toolCalls, finishReason };
}

/** What the next request must contain of a turn, and what it must not contain. */
export function replayChecks(subject: AdapterUnderTest): AdapterCheck[] {
  const good = subject.exchanges.filter(({ fails }) => fails === undefined);
  return [
    ...good.flatMap(exchange => [
      comesBackUnchanged(subject, exchange),
      omitsForeignData(subject, exchange),
      omitsControlItems(subject, exchange),
    ]),
    ...good.slice(0, 1).map(exchange => sendsMediaOfResults(subject, exchange)),
  ];
}

function comesBackUnchanged(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: is sent back unchanged in the next request, also after a JSON round trip`,
    async run() {
      const { turn } = await play(subject, exchange);
      const body = await nextBody(subject, exchange, followUp(turn));
      const stored: Item[] = JSON.parse(JSON.stringify(followUp(turn)));
      assert.deepEqual(await nextBody(subject, exchange, stored), body);
      const texts = textsOf(body);
      for (const opaque of exchange.comesBack ?? []) {
        assert.ok(
          texts.some(text => text.includes(opaque)),
          `the next request must contain: ${opaque}`,
        );
      }
      for (const [index, call] of turn.toolCalls.entries()) {
        if (call.executedBy === 'provider') continue;
        assert.ok(
          texts.some(text => text.includes(call.name)),
          `the next request must contain the call of ${call.name}`,
        );
        assert.ok(
          texts.some(text => text.includes(outputOf(index))),
          `the next request must contain the result of ${call.name}`,
        );
      }
    },
  };
}

function omitsForeignData(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: is sent to another provider without its opaque data`,
    async run() {
      const { turn } = await play(subject, exchange);
      const foreign = followUp(turn).map(item =>
        'opaque' in item && item.opaque
          ? { ...item, opaque: { ...item.opaque, provider: 'another-provider' } }
          : item,
      );
      const texts = textsOf(await nextBody(subject, exchange, foreign));
      for (const opaque of exchange.comesBack ?? []) {
        assert.ok(!texts.some(text => text.includes(opaque)), `another provider must not receive: ${opaque}`);
      }
    },
  };
}

function omitsControlItems(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  const control: Item[] = [
    { type: 'approval_request', callId: 'x', name: 'secret', arguments: '{}' },
    { type: 'approval_response', callId: 'x', approve: true },
    { type: 'tool_list', label: 'secret', tools: [] },
  ];
  return {
    name: `${exchange.name}: control items do not change the next request`,
    async run() {
      const items = followUp((await play(subject, exchange)).turn);
      const mixed = [...control, ...items.flatMap(item => [item, ...control])];
      assert.deepEqual(await nextBody(subject, exchange, mixed), await nextBody(subject, exchange, items));
    },
  };
}

/** Base64 that occurs nowhere else. */
const PICTURE = 'Y29uZm9ybWFuY2UtcGljdHVyZQ==';
const SOUND = 'Y29uZm9ybWFuY2Utc291bmQ=';

/** Base64 inside a text costs tokens, and the model cannot read it. */
function sendsMediaOfResults(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: "sends images and files of tool results in the provider's form, or a note in their place",
    async run() {
      const parts: Part[] = [
        { type: 'text', text: 'caption-of-the-picture' },
        { type: 'image', url: `data:image/png;base64,${PICTURE}` },
        { type: 'file', url: `data:audio/wav;base64,${SOUND}`, name: 'sound.wav' },
      ];
      const texts = textsOf(
        await nextBody(subject, exchange, [
          { type: 'tool_call', callId: 'call_media', name: 'look', arguments: '{}' },
          { type: 'tool_result', callId: 'call_media', output: { type: 'content', parts }, isError: false },
          { type: 'message', role: 'user', content: [{ type: 'text', text: 'go on' }] },
        ]),
      );
      assert.ok(
        texts.some(text => text.includes('caption-of-the-picture')),
        'the next request must contain the text that the tool returned',
      );
      for (const [base64, note] of [
        [PICTURE, /image/],
        [SOUND, /sound\.wav/],
      ] as const) {
        const found = texts.filter(text => text.includes(base64));
        const isAlone = (text: string) => /^(?:data:[\w/;=.-]+,)?[\w+/]+=*$/.test(text);
        assert.ok(found.every(isAlone), 'the next request must not contain base64 within a text');
        assert.ok(
          found.length > 0 || texts.some(text => note.test(text)),
          `the next request must contain what the tool returned, or a text that matches ${note}`,
        );
      }
    },
  };
}

function followUp(turn: ModelTurn): Item[] {
  const results = turn.toolCalls
    .filter(({ executedBy }) => executedBy !== 'provider')
    .map(
      ({ callId }, index): Item => ({
        type: 'tool_result',
        callId,
        output: outputOf(index),
        isError: false,
      }),
    );
  const more: Item = { type: 'message', role: 'user', content: [{ type: 'text', text: 'go on' }] };
  return [...turn.items, ...results, more];
}

function outputOf(index: number): string {
  return `output-${index}-of-the-call`;
}

async function nextBody(
  subject: AdapterUnderTest,
  exchange: Exchange,
  items: readonly Item[],
): Promise<JsonObject> {
  const request = requestOf(exchange);
  const requests = await send(subject, exchange, {
    ...request,
    transcript: [...request.transcript, ...items],
  });
  return requests[0]?.body ?? {};
}

function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [name, ...textsOf(member)]);
}

/** An aborted call sends no request, closes its connection, and fails with `aborted`. */
export function abortChecks(subject: AdapterUnderTest): AdapterCheck[] {
  return oneOfEach(subject.exchanges).flatMap(exchange => [
    abortedBefore(subject, exchange),
    abortedWithin(subject, exchange),
  ]);
}

function oneOfEach(exchanges: readonly Exchange[]): Exchange[] {
  const good = exchanges.filter(({ fails }) => fails === undefined);
  return [true, false].flatMap(mode => good.find(({ streamed }) => streamed === mode) ?? []);
}

function modeOf({ streamed }: Exchange): string {
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
