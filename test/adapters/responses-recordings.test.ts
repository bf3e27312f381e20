import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openaiResponses } from '../../adapters/openai-responses.ts';
import type { ProviderError } from '../../protocol/error.ts';
import type { ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import {
  expectTurn,
  type RecordedTurn,
  readRecording,
  recordedTurns,
  recordingsArePresent,
} from './recordings.ts';
import { type ReplayServer, splittingFetch, startReplayServer } from './replay-server.ts';
import { calling, collect, rejection, request, sumOf } from './requests.ts';

const turns = recordedTurns('openai-responses/');
const streams = turns.filter(turn => turn.response.endsWith('.sse') && turn.expect.finishReason !== 'error');
const bodies = turns.filter(turn => turn.response.endsWith('.json') && turn.status === 200);
const failures = turns.filter(turn => turn.status !== 200);

let server: ReplayServer;
beforeAll(async () => {
  server = await startReplayServer();
});
afterAll(() => server[Symbol.asyncDispose]());

test.skipIf(!recordingsArePresent)('there are recordings of streams, responses and errors', () => {
  expect([streams, bodies, failures].every(kind => kind.length > 2)).toBe(true);
});

function adapter(fetch?: typeof globalThis.fetch) {
  return openaiResponses({
    model: 'gpt-5',
    apiKey: 'invalid-key',
    baseURL: server.baseURL,
    ...(fetch ? { fetch } : {}),
  });
}

function serve(
  turn: RecordedTurn,
  chunks: readonly (string | Uint8Array)[] = [readRecording(turn.response)],
): void {
  const type = turn.response.endsWith('.sse') ? 'text/event-stream' : 'application/json';
  server.answer({ status: turn.status, headers: { 'content-type': type, ...turn.headers }, chunks });
}

async function stream(fetch?: typeof globalThis.fetch): Promise<{ turn: ModelTurn; deltas: TurnDelta[] }> {
  const deltas = await collect(adapter(fetch).stream(request('hi'), calling()));
  const last = deltas.pop();
  if (last?.type !== 'turn') throw new Error('Expected the stream to end with a turn.');
  return { turn: last.turn, deltas };
}

describe.each(streams)('recorded stream $name', recorded => {
  test('gives the expected turn, and deltas that add up to it', async () => {
    serve(recorded);
    const { turn, deltas } = await stream();
    expectTurn(turn, recorded.expect);
    expect(deltas.every(delta => delta.type !== 'turn')).toBe(true);
    expect(sumOf(deltas)).toEqual({
      text: turn.text,
      reasoning: turn.reasoning,
      calls: turn.toolCalls.map(call => [call.name, call.arguments]),
    });
    expect(turn.continuation).toBe(
      server.requests[0]?.body.store === false || storeOff(recorded) ? undefined : recorded.expect.responseId,
    );
    expect(turn.items.filter(item => item.type === 'provider_item').map(item => item.kind)).toEqual(
      recorded.expect.serverBlocks ?? [],
    );
  });

  test('gives the same turn byte by byte', async () => {
    serve(recorded);
    const whole = await stream();
    const split = await stream(
      splittingFetch(bytes =>
        bytes
          .keys()
          .map(at => bytes.subarray(at, at + 1))
          .toArray(),
      ),
    );
    expect(split).toEqual(whole);
  });

  test('gives the same turn split at random places on the wire', async () => {
    const bytes = readRecording(recorded.response);
    serve(recorded);
    const whole = await stream();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 12 }), async cuts => {
        const ends = [...cuts, bytes.length].toSorted((a, b) => a - b);
        serve(
          recorded,
          ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end)).filter(part => part.length > 0),
        );
        expect(await stream()).toEqual(whole);
      }),
      { numRuns: 5 },
    );
  });

  test('is a truncated stream wherever it ends before its terminal event', async () => {
    const blocks = readRecording(recorded.response).toString('utf8').trim().split('\n\n');
    const terminal = blocks.findIndex(block => block.includes('"type":"response.completed"'));
    expect(terminal).toBe(blocks.length - 1);
    for (let kept = 0; kept < terminal; kept += 1) {
      serve(
        recorded,
        [
          blocks
            .slice(0, kept)
            .map(block => `${block}\n\n`)
            .join(''),
        ].filter(text => text !== ''),
      );
      const error = await rejection(stream());
      expect(error).toMatchObject({ name: 'ProviderError', code: 'malformed-stream', retryable: true });
      expect((error as ProviderError).message).toContain('truncated stream');
    }
  });
});

function storeOff(recorded: RecordedTurn): boolean {
  return /"store":\s*false/.test(readRecording(recorded.response).toString('utf8'));
}

describe.each(bodies)('recorded response $name', recorded => {
  test('gives the expected turn, also where a stream was asked for', async () => {
    serve(recorded);
    const turn = await adapter().generate(request('hi'), calling());
    expectTurn(turn, recorded.expect);
    expect(turn.items.filter(item => item.type === 'provider_item').map(item => item.kind)).toEqual(
      recorded.expect.serverBlocks ?? [],
    );
    expect((await stream()).turn).toEqual(turn);
  });
});

describe.each(failures)('recorded error $name', recorded => {
  test('is a ProviderError with its status, never with the key', async () => {
    serve(recorded);
    for (const call of [adapter().generate(request('hi'), calling()), stream()]) {
      const error = (await rejection(call)) as ProviderError;
      expect(error).toMatchObject({
        name: 'ProviderError',
        status: recorded.status,
        code: recorded.status === 401 ? 'authentication' : 'invalid-request',
        retryable: false,
        provider: 'openai-responses',
        model: 'gpt-5',
      });
      expect(`${error.message} ${JSON.stringify(error)}`).not.toContain('invalid-key');
    }
  });
});

describe.each(turns.filter(turn => turn.expect.finishReason === 'error'))(
  'recorded failing stream $name',
  recorded => {
    test('is a quota error that is not retried', async () => {
      serve(recorded);
      const error = await rejection(stream());
      expect(error).toMatchObject({ name: 'ProviderError', code: 'quota', retryable: false });
      expect((error as ProviderError).message).toContain('exceeded your current quota');
    });
  },
);
