import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { promptText, renderPrompt } from '../../../adapters/harmony/render.ts';
import { readPrompt } from '../../../examples/stand-in/wire/harmony.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, ToolDefinition } from '../../../protocol/turn.ts';
import { CONTEXT } from '../../support/adapters/harmony/engine.ts';
import { FORMAT_EXAMPLE, FORMAT_TOOLS } from '../../support/adapters/harmony/format.ts';
import { request, result } from '../../support/adapters/requests.ts';

const render = (of: ModelRequest) =>
  promptText(renderPrompt(of, { knowledgeCutoff: '2024-06', today: '2025-06-28', context: CONTEXT }));
const high = { settings: { reasoningEffort: 'high' } };
const user = (text: string) => userMessage(text);
const own = (channel: string) => ({ opaque: { provider: 'harmony', data: { channel } } });
const thought = (text: string): Item => ({ type: 'reasoning', text, ...own('analysis') });
const spoken = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text }],
});
const call = (callId: string, name = 'get_weather', written = '{}'): Item => ({
  type: 'tool_call',
  callId,
  name,
  arguments: written,
});
/** The prompt after the system message. */
const historyFor = (items: readonly Item[], more: Partial<ModelRequest> = {}) =>
  render(request(items, more)).replace(/^<\|start\|>system.*?<\|end\|>/s, '');

describe('the examples in the document of the published format', () => {
  test('a prompt with functions and a pending call is the same byte for byte', () => {
    const prompt = render(
      request(
        [
          user('What is the weather like in SF?'),
          thought('Need to use function get_weather.'),
          call('c', 'get_weather', '{"location":"San Francisco"}'),
          result('c', '{"sunny": true, "temperature": 20}'),
        ],
        { instructions: 'Use a friendly tone.', tools: FORMAT_TOOLS, ...high },
      ),
    );
    expect(prompt).toBe(FORMAT_EXAMPLE);
  });

  test('without functions and instructions there is neither a developer message nor a note on calls', () => {
    expect(render(request('What is 2 + 2?', { settings: {} }))).toBe(
      '<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n' +
        'Knowledge cutoff: 2024-06\nCurrent date: 2025-06-28\n\nReasoning: medium\n\n' +
        '# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>' +
        '<|start|>user<|message|>What is 2 + 2?<|end|><|start|>assistant',
    );
  });

  test('reasoning is dropped once a final answer has followed it', () => {
    expect(
      historyFor([
        user('What is 2 + 2?'),
        thought('User asks: "What is 2 + 2?" Simple arithmetic. Provide answer.'),
        spoken('2 + 2 = 4.'),
        user('What about 9 / 2?'),
      ]),
    ).toBe(
      '<|start|>user<|message|>What is 2 + 2?<|end|>' +
        '<|start|>assistant<|channel|>final<|message|>2 + 2 = 4.<|end|>' +
        '<|start|>user<|message|>What about 9 / 2?<|end|><|start|>assistant',
    );
  });

  test('an output schema is a response format at the end of the developer message', () => {
    const schema: JsonObject = {
      description: 'a list',
      properties: { items: { type: 'array', items: { type: 'string' } } },
      type: 'object',
    };
    expect(
      historyFor([], {
        instructions: 'You are a helpful shopping assistant',
        output: { name: 'shopping_list', schema },
      }),
    ).toBe(
      '<|start|>developer<|message|># Instructions\n\nYou are a helpful shopping assistant\n\n' +
        `# Response Formats\n\n## shopping_list\n\n// a list\n${JSON.stringify(schema)}<|end|><|start|>assistant`,
    );
  });
});

