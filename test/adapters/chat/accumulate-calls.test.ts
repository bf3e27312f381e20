import { describe, expect, test } from 'vitest';
import {
  CallAccumulator,
  type CallFragment,
  CallIds,
  parseArguments,
  toolCall,
} from '../../../adapters/turn/tool-calls.ts';
import { userMessage } from '../../../protocol/message.ts';
import { sumOf } from '../../support/adapters/requests.ts';

type Row = [behaviour: string, fragments: CallFragment[], calls: [string | null, string, string][]];

const TABLE: Row[] = [
  [
    'interleaved fragments belong to the call of their index',
    [
      { id: 'a', index: 0, name: 'one', arguments: '' },
      { id: 'b', index: 1, name: 'two', arguments: '' },
      { index: 1, arguments: '{"y"' },
      { index: 0, arguments: '{"x"' },
      { index: 1, arguments: ':2}' },
      { index: 0, arguments: ':1}' },
    ],
    [
      ['a', 'one', '{"x":1}'],
      ['b', 'two', '{"y":2}'],
    ],
  ],
  [
    'a known id takes precedence over the index',
    [
      { id: 'a', index: 0, name: 'one', arguments: '{' },
      { id: 'b', index: 1, name: 'two', arguments: '{}' },
      { id: 'a', index: 1, arguments: '}' },
    ],
    [
      ['a', 'one', '{}'],
      ['b', 'two', '{}'],
    ],
  ],
  [
    'a new id starts a new call at a used index',
    [
      { id: 'a', index: 0, name: 'one', arguments: '{"x":1}' },
      { id: 'b', index: 0, name: 'one', arguments: '{"x":2}' },
    ],
    [
      ['a', 'one', '{"x":1}'],
      ['b', 'one', '{"x":2}'],
    ],
  ],
  [
    'a fragment without an id belongs to the latest call of its index',
    [
      { id: 'a', index: 0, name: 'one' },
      { id: 'b', index: 0, name: 'two' },
      { id: '', index: 0, arguments: '{"z":1}' },
    ],
    [
      ['a', 'one', ''],
      ['b', 'two', '{"z":1}'],
    ],
  ],
  [
    'without id and index a fragment belongs to the call of the last fragment',
    [
      { id: 'a', name: 'one', arguments: '{"x"' },
      { arguments: ':1}' },
      { id: 'b', name: 'two', arguments: '{"y"' },
      { id: null, index: null, name: '', arguments: ':2}' },
    ],
    [
      ['a', 'one', '{"x":1}'],
      ['b', 'two', '{"y":2}'],
    ],
  ],
  [
    'arguments before their id and name belong to that call',
    [
      { index: 0, arguments: '{"x":1}' },
      { id: 'a', index: 0, name: 'one', arguments: '' },
      { id: 'b', index: 0, name: 'two', arguments: '{}' },
    ],
    [
      ['a', 'one', '{"x":1}'],
      ['b', 'two', '{}'],
    ],
  ],
  [
    'an id after the name belongs to that call',
    [
      { index: 0, name: 'one', arguments: '{"x"' },
      { id: 'a', index: 0, arguments: ':1}' },
    ],
    [['a', 'one', '{"x":1}']],
  ],
  [
    'a named call with an id is separate from a named call without',
    [
      { name: 'one', arguments: '{}' },
      { id: 'b', name: 'two', arguments: '{"y":2}' },
    ],
    [
      [null, 'one', '{}'],
      ['b', 'two', '{"y":2}'],
    ],
  ],
  [
    'indexes may be sparse and start anywhere',
    [
      { id: 'a', index: 7, name: 'one' },
      { id: 'b', index: 3, name: 'two' },
      { index: 7, arguments: '{}' },
    ],
    [
      ['a', 'one', '{}'],
      ['b', 'two', ''],
    ],
  ],
  [
    'the first non-empty name counts',
    [
      { index: 0, name: 'one', arguments: '{' },
      { index: 0, name: '', arguments: '}' },
      { index: 0, name: 'other' },
    ],
    [[null, 'one', '{}']],
  ],
  [
    'arguments that come with the name are the first fragment',
    [
      { id: 'a', index: 0, name: 'one', arguments: '{' },
      { index: 0, arguments: '"x":1}' },
    ],
    [['a', 'one', '{"x":1}']],
  ],
  [
    'arguments may be an object',
    [{ id: 'a', name: 'one', arguments: { x: [0] } }],
    [['a', 'one', '{"x":[0]}']],
  ],
  ['arguments may be null', [{ id: 'a', name: 'one', arguments: null }], [['a', 'one', '']]],
  ['an empty call is left out', [{ index: 0 }], []],
  ['a call without a name is kept if it has arguments', [{ index: 0, arguments: '{}' }], [[null, '', '{}']]],
];

