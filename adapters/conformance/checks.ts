import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { ProviderError, type ProviderErrorDetails } from '../../protocol/error.ts';
import type { Item, Part } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelTurn } from '../../protocol/turn.ts';
import { ShownDeltas } from '../turn/turn-deltas.ts';
import {
  type AdapterCheck,
  type AdapterUnderTest,
  API_KEY,
  answerOf,
  bytesOf,
  call,
  deepTexts,
  type Exchange,
  failsWith,
  halfOf,
  opened,
  play,
  player,
  requestFor,
  soon,
  WIDE,
} from './call.ts';
import { growthChecks } from './growth.ts';
import {
  atRandom,
  eachInTurn,
  inTwoEverywhere,
  type ReplayedAnswer,
  randomNumbers,
  splitAt,
  startReplayServer,
} from './replay.ts';

export function allChecks(subject: AdapterUnderTest): AdapterCheck[] {
  const good = subject.exchanges.filter(({ fails }) => fails === undefined);
  const modes = [true, false].flatMap(mode => good.find(({ streamed }) => streamed === mode) ?? []);
  return [
    ...good.flatMap(exchange => turnChecks(subject, exchange)),
    ...subject.exchanges.flatMap(exchange => splitChecks(subject, exchange)),
    ...good.flatMap(exchange => replayChecks(subject, exchange)),
    ...good.slice(0, 1).map(exchange => mediaCheck(subject, exchange)),
    ...growthChecks(subject),
    ...modes.flatMap(exchange => abortChecks(subject, exchange)),
    ...modes.flatMap(exchange => failureChecks(subject, exchange)),
    ...subject.exchanges.flatMap(exchange => expectedFailure(subject, exchange)),
    ...serverlessChecks(subject, modes),
    ...modes.flatMap(exchange => limitChecks(subject, exchange)),
  ];
}

function check(name: string, run: () => Promise<void>): AdapterCheck {
  return { name, run };
}

function hasText(texts: readonly string[], part: string, what: string): void {
  assert.ok(
    texts.some(text => text.includes(part)),
    `the next request must contain ${what}`,
  );
}

