import fc from 'fast-check';
import type { WrittenCall, WrittenTurn } from '../../../examples/stand-in/wire/turn.ts';

/** The features of a dialect. */
export type Sayable = {
  /** Whether calls have ids: always, sometimes, or never; `short` ids have nine characters. */
  ids: 'always' | 'short' | 'perhaps' | 'never';
  /** Whether it can finish with a content filter. */
  filter?: boolean;
  /** Whether it runs its own web search. */
  search?: boolean;
};

const NAMES = ['lookup_order', 'refund', 'read-file', 'a'];

const text = fc.string({ unit: 'binary', maxLength: 24 });
const member = fc.string({ maxLength: 6 }).filter(key => key !== '__proto__');
const args = fc.oneof(
  { weight: 1, arbitrary: fc.constant('{}') },
  {
    weight: 4,
    arbitrary: fc
      .dictionary(member, fc.oneof(fc.jsonValue({ maxDepth: 1 }), text), { maxKeys: 3 })
      .map(value => JSON.stringify(value))
      .filter(json => !json.includes('__proto__')),
  },
);

const usage = fc
  .tuple(fc.nat(9_999), fc.nat(9_999), fc.nat(999), fc.nat(999))
  .map(([prompt, output, cached, reasoning]) => ({
    input: prompt + cached,
    output: output + reasoning,
    cached,
    reasoning,
  }));

/** Turns that a dialect can express, with unique ids in each. */
export function writtenTurn({ ids, filter = false, search = false }: Sayable): fc.Arbitrary<WrittenTurn> {
  const calls = fc
    .tuple(fc.array(fc.tuple(fc.constantFrom(...NAMES), args), { maxLength: 4 }), fc.boolean())
    .map(([list, named]) =>
      list.map(
        ([name, written], index): WrittenCall => ({
          ...(ids === 'never' || (ids === 'perhaps' && !named) ? {} : { id: idOf(index, ids) }),
          name,
          arguments: written,
        }),
      ),
    );
  return fc
    .record({
      model: fc.constant('model-1'),
      reasoning: fc.oneof(fc.constant(''), text),
      text: fc.oneof(fc.constant(''), text),
      calls,
      finish: fc.constantFrom(
        'stop' as const,
        'stop' as const,
        'length' as const,
        ...(filter ? (['content_filter'] as const) : []),
      ),
      usage: fc.option(usage),
      searched: search ? fc.option(text, { nil: undefined }) : fc.constant(undefined),
    })
    .map(({ searched, ...turn }) => (searched === undefined ? turn : { ...turn, searched }));
}

function idOf(index: number, ids: Sayable['ids']): string {
  return ids === 'short' ? `Ab3dE6gH${index}` : `call_${index}_x`;
}
