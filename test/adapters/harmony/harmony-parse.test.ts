import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HarmonyReply, pieceOf } from '../../../adapters/harmony/completions.ts';
import { TOKENS_BY_TEXT } from '../../../adapters/harmony/render.ts';
import { TagScanner } from '../../../adapters/turn/raw-text.ts';
import type { ModelTurn, TurnDelta } from '../../../protocol/turn.ts';
import { request, sumOf } from '../../support/adapters/requests.ts';

/** Parses a reply that arrives in these pieces. */
function read(pieces: readonly string[], finish = 'stop'): { deltas: TurnDelta[]; turn: ModelTurn } {
  const scanner = new TagScanner([...TOKENS_BY_TEXT.keys()]);
  const reply = new HarmonyReply();
  const parts = [...pieces.flatMap(piece => scanner.push(piece)), ...scanner.end()];
  const deltas = [...parts.flatMap(part => reply.push(pieceOf(part))), ...reply.end()];
  return { deltas, turn: reply.turn(request('hi'), { finish, usage: null, model: 'm' }) };
}
const parse = (text: string, finish?: string) => read([text], finish).turn;
const callsIn = ({ toolCalls }: ModelTurn) => toolCalls.map(call => [call.name, call.arguments]);

const ARGUMENTS = '{"location":"San Francisco"}';

describe('the replies in the document of the published format', () => {
  test('reasoning and a final answer', () => {
    const turn = parse(
      '<|channel|>analysis<|message|>User asks: "What is 2 + 2?" Simple arithmetic. Provide answer.<|end|>' +
        '<|start|>assistant<|channel|>final<|message|>2 + 2 = 4.<|return|>',
    );
    expect(turn).toMatchObject({
      reasoning: 'User asks: "What is 2 + 2?" Simple arithmetic. Provide answer.',
      text: '2 + 2 = 4.',
      finishReason: 'stop',
      toolCalls: [],
    });
  });

  test('reasoning and a call', () => {
    const turn = parse(
      '<|channel|>analysis<|message|>Need to use function get_weather.<|end|><|start|>assistant' +
        `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${ARGUMENTS}<|call|>`,
    );
    expect(turn).toMatchObject({
      reasoning: 'Need to use function get_weather.',
      text: '',
      finishReason: 'tool_calls',
      toolCalls: [{ name: 'get_weather', input: { location: 'San Francisco' }, executedBy: 'engine' }],
    });
  });

  test('a preamble is text for the reader, and is a preamble in the next request', () => {
    const turn = parse(
      '<|channel|>analysis<|message|>{long chain of thought}<|end|><|start|>assistant' +
        '<|channel|>commentary<|message|>**Action plan**:\n1. Generate an HTML file<|end|><|start|>assistant' +
        '<|channel|>commentary to=functions.generate_file<|constrain|>json<|message|>{"path": "index.html"}<|call|>',
    );
    expect(turn.text).toBe('**Action plan**:\n1. Generate an HTML file');
    expect(callsIn(turn)).toEqual([['generate_file', '{"path": "index.html"}']]);
    expect(turn.items).toMatchObject([
      { type: 'reasoning', opaque: { provider: 'harmony', data: { channel: 'analysis' } } },
      { type: 'message', opaque: { provider: 'harmony', data: { channel: 'commentary' } } },
      { type: 'tool_call' },
    ]);
  });
});

describe('a call', () => {
  test.each([
    ['the channel', '<|channel|>commentary to=functions.f <|constrain|>json<|message|>'],
    ['the channel, without a space', '<|channel|>commentary to=functions.f<|constrain|>json<|message|>'],
    ['the role', ' to=functions.f<|channel|>commentary <|constrain|>json<|message|>'],
    ['the role, without a space', ' to=functions.f<|channel|>commentary<|constrain|>json<|message|>'],
    ['the channel, without a constraint', '<|channel|>commentary to=functions.f<|message|>'],
    ['the channel, with the type as a word', '<|channel|>commentary to=functions.f json<|message|>'],
    ['the channel, without the namespace', '<|channel|>commentary to=f <|constrain|>json<|message|>'],
    ['the channel, without to=', '<|channel|>commentary functions.f<|constrain|>json<|message|>'],
    ['the role alone', ' to=functions.f<|message|>'],
    ['the analysis channel', '<|channel|>analysis to=f code<|message|>'],
  ])('with its recipient in %s', (_, header) => {
    expect(callsIn(parse(`${header}${ARGUMENTS}<|call|>`))).toEqual([['f', ARGUMENTS]]);
    expect(
      callsIn(
        parse(`<|channel|>analysis<|message|>hm<|end|><|start|>assistant${header}${ARGUMENTS}<|call|>`),
      ),
    ).toEqual([['f', ARGUMENTS]]);
  });

  test('with arguments that are not JSON has an error for the model', () => {
    const turn = parse('<|channel|>commentary to=functions.f<|message|>city: Rome<|call|>');
    expect(turn.toolCalls).toMatchObject([
      { name: 'f', arguments: 'city: Rome', error: expect.stringContaining('not valid JSON: city: Rome') },
    ]);
    expect(turn.finishReason).toBe('tool_calls');
  });

  test('does not need its end token, because servers omit it', () => {
    const turn = parse(`<|channel|>commentary to=functions.f<|message|>${ARGUMENTS}`);
    expect(callsIn(turn)).toEqual([['f', ARGUMENTS]]);
  });

  test('cut off by the length limit is reported as cut off', () => {
    const turn = parse('<|channel|>commentary to=functions.f<|message|>{"a":', 'length');
    expect(turn).toMatchObject({ finishReason: 'length', toolCalls: [{ error: expect.anything() }] });
  });

  test('next to another call is a call of its own', () => {
    const turn = parse(
      '<|channel|>commentary to=functions.a<|message|>{}<|end|><|start|>assistant<|channel|>commentary to=functions.b<|message|>{}<|call|>',
    );
    expect(callsIn(turn)).toEqual([
      ['a', '{}'],
      ['b', '{}'],
    ]);
    expect(new Set(turn.toolCalls.map(call => call.callId)).size).toBe(2);
  });
});