describe('functions', () => {
  const typeOf = (inputSchema: JsonObject, description = 'd'): string => {
    const tool: ToolDefinition = { name: 'f', description, inputSchema };
    const prompt = render(request('hi', { tools: [tool] }));
    return prompt.replace(/^.*namespace functions \{\n\n/s, '').replace(/\n\n\} \/\/ namespace.*$/s, '');
  };

  test("a function with every schema feature is rendered as by OpenAI's renderer", () => {
    expect(
      typeOf(
        {
          description: 'params object',
          type: 'object',
          properties: {
            string: {
              type: 'string',
              title: 'STRING',
              description: 'A string',
              examples: ['hello', 'world'],
            },
            string_nullable: {
              type: 'string',
              nullable: true,
              description: 'A nullable string',
              default: 'the default',
            },
            string_enum: { type: 'string', enum: ['a', 'b', 'c'] },
            oneof_string_or_number: {
              oneOf: [
                { type: 'string', default: 'default_string_in_oneof' },
                { type: 'number', description: 'numbers can happen too' },
              ],
              description: 'a oneof',
              default: 20,
            },
          },
        },
        'A function with various complex schemas.',
      ),
    ).toBe(
      [
        '// A function with various complex schemas.',
        'type f = (_: // params object',
        '{',
        '// STRING',
        '//',
        '// A string',
        '// Examples:',
        '// - "hello"',
        '// - "world"',
        'string?: string,',
        '// A nullable string',
        'string_nullable?: string | null, // default: "the default"',
        'string_enum?: "a" | "b" | "c",',
        '// a oneof',
        '// default: 20',
        'oneof_string_or_number?:',
        ' | string // default: "default_string_in_oneof"',
        ' | number // numbers can happen too',
        ',',
        '}) => any;',
      ].join('\n'),
    );
  });

  test.each<[string, JsonObject, string]>([
    ['a list', { type: 'array', items: { type: 'integer' } }, 'number[]'],
    ['a list of anything', { type: 'array' }, 'Array<any>'],
    ['two types', { type: ['string', 'null'] }, 'string | null'],
    ['an anyOf', { anyOf: [{ type: 'string' }, { type: 'null' }] }, 'string | null'],
    ['a constant', { const: 'x' }, '"x"'],
    ['an enum of numbers', { enum: [1, 2] }, '1 | 2'],
    ['nothing', {}, 'any'],
    ['an object', { type: 'object', properties: { a: { type: 'boolean' } } }, '{\n    a?: boolean,\n    }'],
  ])('%s', (_, schema, type) => {
    expect(typeOf({ type: 'object', properties: { p: schema } })).toBe(
      `// d\ntype f = (_: {\np?: ${type},\n}) => any;`,
    );
  });

  test('a description of several lines stays a comment', () => {
    const inputSchema = { type: 'object', properties: { a: { description: 'x\ny' } } };
    expect(typeOf(inputSchema, 'one\ntwo')).toBe(
      '// one\n// two\ntype f = (_: {\n// x\n// y\na?: any,\n}) => any;',
    );
  });

  test('toolChoice none renders no functions, and a forced tool is the only one rendered', () => {
    const tools = ['a', 'b'].map(name => ({ name, description: name, inputSchema: { type: 'object' } }));
    expect(render(request('hi', { tools, toolChoice: 'none' }))).not.toContain('functions');
    const forced = render(request('hi', { tools, toolChoice: { name: 'b' } }));
    expect(forced).toContain('type b = () => any;');
    expect(forced).not.toContain('type a');
  });
});

