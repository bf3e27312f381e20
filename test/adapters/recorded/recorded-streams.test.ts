import { describe, expect, test } from 'vitest';
import { inTwoEverywhere } from '../../../adapters/conformance.ts';
import { readNdjson, readSse } from '../../../adapters/http/read-sse.ts';
import { recordedPlayer } from '../../support/adapters/play-recorded.ts';
import {
  isStreamed,
  type RecordedTurn,
  readRecording,
  recordedTurns,
  recordingsArePresent,
} from '../../support/adapters/recordings.ts';
import { collect } from '../../support/adapters/requests.ts';
import { sampledByKind } from '../../support/sample.ts';

const SMALL_BYTES = 4_096;
const MALFORMED = { name: 'ProviderError', code: 'malformed-stream', retryable: true };
const turns = recordedTurns();

test.skipIf(!recordingsArePresent)('recorded streams are available', () => {
  expect(turns.some(isStreamed)).toBe(true);
});

/** `npm test` takes a sixth of the recordings of each provider. */
const small = sampledByKind(turns.filter(isStreamed).filter(isSmall), 6, ({ provider }) => provider);

describe.each(small)('recorded stream $name', recorded => {
  test('yields the same events when split in two at any position', async () => {
    const bytes = readRecording(recorded.response);
    const read = recorded.response.endsWith('.sse') ? readSse : readNdjson;
    const eventsOf = async (pieces: readonly Uint8Array[]) =>
      JSON.stringify((await collect(read(oneAfterAnother(pieces)))).flat());
    const whole = await eventsOf([bytes]);
    for (const pieces of inTwoEverywhere(bytes)) expect(await eventsOf(pieces)).toBe(whole);
  });
});

describe.each(turns.filter(({ expect: { error, outcome } }) => !error && !outcome).filter(isStreamed))(
  'recorded stream $name',
  recorded => {
    test('is malformed if it ends between two events before the turn is complete', async () => {
      const play = recordedPlayer(recorded);
      const { text, toolCalls, finishReason } = (await play()).turn;
      const bytes = readRecording(recorded.response);
      for (const end of endsOfEvents(bytes)) {
        const played = await play([bytes.subarray(0, end)]).catch((thrown: unknown) => thrown);
        if (played instanceof Error) expect(played).toMatchObject(MALFORMED);
        else expect(played).toMatchObject({ turn: { text, toolCalls, finishReason } });
        if (end === 0) expect(played).toMatchObject(MALFORMED);
      }
    });
  },
);

const remembered = turns.filter(({ expect: { responseId } }) => responseId !== undefined);

describe.each(remembered.filter(({ expect: { error } }) => !error))('recorded response $name', recorded => {
  test("is continued by its id if the provider keeps it, including the provider's own tool calls", async () => {
    const { turn } = await recordedPlayer(recorded)();
    const forgotten = recorded.provider === 'deepseek' || /"store": ?false/.test(textOf(recorded));
    const ended = recorded.expect.finishReason !== 'length';
    expect(turn.continuation).toBe(forgotten || !ended ? undefined : recorded.expect.responseId);
    const ran = turn.items.filter(item => item.type === 'provider_item').map(({ kind }) => kind);
    expect(ran).toEqual(recorded.expect.serverBlocks ?? []);
  });
});

function isSmall({ response }: RecordedTurn): boolean {
  return readRecording(response).length < SMALL_BYTES;
}

async function* oneAfterAnother(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

/** About ten of the positions between two events, including the start. */
function endsOfEvents(bytes: Buffer): number[] {
  const ends = [0];
  const mark = bytes.includes('\n\n') ? '\n\n' : '\n';
  for (
    let at = bytes.indexOf(mark);
    at !== -1 && at + mark.length < bytes.length;
    at = bytes.indexOf(mark, at + 1)
  ) {
    ends.push(at + mark.length);
  }
  const step = Math.ceil(ends.length / 10);
  return ends.filter((_, place) => place % step === 0 || place > ends.length - 3);
}

function textOf({ response }: RecordedTurn): string {
  return readRecording(response).toString('utf8');
}
