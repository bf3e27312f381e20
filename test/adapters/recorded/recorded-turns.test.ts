import { afterAll, describe, expect, test } from 'vitest';
import { atRandom, inPiecesOf, inTwoEverywhere, oneByOne } from '../../../adapters/conformance.ts';
import { redactText } from '../../../adapters/http/redact-secrets.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { TurnDelta } from '../../../protocol/turn.ts';
import { type PlayRecorded, RECORDED_KEY, recordedPlayer } from '../../support/adapters/play-recorded.ts';
import {
  expectText,
  expectTurn,
  isStreamed,
  type RecordedTurn,
  readRecording,
  recordedTurns,
  recordingsArePresent,
} from '../../support/adapters/recordings.ts';
import { rejection, sumOf } from '../../support/adapters/requests.ts';

const SMALL_BYTES = 4_096;
const turns = recordedTurns();
const passed = new Map<string, number>();

test.skipIf(!recordingsArePresent)('the recordings cover all eleven providers', () => {
  const providers = new Set(turns.map(({ provider }) => provider));
  expect(providers.size).toBe(11);
});

describe.each(turns)('recorded turn $name', recorded => {
  test('matches its expectation, whole and however its bytes are split', async () => {
    const play = recordedPlayer(recorded);
    if (recorded.status !== 200) await expectFailure(play, recorded);
    else if (recorded.expect.error) await expectFailingStream(play, recorded);
    else await expectGoodTurn(play, recorded);
    passed.set(recorded.provider, (passed.get(recorded.provider) ?? 0) + 1);
  });
});

afterAll(() => {
  if (!recordingsArePresent) {
    process.stdout.write('\nNo recorded turns were proved: ../shared/wire is not here.\n');
    return;
  }
  const providers = [...new Set(turns.map(({ provider }) => provider))].map(provider => {
    const all = turns.filter(turn => turn.provider === provider).length;
    return `${provider} ${passed.get(provider) ?? 0}/${all}`;
  });
  const total = passed.values().reduce((sum, count) => sum + count, 0);
  process.stdout.write(
    `\nRecorded turns that passed: ${total} of ${turns.length} (${providers.join(', ')}).\n`,
  );
});

async function expectGoodTurn(play: PlayRecorded, recorded: RecordedTurn): Promise<void> {
  const { turn, deltas } = await play();
  expectTurn(turn, recorded.expect);
  if (isStreamed(recorded)) {
    expect(deltas.every(({ type }) => type !== 'turn')).toBe(true);
    expect(sumOf(deltas)).toEqual({
      text: turn.text,
      reasoning: turn.reasoning,
      calls: turn.toolCalls.map(call => [call.name, call.arguments]),
    });
  } else expect((await play(undefined, 'stream')).turn).toEqual(turn);
  const whole = JSON.stringify(turn);
  for (const pieces of splitsOf(readRecording(recorded.response), isStreamed(recorded))) {
    expect(JSON.stringify((await play(pieces)).turn)).toBe(whole);
  }
}

async function expectFailure(play: PlayRecorded, recorded: RecordedTurn): Promise<void> {
  for (const as of ['generate', 'stream'] as const) {
    const error = await rejection(play(undefined, as));
    expectError(error, recorded);
    expect(error).toMatchObject({
      status: recorded.status,
      code: CODES[recorded.case] ?? BY_STATUS[recorded.status],
      retryable: recorded.status === 429 || recorded.case === MODEL_FAILED,
      retryAfterMs: WAITS[recorded.case] ?? null,
    });
  }
}

/** The deltas before the error are shown; then the error is thrown, and there is no turn. */
async function expectFailingStream(play: PlayRecorded, recorded: RecordedTurn): Promise<void> {
  const shown: TurnDelta[] = [];
  const whole = await rejection(play(undefined, 'stream', shown));
  expectError(whole, recorded);
  expectText(sumOf(shown).text, recorded.expect.text);
  expectText(sumOf(shown).reasoning, recorded.expect.reasoningText);
  for (const pieces of splitsOf(readRecording(recorded.response), isStreamed(recorded))) {
    const error = await rejection(play(pieces));
    expect(error).toEqual(whole);
  }
}

function expectError(error: unknown, { expect: { error: expected } }: RecordedTurn): void {
  if (!(error instanceof ProviderError)) throw error;
  expect(error.message).toContain(redactText(expected?.message ?? '', []).slice(0, 400));
  expect(`${error.message} ${JSON.stringify(error)}`).not.toContain(RECORDED_KEY);
}

const BY_STATUS: Record<number, string> = {
  400: 'invalid-request',
  401: 'authentication',
  404: 'not-found',
  429: 'rate-limit',
};
/** Errors whose body is more specific than their status. */
const CODES: Record<string, string> = {
  'gemini/error-400-key': 'authentication',
  'xai/error-400-auth': 'authentication',
};
/** A rejected request that may be retried: the model wrote a call that fits no tool. */
const MODEL_FAILED = 'groq/error-400-tool-use-failed';
const WAITS: Record<string, number> = { 'azure/error-429': 0, 'gemini/error-429-retryinfo': 48_000 };

/**
 * A small recording arrives one byte at a time, and in splits that together cover every position; a large one
 * is split at random. A stream has more parser states than a body. With `EVERY_SPLIT` set, small recordings
 * are also split in two at every position, which takes a minute or two.
 */
function* splitsOf(bytes: Uint8Array, streamed: boolean): Generator<Uint8Array[], void> {
  if (bytes.length >= SMALL_BYTES) {
    yield* atRandom(bytes, { seed: bytes.length, times: 4 });
    return;
  }
  yield oneByOne(bytes);
  if (process.env.EVERY_SPLIT) yield* inTwoEverywhere(bytes);
  else yield* inPiecesOf(bytes, streamed ? 32 : 8);
}
