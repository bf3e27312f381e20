import assert from 'node:assert/strict';
import { ProviderError } from '../../protocol/error.ts';
import { bytesOf, failsWith, type Outcome, type Play, player } from './call.ts';
import type { AdapterCheck, AdapterUnderTest, Exchange } from './check.ts';
import { atRandom, inTwoEverywhere, oneByOne, randomNumbers, splitAt } from './split-bytes.ts';

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

/** Returns the outcome of a call: its turn, or its error. */
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