describe('CallAccumulator', () => {
  test.each(TABLE)('%s', (_, fragments, expected) => {
    const accumulator = new CallAccumulator();
    const deltas = fragments.flatMap(fragment => accumulator.push(fragment));
    const calls = accumulator.calls();
    expect(calls.map(call => [call.id, call.name, call.arguments])).toEqual(expected);
    expect(sumOf(deltas).calls).toEqual(calls.filter(c => c.name !== '').map(c => [c.name, c.arguments]));
  });

  test('complete calls of a list are never merged, whatever their ids', () => {
    const accumulator = new CallAccumulator();
    accumulator.add({ id: 'same', name: 'one', arguments: { x: 1 } });
    accumulator.add({ id: 'same', name: 'one', arguments: { x: 2 } });
    accumulator.add({ name: 'one', arguments: { x: 3 } });
    expect(accumulator.calls().map(call => call.arguments)).toEqual(['{"x":1}', '{"x":2}', '{"x":3}']);
  });

  test('a late name announces the call together with its buffered arguments', () => {
    const accumulator = new CallAccumulator();
    expect(accumulator.push({ index: 0, arguments: '{"x"' })).toEqual([]);
    expect(accumulator.push({ index: 0, name: 'one', arguments: ':1}' })).toEqual([
      { type: 'call_started', index: 0, name: 'one' },
      { type: 'call_arguments', index: 0, text: '{"x":1}' },
    ]);
  });

  test('a hundred thousand fragments of one call are joined once', () => {
    const accumulator = new CallAccumulator();
    accumulator.push({ id: 'a', index: 0, name: 'one' });
    for (let i = 0; i < 100_000; i += 1) accumulator.push({ index: 0, arguments: 'xxxxxxxxxx' });
    expect(accumulator.calls()[0]?.arguments.length).toBe(1_000_000);
  });
});

describe('parseArguments', () => {
  test.each([null, undefined, '', '  \n', '{}'])('%j means no arguments', text => {
    expect(parseArguments(text)).toEqual({ input: {} });
  });

  test('falsy members are kept', () => {
    expect(parseArguments('{"a":0,"b":false,"c":"","d":null}')).toEqual({
      input: { a: 0, b: false, c: '', d: null },
    });
  });

  test.each([
    ['"x"', 'a string'],
    ['3', 'a number'],
    ['null', 'null'],
    ['[1]', 'an array'],
    ['true', 'a boolean'],
  ])('%s is an error that names it as %s', (text, kind) => {
    const parsed = parseArguments(text);
    expect('error' in parsed && parsed.error).toContain(`they are ${kind}`);
    expect(parsed).not.toHaveProperty('input');
  });

  test('invalid JSON is an error that quotes at most 80 characters', () => {
    const parsed = parseArguments(`{"a":"${'y'.repeat(500)}`);
    expect('error' in parsed && parsed.error).toContain('not valid JSON: {"a":"yyy');
    expect('error' in parsed && parsed.error.length).toBeLessThan(180);
  });
});

describe('toolCall', () => {
  test('a call with invalid arguments keeps their text and has an error instead of an input', () => {
    expect(toolCall('c', 'one', '{"a"')).toEqual({
      callId: 'c',
      name: 'one',
      arguments: '{"a"',
      error: expect.stringContaining('not valid JSON'),
      executedBy: 'engine',
    });
  });
});

describe('CallIds', () => {
  const transcript = [userMessage('hi')];

  test('missing ids are unique within a turn and the same for a repeated request', () => {
    const name = () => {
      const ids = new CallIds(transcript);
      return [0, 1, 2].map(index => ids.name('', index));
    };
    const ids = name();
    expect(new Set(ids).size).toBe(3);
    expect(name()).toEqual(ids);
  });

  test('a longer transcript has other ids', () => {
    const first = new CallIds(transcript).name(null, 0);
    const longer = new CallIds([
      ...transcript,
      { type: 'tool_call', callId: first, name: 'a', arguments: '{}' },
    ]);
    expect(longer.name(null, 0)).not.toBe(first);
  });

  test('an id that the transcript already has is not used again', () => {
    const ids = new CallIds([{ type: 'tool_call', callId: 'call_0', name: 'a', arguments: '{}' }]);
    const renamed = ids.name('call_0', 0);
    expect(renamed).not.toBe('call_0');
    expect(ids.name('call_1', 1)).toBe('call_1');
    expect(ids.name('call_1', 2)).not.toBe('call_1');
  });
});
