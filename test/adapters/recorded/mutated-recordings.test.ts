import { describe, expect, test } from 'vitest';
import { type Random, seeded } from '../../../examples/stand-in/wire/turn.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { distort, flipBits, inPieces, shuffleBlocks } from '../../support/adapters/mutations.ts';
import { openRecorded } from '../../support/adapters/recorded-adapters.ts';
import {
  exchangeOf,
  type RecordedTurn,
  recordedTurns,
  recordingsArePresent,
} from '../../support/adapters/recordings.ts';
import { calling, collect, request } from '../../support/adapters/requests.ts';
import { expectReadFrom, expectSound, turnIn, turnOrError } from '../../support/adapters/sound-turn.ts';

/** Mutations of recordings on a bad connection. They are repeatable: the seed is the recording's index. */

const LONGEST_BYTES = 24_000;
const turns = recordedTurns('')
  .filter(({ status }) => status === 200)
  .map((turn, seed) => ({ ...turn, seed, exchange: exchangeOf(turn) }))
  .filter(({ exchange }) => exchange.response.length <= LONGEST_BYTES);

const providers = [...new Set(turns.map(turn => turn.provider))];

function read(
  turn: RecordedTurn,
  type: string,
  bytes: Uint8Array,
  random: Random,
): Promise<ModelTurn | null> {
  const adapter = openRecorded(turn, {
    model: 'recorded',
    apiKey: 'test',
    baseURL: 'http://recorded.invalid',
    maxResponseBytes: 10_000_000,
    idleTimeoutMs: 60_000,
    fetch: async () => new Response(inPieces(bytes, random), { headers: { 'content-type': type } }),
  });
  return turnOrError(collect(adapter.stream(request('hi'), calling())).then(turnIn));
}

describe.skipIf(!recordingsArePresent)('the recordings of', () => {
  test('include all eleven providers', () => {
    expect(providers).toHaveLength(11);
  });

  test.each(providers)(
    '%s: truncated, shuffled, with flipped bits and values of the wrong type',
    async provider => {
      for (const turn of turns.filter(other => other.provider === provider)) {
        const random = seeded(turn.seed);
        const { response, contentType = '' } = turn.exchange;
        const bytes = Uint8Array.from(Buffer.from(response));
        const text = new TextDecoder().decode(bytes);
        const blocks = contentType.includes('ndjson') ? text.split(/(?<=\n)/) : text.split(/(?<=\r?\n\r?\n)/);
        const whole = await read(turn, contentType, bytes, random);

        const half = bytes.slice(0, Math.floor(random() * bytes.length));
        const fromHalf = await read(turn, contentType, half, random);
        if (fromHalf !== null && whole !== null) expect(saidBy(fromHalf)).toEqual(saidBy(whole));

        const shuffled = await read(
          turn,
          contentType,
          encode(shuffleBlocks(blocks, random).join('')),
          random,
        );
        if (shuffled !== null) expectReadFrom(bytes, shuffled);

        for (const bad of [
          flipBits(bytes, random),
          encode(blocks.map(block => distort(block, random)).join('')),
        ]) {
          const fromBad = await read(turn, contentType, bad, random);
          if (fromBad !== null) expectReadFrom(bad, fromBad);
        }
        if (whole !== null) expectSound(whole);
      }
    },
  );
});

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function saidBy({ text, toolCalls, finishReason }: ModelTurn): unknown {
  return { text, finishReason, calls: toolCalls.map(call => [call.callId, call.name, call.arguments]) };
}
