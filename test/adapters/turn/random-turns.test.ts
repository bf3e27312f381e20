import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  finishReasonOf,
  type Random,
  seeded,
  type WrittenTurn,
} from '../../../examples/stand-in/wire/turn.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelTurn, Usage } from '../../../protocol/turn.ts';
import { distort, dressed, flipBits, inPieces, shuffleBlocks } from '../../support/adapters/mutations.ts';
import { DIALECTS, PROVIDERS } from '../../support/adapters/random-dialects.ts';
import { calling, collect, request, sumOf } from '../../support/adapters/requests.ts';
import { expectReadFrom, expectSound, turnIn, turnOrError } from '../../support/adapters/sound-turn.ts';
import { writtenTurn } from '../../support/adapters/written-turns.ts';
import { randomCases } from '../../support/sample.ts';

/**
 * Number of runs of a property for the first provider of a dialect; the others get a third.
 */
const RUNS = randomCases(12);
const seed = fc.integer();

describe.each([...DIALECTS, ...PROVIDERS])(
  '%s',
  (name, { connect, says, encoder, silent = [], doubles = false, inText = false }) => {
    const numRuns = DIALECTS.some(([first]) => first === name) ? RUNS : Math.ceil(RUNS / 3);
    const open = (bytes: Uint8Array, type: string, random: Random) =>
      connect({
        fetch: async () => new Response(inPieces(bytes, random), { headers: { 'content-type': type } }),
        model: 'model-1',
        apiKey: 'test',
        baseURL: 'http://provider.test',
      });
    const stream = (bytes: Uint8Array, type: string, random: Random) =>
      collect(open(bytes, type, random).stream(request('hi'), calling()));
    const generate = (bytes: Uint8Array, random: Random) =>
      open(bytes, 'application/json', random).generate(request('hi'), calling());

    test('a random turn is decoded correctly, whole and streamed in any pieces', async () => {
      await fc.assert(
        fc.asyncProperty(writtenTurn(says), encoder, seed, async (written, wire, start) => {
          const random = seeded(start);
          const blocks = dressed(wire.stream(written, random), wire.contentType, random);
          const bytes = bytesOf(blocks);
          const deltas = await stream(bytes, wire.contentType, random);
          const streamed = turnIn(deltas);
          expectWritten(streamed, written, silent);
          expect(sumOf(deltas)).toEqual({
            text: streamed.text,
            reasoning: streamed.reasoning,
            calls: streamed.toolCalls.map(call => [call.name, call.arguments]),
          });
          expect(await generate(bytesOf(wire.whole(written)), random)).toEqual(streamed);
        }),
        { numRuns },
      );
    });

    test('a stream truncated anywhere is an error or has lost nothing but its usage', async () => {
      await fc.assert(
        fc.asyncProperty(writtenTurn(says), encoder, seed, async (written, wire, start) => {
          const random = seeded(start);
          const bytes = bytesOf(wire.stream(written, random).join(''));
          const cutOff = bytes.slice(0, Math.floor(random() * bytes.length));
          const turn = await turnOrError(stream(cutOff, wire.contentType, random).then(turnIn));
          if (turn !== null) expectWritten({ ...turn, usage: null }, { ...written, usage: null }, silent);
          const whole = bytesOf(wire.whole(written));
          const half = whole.slice(0, Math.floor(random() * whole.length));
          expect(await turnOrError(generate(half, random))).toBeNull();
        }),
        { numRuns },
      );
    });

    test('lost, duplicated and reordered blocks never produce an invented call', async () => {
      await fc.assert(
        fc.asyncProperty(writtenTurn(says), encoder, seed, async (written, wire, start) => {
          const random = seeded(start);
          const blocks = shuffleBlocks(wire.stream(written, random), random);
          const bytes = bytesOf(blocks.join(''));
          const turn = await turnOrError(stream(bytes, wire.contentType, random).then(turnIn));
          if (turn === null) return;
          expectReadFrom(bytes, turn);
          if (inText) return;
          const names = written.calls.map(call => call.name);
          for (const { name } of turn.toolCalls) if (name !== '') expect(names).toContain(name);
          if (!doubles) expect(turn.toolCalls.length).toBeLessThanOrEqual(names.length);
        }),
        { numRuns },
      );
    });

    test('flipped bits and values of the wrong type produce an error or a valid turn', async () => {
      await fc.assert(
        fc.asyncProperty(writtenTurn(says), encoder, seed, async (written, wire, start) => {
          const random = seeded(start);
          const blocks = wire.stream(written, random);
          const whole = wire.whole(written);
          const bodies: [type: string, bytes: Uint8Array][] = [
            [wire.contentType, flipBits(bytesOf(blocks.join('')), random)],
            [wire.contentType, bytesOf(blocks.map(block => distort(block, random)).join(''))],
            ['application/json', flipBits(bytesOf(whole), random)],
            ['application/json', bytesOf(distort(JSON.stringify(whole), random))],
          ];
          for (const [type, bytes] of bodies) {
            const turn = await turnOrError(stream(bytes, type, random).then(turnIn));
            if (turn !== null) expectReadFrom(bytes, turn);
          }
        }),
        { numRuns },
      );
    });

    test('random bytes produce an error or a turn without calls', async () => {
      const lines = fc.array(
        fc.oneof(
          fc.jsonValue().map(value => JSON.stringify(value)),
          fc.string(),
        ),
        {
          maxLength: 6,
        },
      );
      const noise = fc.oneof(
        fc.uint8Array({ maxLength: 200 }),
        lines.map(list => bytesOf(list.map(line => `data: ${line}\n\n`).join(''))),
        lines.map(list => bytesOf(list.join('\n'))),
      );
      const type = fc.constantFrom('text/event-stream', 'application/x-ndjson', 'application/json', '');
      await fc.assert(
        fc.asyncProperty(noise, type, seed, async (bytes, contentType, start) => {
          const turn = await turnOrError(stream(bytes, contentType, seeded(start)).then(turnIn));
          expect(turn?.toolCalls ?? []).toEqual([]);
        }),
        { numRuns },
      );
    });
  },
);

function bytesOf(body: string | JsonObject): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body));
}

function expectWritten(turn: ModelTurn, written: WrittenTurn, silent: readonly (keyof Usage)[]): void {
  expectSound(turn);
  expect({
    text: turn.text,
    reasoning: turn.reasoning,
    calls: turn.toolCalls.map(({ name, input, executedBy }) => ({ name, input, executedBy })),
    finishReason: turn.finishReason,
    usage: turn.usage,
  }).toEqual({
    text: written.text,
    reasoning: written.reasoning,
    calls: written.calls.map(call => ({
      name: call.name,
      input: JSON.parse(call.arguments),
      executedBy: 'engine',
    })),
    finishReason: finishReasonOf(written),
    usage: usageOf(written, silent),
  });
  for (const [index, { id }] of written.calls.entries()) {
    if (id !== undefined) expect(turn.toolCalls[index]?.callId).toBe(id);
  }
}

function usageOf({ usage }: WrittenTurn, silent: readonly (keyof Usage)[]): Usage | null {
  if (usage === null) return null;
  const reported: Usage = {
    inputTokens: usage.input,
    outputTokens: usage.output,
    cachedInputTokens: usage.cached,
    cacheWriteTokens: 0,
    reasoningTokens: usage.reasoning,
  };
  return { ...reported, ...Object.fromEntries(silent.map(count => [count, null])) };
}
