import fc from 'fast-check';
import { expect, test } from 'vitest';
import { gemini } from '../../../adapters/gemini.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { calling, collect, request, sumOf } from '../../support/adapters/requests.ts';

function answering(body: string | Uint8Array<ArrayBuffer>, type: string) {
  return gemini({
    model: 'gemini-3-flash',
    apiKey: 'test',
    baseURL: 'http://provider.test',
    fetch: async () => new Response(body, { headers: { 'content-type': type } }),
  });
}

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 });
const key = text.filter(name => name !== '__proto__');
const signature = fc.option(fc.base64String({ minLength: 4, maxLength: 8 }), { nil: undefined });
const scalar = fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null));
const { value } = fc.letrec<{ value: JsonValue }>(tie => ({
  value: fc.oneof(
    { maxDepth: 3 },
    scalar,
    fc.array(tie('value'), { minLength: 1, maxLength: 3 }),
    fc.dictionary(key, tie('value'), { minKeys: 1, maxKeys: 3, noNullPrototype: true }),
  ),
}));
const args = fc.dictionary(key, value, { maxKeys: 3, noNullPrototype: true });

type Said = { type: 'text' | 'thought'; pieces: string[] } | { type: 'call'; args: JsonObject; cut: boolean };
const said: fc.Arbitrary<Said & { thoughtSignature: string | undefined }> = fc.oneof(
  fc.record({
    type: fc.constantFrom('text' as const, 'thought' as const),
    pieces: fc.array(text, { minLength: 1, maxLength: 4 }),
    thoughtSignature: signature,
  }),
  fc.record({ type: fc.constant('call' as const), args, cut: fc.boolean(), thoughtSignature: signature }),
);

/** The part as it appears in a whole response. */
function wholeParts(one: Said & { thoughtSignature: string | undefined }): JsonObject[] {
  const more: JsonObject = one.thoughtSignature ? { thoughtSignature: one.thoughtSignature } : {};
  if (one.type === 'call') return [{ functionCall: { name: 'tool', args: one.args }, ...more }];
  const thought: JsonObject = one.type === 'thought' ? { thought: true } : {};
  return [
    { text: one.pieces.join(''), ...thought },
    { text: '', ...thought, ...more },
  ];
}

/** The same parts in a stream: texts in pieces, and arguments too if they are split. */
function streamedParts(one: Said & { thoughtSignature: string | undefined }): JsonObject[] {
  const more: JsonObject = one.thoughtSignature ? { thoughtSignature: one.thoughtSignature } : {};
  if (one.type !== 'call') {
    const thought: JsonObject = one.type === 'thought' ? { thought: true } : {};
    return [...one.pieces.map(piece => ({ text: piece, ...thought })), { text: '', ...thought, ...more }];
  }
  if (!one.cut) return wholeParts(one);
  return [
    { functionCall: { name: 'tool', willContinue: true }, ...more },
    ...piecesOf(one.args, '$').map(piece => ({ functionCall: { partialArgs: [piece], willContinue: true } })),
    { functionCall: {} },
  ];
}

function piecesOf(value: JsonValue, jsonPath: string): JsonObject[] {
  if (value === null) return [{ jsonPath, nullValue: 'NULL_VALUE' }];
  if (typeof value === 'number') return [{ jsonPath, numberValue: value }];
  if (typeof value === 'boolean') return [{ jsonPath, boolValue: value }];
  if (typeof value === 'string') {
    return [
      { jsonPath, stringValue: value.slice(0, 2), willContinue: true },
      { jsonPath, stringValue: value.slice(2) },
    ];
  }
  if (Array.isArray(value)) return value.flatMap((entry, at) => piecesOf(entry, `${jsonPath}[${at}]`));
  return Object.entries(value).flatMap(([name, member]) =>
    piecesOf(member, `${jsonPath}["${name.replace(/[\\"]/g, '\\$&')}"]`),
  );
}

test('a random turn is the same turn, streamed in pieces or whole', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(said, { maxLength: 6 }), async turn => {
      const end = { finishReason: 'STOP' };
      const body = { candidates: [{ content: { parts: turn.flatMap(wholeParts) }, ...end }] };
      const whole = await answering(JSON.stringify(body), 'application/json').generate(
        request('hi'),
        calling(),
      );
      const events = turn
        .flatMap(streamedParts)
        .map((part): JsonObject => ({ candidates: [{ content: { parts: [part] } }] }));
      const stream = [...events, { candidates: [end] }]
        .map(event => `data: ${JSON.stringify(event)}\n\n`)
        .join('');
      const deltas = await collect(answering(stream, 'text/event-stream').stream(request('hi'), calling()));
      const last = deltas.pop();
      expect(last).toEqual({ type: 'turn', turn: whole });
      expect(whole.toolCalls.map(call => call.input)).toEqual(
        turn.flatMap(one => (one.type === 'call' ? [one.args] : [])),
      );
      expect(sumOf(deltas)).toEqual({
        text: whole.text,
        reasoning: whole.reasoning,
        calls: whole.toolCalls.map(call => [call.name, call.arguments]),
      });
    }),
    { numRuns: 100 },
  );
});

test('random bytes produce a turn without calls or a ProviderError', async () => {
  const noise = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.json().map(json => new TextEncoder().encode(`data: ${json}\n\n`)),
  );
  await fc.assert(
    fc.asyncProperty(noise, fc.constantFrom('text/event-stream', 'application/json'), async (bytes, type) => {
      const adapter = answering(new Uint8Array(bytes), type);
      const outcome: ModelTurn | unknown = await adapter
        .generate(request('hi'), calling())
        .catch((error: unknown) => error);
      if (outcome instanceof Error) expect(outcome).toBeInstanceOf(ProviderError);
      else expect(outcome).toMatchObject({ toolCalls: [] });
    }),
    { numRuns: 200 },
  );
});