describe('the history', () => {
  test('each call is followed by its own result, and a call without a result by an error', () => {
    const messages = readPrompt(
      render(
        request([user('hi'), call('a'), call('b'), call('c'), result('b', 'B'), result('a', 'A', true)]),
      ),
    );
    expect(messages.slice(2).map(({ role, to, content }) => [role, to, content])).toEqual([
      ['assistant', 'functions.get_weather', '{}'],
      ['functions.get_weather', 'assistant', 'Error: A'],
      ['assistant', 'functions.get_weather', '{}'],
      ['functions.get_weather', 'assistant', 'B'],
      ['assistant', 'functions.get_weather', '{}'],
      ['functions.get_weather', 'assistant', 'Error: The result of this call is not known.'],
    ]);
  });

  test('reasoning between calls stays, even after a user message, and several pieces stay separate', () => {
    const messages = readPrompt(
      render(
        request([user('hi'), thought('one'), thought('two'), call('a'), result('a', 'A'), user('faster!')]),
      ),
    );
    expect(messages.slice(2).map(({ channel, content }) => [channel, content])).toEqual([
      ['analysis', 'one'],
      ['analysis', 'two'],
      ['commentary', '{}'],
      ['commentary', 'A'],
      ['', 'faster!'],
    ]);
  });

  test('a preamble is not a final answer, whichever provider wrote it', () => {
    const preamble: Item = { ...spoken('I look.'), ...own('commentary') } as Item;
    for (const items of [
      [user('hi'), thought('t'), preamble, call('a')],
      [user('hi'), thought('t'), spoken('I look.'), call('a')],
    ]) {
      const messages = readPrompt(render(request(items)));
      expect(messages.slice(2, 4)).toMatchObject([
        { channel: 'analysis' },
        { channel: 'commentary', content: 'I look.', to: '' },
      ]);
    }
  });

  test("another provider's reasoning and control items are left out", () => {
    const foreign: Item = { type: 'reasoning', text: 'x', opaque: { provider: 'anthropic', data: {} } };
    const control: Item = { type: 'approval_request', callId: 'c', name: 'a', arguments: '{}' };
    expect(historyFor([user('hi'), foreign, control, { type: 'reasoning', text: 'y' }])).toBe(
      '<|start|>user<|message|>hi<|end|><|start|>assistant',
    );
  });

  test('leading system and developer messages belong to the instructions, later ones stay in place', () => {
    const message = (role: 'system' | 'developer', text: string): Item => ({
      type: 'message',
      role,
      content: [{ type: 'text', text }],
    });
    expect(
      historyFor([message('system', 's'), user('hi'), message('developer', 'd')], { instructions: 'i' }),
    ).toBe(
      '<|start|>developer<|message|># Instructions\n\ni\n\ns<|end|><|start|>user<|message|>hi<|end|>' +
        '<|start|>developer<|message|># Instructions\n\nd<|end|><|start|>assistant',
    );
  });

  test('a text file is rendered as text; an image and an unknown effort are rejected', () => {
    const file: Item = {
      type: 'message',
      role: 'user',
      content: [
        { type: 'text', text: 'look' },
        { type: 'file', url: 'data:text/plain,a%20b' },
      ],
    };
    expect(historyFor([file])).toContain('<|message|>look\n\na b<|end|>');
    const image: Item = {
      type: 'message',
      role: 'user',
      content: [{ type: 'image', url: 'data:image/png;base64,AA' }],
    };
    expect(() => render(request([image]))).toThrow(/reads only text.*an image/);
    expect(() => render(request('hi', { settings: { reasoningEffort: 'huge' } }))).toThrow(
      /"huge".*low, medium or high/,
    );
  });
});

describe('external text', () => {
  const piece = fc.constantFrom(
    '<|',
    '|>',
    'end',
    'start',
    '<|end|>',
    '<|call|>',
    '<',
    '|',
    ' ',
    'a',
    '<|start|>user<|message|>',
  );
  const text = fc.array(piece, { maxLength: 6 }).map(parts => parts.join(''));

  test('never becomes a special token, wherever it is', () => {
    fc.assert(
      fc.property(text, text, text, (a, b, c) => {
        const items: Item[] = [
          user(a),
          thought(b),
          { ...spoken(c), ...own('commentary') } as Item,
          call('1', b, a),
          result('1', c),
          user(b),
        ];
        const tools: ToolDefinition[] = [
          {
            name: a,
            description: b,
            inputSchema: {
              type: 'object',
              properties: { [c]: { type: 'string', description: a, enum: [b, c] } },
            },
          },
        ];
        const output = { name: a, schema: { type: 'object', description: c, title: b } };
        const roles = readPrompt(render(request(items, { instructions: c, tools, output }))).map(
          ({ role, to }) => (to === '' ? role : 'call'),
        );
        expect(roles).toEqual([
          'system',
          'developer',
          ...(a === '' ? [] : ['user']),
          'assistant',
          ...(c === '' ? [] : ['assistant']),
          'call',
          'call',
          ...(b === '' ? [] : ['user']),
        ]);
      }),
    );
  });

  test('is escaped no more than necessary', () => {
    expect(historyFor([user('<|end|> and <| and |> and < |end|>')])).toContain(
      '<|message|>< |end|> and <| and |> and < |end|><|end|>',
    );
  });
});
