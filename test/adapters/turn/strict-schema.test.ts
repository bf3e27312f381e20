import { describe, expect, test } from 'vitest';
import { strictSchema } from '../../../adapters/turn/strict-schema.ts';
import type { JsonObject } from '../../../protocol/json.ts';

const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  ...more,
});
const text: JsonObject = { type: 'string' };

describe('the strict form of a schema', () => {
  test('closes every object at any depth and changes nothing else', () => {
    const schema = object({
      list: { type: 'array', items: object({ name: text }) },
      either: { anyOf: [object({ a: text }), { type: 'null' }] },
      other: { $ref: '#/$defs/Other' },
    });
    const closed = { additionalProperties: false };
    expect(strictSchema({ ...schema, $defs: { Other: object({ b: text }) } })).toEqual({
      ...object({
        list: { type: 'array', items: object({ name: text }, closed) },
        either: { anyOf: [object({ a: text }, closed), { type: 'null' }] },
        other: { $ref: '#/$defs/Other' },
      }),
      ...closed,
      $defs: { Other: object({ b: text }, closed) },
    });
  });

  test('gives an object without properties the members that strict mode requires', () => {
    expect(strictSchema({ type: 'object', properties: {} })).toEqual({
      type: 'object',
      properties: {},
      required: [],
      additionalProperties: false,
    });
  });

  test('drops defaults, because required properties need none', () => {
    expect(strictSchema(object({ a: { type: 'string', default: 'x' } }))).toMatchObject({
      properties: { a: { type: 'string' } },
    });
  });

  test.each<[string, JsonObject]>([
    ['a property is optional', object({ a: text }, { required: [] })],
    ['a property deep inside is optional', object({ a: object({ b: text }, { required: [] }) })],
    ['an object is open on purpose', object({ a: text }, { additionalProperties: true })],
    ['an object may have any property', { type: 'object' }],
    ['an object is a map', object({ a: { type: 'object', additionalProperties: text } })],
    ['a keyword is not supported', object({ a: { oneOf: [text, { type: 'number' }] } })],
    ['a tuple has its own schemas', object({ a: { type: 'array', prefixItems: [text] } })],
    ['the answer is not an object', { type: 'array', items: text }],
    ['the answer is a choice', { type: 'object', anyOf: [object({ a: text })] }],
    ['a schema is only true', object({ a: true })],
  ])('does not exist if %s', (_, schema) => {
    expect(strictSchema(schema)).toBeUndefined();
  });

  test('leaves the original schema unchanged', () => {
    const schema = object({ a: object({ b: { type: 'string', default: 'x' } }) });
    const before = structuredClone(schema);
    strictSchema(schema);
    expect(schema).toEqual(before);
  });
});
