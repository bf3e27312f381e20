import { refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';

/** Splits the bytes at the positions `cuts`, given in any order. Empty pieces are omitted. */
export function splitAt(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const ends = [...cuts, bytes.length].toSorted((a, b) => a - b);
  return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end)).filter(piece => piece.length > 0);
}

/** Splits the bytes into pieces of one byte. */
export function oneByOne(bytes: Uint8Array): Uint8Array[] {
  return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
}

/** Yields every split of the bytes into two pieces. */
export function* inTwoEverywhere(bytes: Uint8Array): Generator<Uint8Array[], void> {
  for (let at = 1; at < bytes.length; at += 1) yield splitAt(bytes, [at]);
}

/**
 * Yields splits of the bytes into pieces of `length`, one for each position of the first cut: `length`
 * splits, which together cut every position between two bytes once.
 */
export function* inPiecesOf(bytes: Uint8Array, length: number): Generator<Uint8Array[], void> {
  for (let first = 1; first <= Math.min(length, bytes.length - 1); first += 1) {
    const cuts = Array.from(
      { length: Math.ceil((bytes.length - first) / length) },
      (_, at) => first + at * length,
    );
    yield splitAt(bytes, cuts);
  }
}

/** Yields `times` random splits of the bytes into up to 13 pieces. The same seed gives the same splits. */
export function* atRandom(
  bytes: Uint8Array,
  options: { seed: number; times: number },
): Generator<Uint8Array[], void> {
  refuseUnknownOptions('atRandom', options, { seed: true, times: true }, 'input-invalid');
  const { seed, times } = options;
  const random = randomNumbers(seed);
  for (let time = 0; time < times; time += 1) {
    const cuts = Array.from({ length: 1 + (time % 12) }, () => Math.floor(random() * bytes.length));
    yield splitAt(bytes, cuts);
  }
}

/** Returns a generator of numbers from 0 to below 1. The same seed gives the same numbers (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
