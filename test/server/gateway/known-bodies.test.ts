import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KnownBodies } from '../../../server/gateway/request/known-bodies.ts';
import { BODY_LIMITS } from '../../../server/read-body.ts';

const LIMITS = { ...BODY_LIMITS, maxBytes: 1024 * 1024 };
const LONG = 'x'.repeat(20_000);

/** JSON text of a value with members in any order, spaces, escapes and members that come twice. */
const element = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }).map(value => JSON.stringify(value)),
  fc.constantFrom('"a\\"]"', '"\\\\"', '[ ]', '{"a" : [1, 2]}', ' 12', '"\\u0061,"', '{"b":"\\\\\\"}"}'),
);
const list = fc.array(element, { maxLength: 6 });
const member = fc.oneof(
  fc
    .tuple(fc.constantFrom('"messages"', '"me\\u0073sages"', '"tools"', '"__proto__"'), list)
    .map(([name, parts]) => `${name} : [${parts.join(' ,')}]`),
  fc.tuple(fc.constantFrom('"model"', '"tools"', '"1"'), element).map(([name, value]) => `${name}:${value}`),
);
const history = fc.record({
  head: fc.array(member, { maxLength: 2 }),
  elements: fc.array(element, { minLength: 1, maxLength: 8 }),
  tail: fc.array(member, { maxLength: 2 }),
  keep: fc.nat({ max: 8 }),
  more: list,
  otherTail: fc.array(member, { maxLength: 2 }),
});

function textOf(head: readonly string[], elements: readonly string[], tail: readonly string[]): string {
  const messages = `"messages":[${[`"${LONG}"`, ...elements].join(',')}]`;
  return `{${[...head, messages, ...tail].join(',')}}`;
}

describe('known bodies', () => {
  test('B1: a body that has much in common with those before it is parsed as if it were the first', () => {
    fc.assert(
      fc.property(history, ({ head, elements, tail, keep, more, otherTail }) => {
        const bodies = new KnownBodies();
        const later = [...elements.slice(0, keep), ...more];
        for (const text of [
          textOf(head, elements, tail),
          textOf(head, [...elements, ...more], tail),
          textOf(head, later, tail),
          textOf(head, elements, otherTail),
          textOf(head, [...later, ...elements], otherTail),
          textOf([], elements, tail),
        ])
          expect(bodies.parse('chat alice', text, LIMITS)).toEqual(JSON.parse(text));
      }),
    );
  });

  test('the elements that a sender has sent before are the same objects, and another sender gets others', () => {
    const bodies = new KnownBodies();
    const elements = ['{"role":"user"}', '{"role":"assistant"}'];
    const read = (sender: string, parts: readonly string[]) => {
      const body = bodies.parse(sender, textOf(['"model":"m"'], parts, []), LIMITS);
      return (body as { messages: unknown[] }).messages;
    };
    const first = read('chat alice', elements);
    const second = read('chat alice', [...elements, '{"role":"tool"}']);
    expect(second[1]).toBe(first[1]);
    expect(second[2]).toBe(first[2]);
    expect(read('chat alice', [...elements, '{"role":"tool"}', '1'])[3]).toBe(second[3]);
    expect(read('chat bob', elements)[1]).not.toBe(first[1]);
  });

  test('a body whose list is short beside its instructions is not compared with later ones', () => {
    const bodies = new KnownBodies();
    const read = (parts: readonly string[]) => {
      const text = `{"instructions":"${LONG}","messages":[${parts.join(',')}]}`;
      return (bodies.parse('chat alice', text, LIMITS) as { messages: unknown[] }).messages;
    };
    expect(read(['{"a":1}'])[0]).not.toBe(read(['{"a":1}', '2'])[0]);
  });

  test('a body that grows beyond the limits is refused as a whole', () => {
    const bodies = new KnownBodies();
    const values = Array.from({ length: 60_000 }, () => '1');
    bodies.parse('chat alice', textOf([], values, []), LIMITS);
    expect(() => bodies.parse('chat alice', textOf([], [...values, ...values], []), LIMITS)).toThrow(
      'more than 100000 values',
    );
    const deep = `${'['.repeat(70)}${']'.repeat(70)}`;
    expect(() => bodies.parse('chat alice', textOf([], [...values, deep], []), LIMITS)).toThrow('nested');
    expect(() => bodies.parse('chat alice', textOf([], [...values, '1]'], []), LIMITS)).toThrow('not JSON');
  });

  test('those that were used longest ago are forgotten', () => {
    const bodies = new KnownBodies(50_000);
    const read = (sender: string) => bodies.parse(sender, textOf([], ['{"a":1}'], []), LIMITS);
    const partsOf = (body: unknown) => (body as { messages: unknown[] }).messages;
    const first = partsOf(read('chat alice'));
    read('chat bob');
    read('chat carol');
    expect(partsOf(read('chat alice'))[1]).not.toBe(first[1]);
  });
});