function turnChecks(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck[] {
  const { name, expect, streamed, sameTurnAs } = exchange;
  const turnIn = async (played: Exchange) => (await play(subject, played)).turn;
  const callIds = async () => (await turnIn(exchange)).toolCalls.map(({ callId }) => callId);
  const checks: AdapterCheck[] = [];
  if (expect !== undefined) {
    checks.push(
      check(`${name}: gives the expected turn`, async () => {
        const turn = await turnIn(exchange);
        const members = Object.keys(expect).map(member => [member, turn[member as keyof ModelTurn]]);
        assert.deepEqual(Object.fromEntries(members), expect);
      }),
    );
  }
  if (streamed) {
    checks.push(
      check(`${name}: ends with one turn, which its deltas add up to`, async () => {
        const { turn, deltas } = await play(subject, exchange);
        const isSingle = deltas.every(delta => delta.type !== 'turn');
        assert.ok(isSingle, 'the stream contained more than one turn');
        const shown = new ShownDeltas();
        for (const delta of deltas) shown.record(delta);
        const { text, reasoning } = turn;
        const calls = turn.toolCalls.map(call => ({ name: call.name, arguments: call.arguments }));
        assert.deepEqual({ ...shown }, { text, reasoning, calls });
      }),
    );
  }
  if (sameTurnAs !== undefined) {
    const other = subject.exchanges.find(({ name: named }) => named === sameTurnAs);
    if (other === undefined) throw new RangeError(`sameTurnAs names an unknown exchange: "${sameTurnAs}".`);
    checks.push(
      check(`${name}: gives the same turn as ${other.name}`, async () => {
        assert.deepEqual(await turnIn(exchange), await turnIn(other));
      }),
    );
  }
  return [
    ...checks,
    check(`${name}: gives a turn of plain JSON whose items include its text and calls`, async () => {
      const turn = await turnIn(exchange);
      assert.deepEqual(JSON.parse(JSON.stringify(turn)), turn);
      assert.equal(turn.items.map(textOf).join(''), turn.text);
      const inItems = turn.items.flatMap(item => (item.type === 'tool_call' ? item.callId : []));
      const asked = turn.toolCalls.flatMap(call => (call.executedBy === 'provider' ? [] : call.callId));
      assert.deepEqual(inItems, asked);
    }),
    check(`${name}: reports usage as its adapter declares`, async () => {
      const { usage } = opened(subject, answerOf(exchange)).adapter.capabilities;
      const turn = await turnIn(exchange);
      if (usage !== 'unknown') assert.equal(turn.usage !== null, usage, 'capabilities.usage');
    }),
    check(`${name}: gives each call its own id, and the same one when requested again`, async () => {
      const ids = await callIds();
      assert.equal(new Set(ids).size, ids.length, `these ids are not unique: ${ids.join(', ')}`);
      assert.ok(!ids.includes(''), 'a call has an empty id');
      assert.deepEqual(await callIds(), ids);
    }),
    check(`${name}: sends one request, and the same one when requested again`, async () => {
      const first = opened(subject, answerOf(exchange));
      await call(first.adapter, exchange);
      assert.equal(first.requests.length, 1);
      const both = opened(subject, answerOf(exchange));
      await call(both.adapter, exchange);
      await call(both.adapter, exchange);
      const body = first.requests[0]?.body;
      const bodies = both.requests.map(request => request.body);
      assert.deepEqual(bodies, [body, body]);
    }),
  ];
}

const SMALL_BYTES = 4_096;

/** A turn does not depend on how its bytes are split. An incomplete response is never accepted as a turn. */
function splitChecks(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck[] {
  const bytes = bytesOf(exchange);
  const { name } = exchange;
  const sameHowever = (how: string, splits: () => Iterable<readonly Uint8Array[]>) =>
    check(`${name}: gives the same ${how}`, async () => {
      const end = endsOf(subject, exchange);
      const complete = await end();
      for (const pieces of splits()) {
        assert.deepEqual(
          await end(pieces),
          complete,
          `cut at ${pieces.map(piece => piece.byteOffset).join(', ')}`,
        );
      }
    });
  const checks = [sameHowever('one byte at a time', () => [eachInTurn(bytes)])];
  if (bytes.length < SMALL_BYTES)
    checks.push(sameHowever('in two at every position', () => inTwoEverywhere(bytes)));
  checks.push(
    sameHowever('split at random positions', () => atRandom(bytes, { seed: bytes.length, times: 16 })),
  );
  if (exchange.streamed && exchange.fails === undefined) {
    checks.push(
      check(`${name}: is malformed wherever it is cut off`, async () => {
        const play = player(subject);
        const complete = await play(exchange);
        await failsWith(MALFORMED, play.adapter, play(exchange, []));
        for (let kept = 1; kept < bytes.length; kept += Math.ceil(bytes.length / 60)) {
          try {
            const { turn } = await play(exchange, [bytes.subarray(0, kept)]);
            assert.deepEqual(essenceOf(turn), essenceOf(complete.turn), `ended after ${kept} bytes`);
          } catch (thrown) {
            if (!(thrown instanceof ProviderError)) throw thrown;
            await failsWith(MALFORMED, play.adapter, Promise.reject(thrown));
          }
        }
      }),
    );
  }
  return [
    ...checks,
    check(`${name}: gives a turn or a ProviderError if its bytes are damaged`, async () => {
      const end = endsOf(subject, exchange);
      const random = randomNumbers(bytes.length);
      for (let time = 0; time < 24; time += 1) {
        const damaged = bytes.slice();
        const at = Math.floor(random() * bytes.length);
        if (time % 2 === 0) damaged[at] = Math.floor(random() * 256);
        await end(time % 2 === 0 ? [damaged] : splitAt(damaged, [at, at + 20]).toSpliced(1, 1));
      }
    }),
  ];
}

function endsOf(subject: AdapterUnderTest, exchange: Exchange) {
  const play = player(subject);
  return async (pieces?: readonly Uint8Array[]): Promise<object> => {
    try {
      return { turn: (await play(exchange, pieces)).turn };
    } catch (thrown) {
      if (!(thrown instanceof ProviderError)) throw thrown;
      return { code: thrown.code, message: thrown.message };
    }
  };
}

/** Returns the members that must be complete. Usage may arrive after everything else. */
function essenceOf({ text, toolCalls, finishReason }: ModelTurn): object {
  return { text, toolCalls, finishReason };
}

function replayChecks(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck[] {
  const { name, comesBack = [] } = exchange;
  const turnOf = async () => (await play(subject, exchange)).turn;
  return [
    check(`${name}: is sent back unchanged in the next request, also after a JSON round trip`, async () => {
      const turn = await turnOf();
      const body = await nextBody(subject, exchange, followUp(turn));
      const stored: Item[] = JSON.parse(JSON.stringify(followUp(turn)));
      assert.deepEqual(await nextBody(subject, exchange, stored), body);
      const texts = deepTexts(body);
      for (const opaque of comesBack) hasText(texts, opaque, `"${opaque}"`);
      for (const [index, call] of turn.toolCalls.entries()) {
        if (call.executedBy === 'provider') continue;
        hasText(texts, call.name, `the call of ${call.name}`);
        hasText(texts, outputOf(index), `the result of ${call.name}`);
      }
    }),
    check(`${name}: is sent to another provider without its opaque data`, async () => {
      const foreign = followUp(await turnOf()).map(item =>
        'opaque' in item && item.opaque
          ? { ...item, opaque: { ...item.opaque, provider: 'another-provider' } }
          : item,
      );
      const texts = deepTexts(await nextBody(subject, exchange, foreign));
      for (const opaque of comesBack) {
        assert.ok(!texts.some(text => text.includes(opaque)), `another provider must not receive: ${opaque}`);
      }
    }),
    check(`${name}: control items do not change the next request`, async () => {
      const items = followUp(await turnOf());
      const mixed = [...CONTROL, ...items.flatMap(item => [item, ...CONTROL])];
      assert.deepEqual(await nextBody(subject, exchange, mixed), await nextBody(subject, exchange, items));
    }),
  ];
}

const CONTROL: readonly Item[] = [
  { type: 'approval_request', callId: 'x', name: 'secret', arguments: '{}' },
  { type: 'approval_response', callId: 'x', approve: true },
  { type: 'tool_list', label: 'secret', tools: [] },
];

/** Base64 that occurs nowhere else, and what a note in its place must match. */
const PICTURE = 'Y29uZm9ybWFuY2UtcGljdHVyZQ==';
const SOUND = 'Y29uZm9ybWFuY2Utc291bmQ=';
const NOTES: readonly (readonly [base64: string, note: RegExp])[] = [
  [PICTURE, /image/],
  [SOUND, /sound\.wav/],
];

/** Base64 inside a text costs tokens, and the model cannot read it. */
function mediaCheck(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  const name = "sends images and files of tool results in the provider's form, or a note in their place";
  return check(name, async () => {
    const parts: Part[] = [
      { type: 'text', text: 'caption-of-the-picture' },
      { type: 'image', url: `data:image/png;base64,${PICTURE}` },
      { type: 'file', url: `data:audio/wav;base64,${SOUND}`, name: 'sound.wav' },
    ];
    const body = await nextBody(subject, exchange, [
      { type: 'tool_call', callId: 'call_media', name: 'look', arguments: '{}' },
      { type: 'tool_result', callId: 'call_media', output: { type: 'content', parts }, isError: false },
      GO_ON,
    ]);
    const texts = deepTexts(body);
    hasText(texts, 'caption-of-the-picture', 'the text that the tool returned');
    for (const [base64, note] of NOTES) {
      const found = texts.filter(text => text.includes(base64));
      const isAlone = (text: string) => /^(?:data:[\w/;=.-]+,)?[\w+/]+=*$/.test(text);
      assert.ok(found.every(isAlone), 'the next request must not contain base64 within a text');
      assert.ok(
        found.length > 0 || texts.some(text => note.test(text)),
        `the next request must contain what the tool returned, or a text that matches ${note}`,
      );
    }
  });
}

const GO_ON: Item = { type: 'message', role: 'user', content: [{ type: 'text', text: 'go on' }] };

function followUp(turn: ModelTurn): Item[] {
  const asked = turn.toolCalls.filter(({ executedBy }) => executedBy !== 'provider');
  const results = asked.map(
    ({ callId }, at): Item => ({ type: 'tool_result', callId, output: outputOf(at), isError: false }),
  );
  return [...turn.items, ...results, GO_ON];
}

function outputOf(index: number): string {
  return `output-${index}-of-the-call`;
}

async function nextBody(
  subject: AdapterUnderTest,
  exchange: Exchange,
  items: readonly Item[],
): Promise<JsonObject> {
  const request = requestFor(exchange);
  const { adapter, requests } = opened(subject, answerOf(exchange));
  await call(adapter, exchange, { request: { ...request, transcript: [...request.transcript, ...items] } });
  return requests[0]?.body ?? {};
}

function modeOf({ streamed }: Exchange): string {
  return streamed ? 'a stream' : 'a response';
}

/** An aborted call sends no request, closes its connection, and fails with `aborted`. */
function abortChecks(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck[] {
  const aborted = { code: 'aborted', retryable: false } as const;
  return [
    check(`${modeOf(exchange)} that is aborted before it starts sends no request`, async () => {
      const { adapter, requests } = opened(subject, answerOf(exchange));
      const signal = AbortSignal.abort(new Error(`over, ${API_KEY}`));
      await failsWith(aborted, adapter, call(adapter, exchange, { signal }));
      assert.equal(requests.length, 0);
    }),
    check(`${modeOf(exchange)} that is aborted midway closes its connection`, async () => {
      await using server = await startReplayServer();
      const never = Promise.withResolvers<void>();
      server.answer({ ...answerOf(exchange, [halfOf(exchange)]), end: never.promise });
      const adapter = subject.open({ ...WIDE, baseURL: server.baseURL });
      const controller = new AbortController();
      const { signal } = controller;
      const failed = failsWith(aborted, adapter, call(adapter, exchange, { signal }));
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
    }),
  ];
}

const JSON_HEADERS = { 'content-type': 'application/json' };
const HTML: Pick<ReplayedAnswer, 'headers' | 'chunks'> = {
  headers: { 'content-type': 'text/html; charset=utf-8' },
  chunks: ['<!doctype html><html><head><title>Hold on</title></head><body>Try later</body></html>'],
};
const MALFORMED = { code: 'malformed-stream', retryable: true } as const;
const LOST = { code: 'network', status: null, retryable: true } as const;

/** An error body in the most common form, which repeats the API key, as some providers do. */
function errorBody(type: string): string {
  return JSON.stringify({ error: { message: `it broke, said ${API_KEY}`, type, code: null, param: null } });
}

type Failure = [name: string, answer: ReplayedAnswer, error: Partial<ProviderErrorDetails>];

const FAILURES: readonly Failure[] = [
  [
    'a status of 401 is an authentication error',
    { status: 401, headers: JSON_HEADERS, chunks: [errorBody('invalid_request_error')] },
    { code: 'authentication', status: 401, retryable: false },
  ],
  [
    'a status of 429 is a rate limit, with the wait in ms',
    { status: 429, headers: { ...JSON_HEADERS, 'retry-after': '7' }, chunks: [errorBody('requests')] },
    { code: 'rate-limit', status: 429, retryable: true, retryAfterMs: 7_000 },
  ],
  [
    'a status of 500 is retryable',
    { status: 500, headers: JSON_HEADERS, chunks: [errorBody('server_error')] },
    { code: 'server', status: 500, retryable: true, retryAfterMs: null },
  ],
  [
    'an HTML page with a status of 502 is retryable',
    { status: 502, ...HTML },
    { code: 'server', status: 502, retryable: true },
  ],
  ['an HTML page is malformed', HTML, MALFORMED],
  ['JSON that ends early is malformed', { headers: JSON_HEADERS, chunks: ['{"id":"1","cho'] }, MALFORMED],
  ['an empty body is malformed', { headers: JSON_HEADERS, chunks: [] }, MALFORMED],
  [
    'an error body with a status of 200 is an error',
    { headers: JSON_HEADERS, chunks: [errorBody('server_error')] },
    { code: 'server', retryable: true },
  ],
];

/** Every failure is a `ProviderError` with its code, after one request, without the API key. */
function failureChecks(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck[] {
  const mode = modeOf(exchange);
  return [
    ...FAILURES.map(([name, answer, error]) =>
      check(`${name} (${mode})`, async () => {
        const { adapter, requests } = opened(subject, answer);
        await failsWith(error, adapter, call(adapter, exchange));
        assert.equal(requests.length, 1, 'a failed call must not be repeated');
      }),
    ),
    check(`a connection that breaks midway is a network error (${mode})`, async () => {
      await using server = await startReplayServer();
      server.answer({ ...answerOf(exchange, [halfOf(exchange)]), cut: true });
      const adapter = subject.open({ ...WIDE, baseURL: server.baseURL });
      await failsWith(LOST, adapter, call(adapter, exchange));
    }),
    check(`a body that is not JSON is malformed (${mode})`, async () => {
      const play = player(subject);
      await failsWith(MALFORMED, play.adapter, play({ ...exchange, response: 'data: {"id":"1","cho\n\n' }));
    }),
  ];
}

function expectedFailure(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck[] {
  const { name, fails } = exchange;
  if (fails === undefined) return [];
  const play = player(subject);
  return [
    check(`${name}: fails with the expected error`, () => failsWith(fails, play.adapter, play(exchange))),
  ];
}

function serverlessChecks(subject: AdapterUnderTest, modes: readonly Exchange[]): AdapterCheck[] {
  const sendsNothing = async (options: { apiKey?: string; baseURL?: string }, error: Failure[2]) => {
    for (const exchange of modes) {
      const { adapter, requests } = opened(subject, answerOf(exchange), options);
      await failsWith(error, adapter, call(adapter, exchange));
      assert.equal(requests.length, 0);
    }
  };
  return [
    check('an unreachable server is a network error', async () => {
      const server = await startReplayServer();
      await server[Symbol.asyncDispose]();
      const adapter = subject.open({ ...WIDE, baseURL: server.baseURL });
      for (const exchange of modes) await failsWith(LOST, adapter, call(adapter, exchange));
    }),
    check('without a key no request is sent', () =>
      sendsNothing({ apiKey: '' }, { code: 'key-missing', retryable: false }),
    ),
    check('with an invalid base URL no request is sent', () =>
      sendsNothing({ baseURL: 'not a url' }, { code: 'base-url-invalid', retryable: false }),
    ),
  ];
}

function limitChecks(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck[] {
  const mode = modeOf(exchange);
  return [
    check(`${mode} with more bytes than allowed is aborted`, async () => {
      const maxResponseBytes = halfOf(exchange).length;
      const { adapter, requests } = opened(subject, answerOf(exchange), { maxResponseBytes });
      await failsWith({ code: 'response-too-large', retryable: false }, adapter, call(adapter, exchange));
      assert.equal(requests.length, 1);
    }),
    check(`${mode} that stalls is aborted, and its connection closed`, async () => {
      const never = Promise.withResolvers<void>();
      const stalling = { ...answerOf(exchange, [halfOf(exchange)]), end: never.promise };
      const { adapter, requests } = opened(subject, stalling, { idleTimeoutMs: 20 });
      const failed = failsWith({ code: 'timeout', retryable: true }, adapter, call(adapter, exchange));
      await soon(failed, 'the call must fail');
      await soon(requests[0]?.closed ?? Promise.reject(), 'the connection must close');
      never.resolve();
    }),
    check(`${mode} with compression gives the same turn`, async () => {
      await using server = await startReplayServer();
      const { headers } = answerOf(exchange);
      const chunks = [gzipSync(bytesOf(exchange))];
      server.answer({ headers: { ...headers, 'content-encoding': 'gzip' }, chunks });
      const { turn } = await call(subject.open({ ...WIDE, baseURL: server.baseURL }), exchange);
      assert.deepEqual(turn, (await play(subject, exchange)).turn);
    }),
  ];
}
