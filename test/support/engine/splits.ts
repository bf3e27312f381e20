import fc from 'fast-check';
import type { TextFilter } from '../../../text/text-filter.ts';

/** Texts made mostly of the given pieces and of parts of them, cut into chunks at random places. */
export function cutTexts(...pieces: readonly string[]): fc.Arbitrary<{ text: string; chunks: string[] }> {
  const part = fc
    .tuple(fc.constantFrom(...pieces), fc.nat(8), fc.nat(8))
    .map(([piece, from, to]) => piece.slice(from, Math.max(from, to)));
  const piece = fc.oneof(
    { arbitrary: fc.constantFrom(...pieces), weight: 6 },
    { arbitrary: part, weight: 2 },
    { arbitrary: fc.string({ unit: 'binary', maxLength: 4 }), weight: 1 },
  );
  return fc
    .tuple(fc.array(piece, { maxLength: 14 }), fc.array(fc.nat(120), { maxLength: 14 }))
    .map(([written, places]) => {
      const text = written.join('');
      const cuts = [0, ...places.filter(place => place < text.length).toSorted((a, b) => a - b), text.length];
      return { text, chunks: cuts.slice(1).map((cut, index) => text.slice(cuts[index], cut)) };
    });
}

export function filterChunks(filter: TextFilter, chunks: readonly string[]): string {
  return chunks.map(chunk => filter.push(chunk)).join('') + filter.end();
}