describe('a reply', () => {
  test.each([
    ['has no channel', '<|message|>Hello<|return|>'],
    ['has no header', 'Hello<|return|>'],
    ['has no token at all', 'Hello'],
    [
      'continues after its end',
      '<|channel|>final<|message|>Hello<|return|><|start|>user<|message|>Bye<|end|>',
    ],
    ['plays the user', '<|channel|>final<|message|>Hello<|end|><|start|>user<|message|>Bye<|end|>'],
    [
      'lacks <|start|> between messages',
      '<|channel|>analysis<|message|>x<|end|>assistant<|channel|>final<|message|>Hello',
    ],
    [
      'lacks <|end|> between messages',
      '<|channel|>analysis<|message|>x<|start|>assistant<|channel|>final<|message|>Hello',
    ],
  ])('that %s is still parsed', (_, text) => {
    expect(parse(text)).toMatchObject({ text: 'Hello', toolCalls: [], finishReason: 'stop' });
  });

  test('may have several analysis messages; each is sent back as its own item', () => {
    const turn = parse(
      '<|channel|>analysis<|message|>one <|end|><|start|>assistant<|channel|>analysis<|message|>two<|end|>' +
        '<|start|>assistant<|channel|>final<|message|>x',
    );
    expect(turn.items.map(item => (item.type === 'reasoning' ? item.text : item.type))).toEqual([
      'one ',
      'two',
      'message',
    ]);
    expect(turn.reasoning).toBe('one two');
  });

  test('on an unknown channel is not shown to readers', () => {
    expect(parse('<|channel|>secret<|message|>x')).toMatchObject({ text: '', reasoning: 'x' });
  });

  test('with a second channel in its header has no name joined across the two', () => {
    const call = '<|channel|>commentary to=lookup<|channel|>analysis<|message|>{}';
    expect(parse(call).toolCalls).toMatchObject([{ name: 'lookup' }]);
  });

  test('cut off inside a header has no text of that header', () => {
    for (const text of [
      '<|channel|>fin',
      ' to=functi',
      '<|channel|>analysis<|message|>x<|end|><|start|>assist',
    ]) {
      expect(parse(text, 'length')).toMatchObject({ text: '', toolCalls: [], finishReason: 'length' });
    }
  });

  test('keeps text that looks like the start of a token', () => {
    expect(parse('<|channel|>final<|message|>a <| b <|ret').text).toBe('a <| b <|ret');
    expect(parse('<|channel|>final<|message|>a <|other|> b').text).toBe('a <|other|> b');
  });
});

describe('a reply in pieces', () => {
  const token = fc.constantFrom(
    ...['start', 'channel', 'message', 'end', 'call', 'return', 'constrain'].map(name => `<|${name}|>`),
  );
  const word = fc.constantFrom(
    ...[
      'assistant',
      'analysis',
      'final',
      'commentary',
      ' to=functions.f',
      'user',
      '{"a":1}',
      '<',
      '<|',
      '|>',
      'é😀',
      ' ',
    ],
  );
  const reply = fc.array(fc.oneof(token, word), { maxLength: 14 }).map(parts => parts.join(''));

  test('decodes to the same turn wherever it is split, with deltas that add up to it', () => {
    fc.assert(
      fc.property(reply, fc.array(fc.nat(80), { maxLength: 6 }), (text, places) => {
        const whole = read([text]);
        const ends = [0, ...places.map(at => Math.min(at, text.length)).sort((a, b) => a - b), text.length];
        const cut = ends.slice(1).map((end, index) => text.slice(ends[index], end));
        for (const pieces of [cut, [...text]]) expect(read(pieces).turn).toEqual(whole.turn);
        const { deltas, turn } = read([...text]);
        expect(sumOf(deltas)).toMatchObject({
          text: turn.text,
          reasoning: turn.reasoning,
          calls: turn.toolCalls.map(call => [call.name, expect.any(String)]),
        });
      }),
      { numRuns: 300 },
    );
  });

  test('is shown as soon as it cannot be part of a token', () => {
    const scanner = new TagScanner([...TOKENS_BY_TEXT.keys()]);
    expect(scanner.push('a <')).toEqual([{ text: 'a ' }]);
    expect(scanner.push('|e')).toEqual([]);
    expect(scanner.push('x')).toEqual([{ text: '<|ex' }]);
  });
});
