import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson, type JsonValue } from '../../../protocol/json.ts';

/** Member names that objects reorder or treat specially. */
const key = fc.oneof(
  fc.string(),
  fc.constantFrom('10', '9', '0', '01', '-1', '__proto__', 'constructor', 'é', '\ud800'),
);
const value = fc.letrec<{ any: JsonValue }>(any => ({
  any: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, false, 0, -0.5, 1e21),
    fc.string({ unit: 'binary' }),
    fc.array(any('any'), { maxLength: 4 }),
    fc
      .uniqueArray(fc.tuple(key, any('any')), { selector: ([name]) => name, maxLength: 5 })
      .map(entries => Object.fromEntries(entries)),
  ),
})).any;

/** The definition: members sorted by the code units of their names, no whitespace. */
function define(json: JsonValue): string {
  if (typeof json !== 'object' || json === null) return JSON.stringify(json);
  if (Array.isArray(json)) return `[${json.map(define).join()}]`;
  const names = Object.getOwnPropertyNames(json).sort();
  return `{${names.map(name => `${JSON.stringify(name)}:${define(json[name] as JsonValue)}`).join()}}`;
}

test('canonicalJson is independent of member order, for any member names', () => {
  fc.assert(
    fc.property(value, json => {
      const text = canonicalJson(json);
      expect(text).toBe(define(json));
      expect(canonicalJson(reverse(json))).toBe(text);
    }),
    { numRuns: 2_000 },
  );
});

function reverse(json: JsonValue): JsonValue {
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return json.map(reverse);
  const entries = Object.entries(json).toReversed();
  return Object.fromEntries(entries.map(([name, member]) => [name, reverse(member)]));
}
