import { jsonIn } from '../../../adapters/turn/json-access.ts';
import type { Random } from '../../../examples/stand-in/wire/turn.ts';
import { isJsonObject, type JsonValue } from '../../../protocol/json.ts';

/** The blocks joined in the ways of real servers: with CRLF, with keep-alive comments, with blank lines. */
export function dressed(blocks: readonly string[], contentType: string, random: Random): string {
  const idle = contentType.includes('event-stream') ? ': PROCESSING\n\n' : '\n';
  const body = blocks.map(block => (random() < 0.1 ? idle + block : block)).join('');
  return random() < 0.3 ? body.replaceAll('\n', '\r\n') : body;
}

/** The blocks with one omitted, duplicated, or moved after its neighbour. */
export function shuffleBlocks(blocks: readonly string[], random: Random): string[] {
  const changed = [...blocks];
  for (let times = 1 + Math.floor(random() * 3); times > 0 && changed.length > 0; times -= 1) {
    const at = Math.floor(random() * changed.length);
    const [block = ''] = changed.splice(at, 1);
    const kind = random();
    if (kind < 0.4) continue;
    if (kind < 0.7) changed.splice(at, 0, block, block);
    else changed.splice(at + 1, 0, block);
  }
  return changed;
}

/** The bytes with up to eight bits flipped. */
export function flipBits(bytes: Uint8Array, random: Random): Uint8Array {
  const flipped = Uint8Array.from(bytes);
  for (let times = 1 + Math.floor(random() * 8); times > 0; times -= 1) {
    const at = Math.floor(random() * flipped.length);
    flipped[at] = (flipped[at] ?? 0) ^ (1 << Math.floor(random() * 8));
  }
  return flipped;
}

const STRANGE: readonly JsonValue[] = [
  null,
  true,
  -1,
  0.5,
  1e300,
  '',
  'x',
  [],
  {},
  [null],
  [[]],
  { type: 7 },
];

/** The bytes as a body in up to seven pieces. */
export function inPieces(bytes: Uint8Array, random: Random): ReadableStream<Uint8Array> {
  const ends = Array.from({ length: 6 }, () => Math.floor(random() * bytes.length));
  const places = [0, ...ends.sort((a, b) => a - b), bytes.length];
  return new ReadableStream({
    start(controller) {
      for (const [at, end] of places.slice(1).entries()) controller.enqueue(bytes.slice(places[at], end));
      controller.close();
    },
  });
}

/** The JSON in a block with some values replaced, so that its shape is wrong. */
export function distort(block: string, random: Random): string {
  return block.replace(/\{.*\}/s, json => {
    const value = jsonIn(json);
    return value === undefined ? json : JSON.stringify(distortValue(value, random));
  });
}

function distortValue(value: JsonValue, random: Random): JsonValue {
  if (random() < 0.04) return STRANGE[Math.floor(random() * STRANGE.length)] ?? null;
  if (Array.isArray(value)) return value.map(entry => distortValue(entry, random));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, distortValue(entry, random)]));
}
