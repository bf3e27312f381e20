import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type RunEvent, runEventSchema } from '../../protocol/event.ts';
import { isPlainEvent, isRunEvent } from '../../protocol/is-run-event.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { describeFormat } from '../golden/format.ts';
import { readGolden } from '../golden/golden-journal.ts';
import { randomCases } from '../support/sample.ts';

const RUNS = randomCases(1_500);

const EVENTS = ['edges', 'runs']
  .flatMap(readGolden)
  .flatMap(([, { entries }]) => entries.map(({ event }) => event));
const TURN: readonly RunEvent['type'][] = [
  'run.started',
  'run.claimed',
  'text.started',
  'calls.started',
  'turn.completed',
  'turn.failed',
  'tool.started',
  'tool.settled',
  'timer.fired',
];

/** Random values of a JSON Schema, for the constructs that the schemas of events use. */
function valuesOf(schema: JsonValue | undefined): fc.Arbitrary<unknown> {
  if (!isJsonObject(schema)) return fc.jsonValue();
  const alternatives = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(alternatives)) return fc.oneof(...alternatives.map(valuesOf));
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
  switch (schema.type) {
    case 'string':
      return typeof schema.pattern === 'string'
        ? fc.stringMatching(new RegExp(schema.pattern))
        : fc.string({ minLength: Number(schema.minLength ?? 0), maxLength: 4 });
    case 'integer':
      return fc.integer({ min: Math.max(-9, Number(schema.exclusiveMinimum ?? schema.minimum ?? 0) + 1) });
    case 'number':
      return fc.double({ noNaN: true, min: 1, max: 1e9 });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(valuesOf(schema.items), { minLength: Number(schema.minItems ?? 0), maxLength: 3 });
    case 'object':
      return objectsOf(schema);
    default:
      return fc.jsonValue();
  }
}

function objectsOf({ properties, required, additionalProperties }: JsonObject): fc.Arbitrary<object> {
  if (!isJsonObject(properties)) return fc.dictionary(fc.string(), valuesOf(additionalProperties));
  const needed = new Set(Array.isArray(required) ? required : []);
  const members = Object.entries(properties).map(([key, member]) => {
    const present = valuesOf(member).map(value => ({ [key]: value }));
    return needed.has(key) ? present : fc.oneof(present, fc.constant({}));
  });
  return fc.tuple(...members).map(parts => Object.assign({}, ...parts));
}

const LEFT_OUT = Symbol('left out');
const REPLACEMENTS: readonly unknown[] = [
  LEFT_OUT,
  ...[undefined, null, true, 0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 1n],
  ...['', 'x', 'message', [], {}, [null], Array(2), [{}], { type: 7 }, { type: 'text', text: 'x' }],
  ...[new Date(0), new Map(), Object.create(null), Object.create({ at: 1 }), () => 1, Symbol('x')],
];

type Place = readonly string[];

/** Every path in a value, including the value itself and an unknown member. */
function placesIn(value: unknown): Place[] {
  if (typeof value !== 'object' || value === null) return [[]];
  const inside = Object.entries(value).flatMap(([key, member]) =>
    placesIn(member).map(place => [key, ...place]),
  );
  return Array.isArray(value) ? [[], ...inside] : [[], ...inside, ['unknown']];
}

function changed(value: unknown, [key, ...rest]: Place, replacement: unknown): unknown {
  if (key === undefined || typeof value !== 'object' || value === null) return replacement;
  const change = (member: unknown) => changed(member, rest, replacement);
  if (Array.isArray(value)) return value.map((member, at) => (String(at) === key ? change(member) : member));
  const { [key]: member, ...others } = value as Record<string, unknown>;
  return rest.length === 0 && replacement === LEFT_OUT ? others : { ...value, [key]: change(member) };
}

const change = fc.tuple(fc.nat(100_000), fc.constantFrom(...REPLACEMENTS));

function changedAt(event: unknown, [at, replacement]: [number, unknown]): unknown {
  const places = placesIn(event);
  return changed(event, places[at % places.length] ?? [], replacement);
}

function held(event: unknown): void {
  const { success, data } = runEventSchema.safeParse(event);
  expect(isRunEvent(event)).toBe(success);
  if (isPlainEvent(event)) expect(data).toStrictEqual(event);
}

describe('a value accepted without the schemas is accepted by them and equals their output', () => {
  const schemas = Object.entries(describeFormat().events);

  test.each(schemas)('%s, generated from its schema', (_type, schema) => {
    fc.assert(fc.property(valuesOf(schema), held), { numRuns: RUNS / 15 });
  });

  test('any event, generated from its schema and changed', () => {
    const made = fc.oneof(...schemas.map(([, schema]) => valuesOf(schema)));
    fc.assert(
      fc.property(made, fc.array(change, { minLength: 1, maxLength: 2 }), (event, changes) =>
        held(changes.reduce(changedAt, event)),
      ),
      { numRuns: RUNS },
    );
  });

  test.each(TURN)('%s of real journals, unchanged and changed at each path', type => {
    const events = EVENTS.filter(event => event.type === type);
    for (const event of events) held(event);
    for (const event of new Map(events.map(one => [placesIn(one).join(), one])).values()) {
      for (const place of placesIn(event)) {
        for (const replacement of REPLACEMENTS) held(changed(event, place, replacement));
      }
    }
  });
});

test.each(
  EVENTS.map(({ type }) => type).filter(
    (type, at, all) => all.indexOf(type) === at && type !== 'breakpoints.set',
  ),
)('a %s does not need the schemas', type => {
  const usual = EVENTS.filter(event => event.type === type);
  expect(usual.filter(event => !isPlainEvent(event))).toEqual([]);
});
