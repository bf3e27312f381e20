import { describe, expect, test } from 'vitest';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ToolDefinition } from '../../../protocol/turn.ts';
import { request, result } from '../../support/adapters/requests.ts';
import {
  answer,
  body,
  call,
  called,
  contents,
  model,
  output,
  responded,
  user,
} from '../../support/adapters/wire/gemini-request.ts';

const tool: ToolDefinition = {
  name: 'weather',
  description: 'The weather.',
  inputSchema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { city: { type: 'string' } },
    additionalProperties: false,
  },
};

const system = (text: string): Item => ({
  type: 'message',
  role: 'system',
  content: [{ type: 'text', text }],
});

describe('the responses to calls', () => {
  test('are in call order directly after the calls, wherever the results are', () => {
    const calls = [call('a', { name: 'one' }), call('b', { name: 'two' })];
    const transcript = [userMessage('hi'), ...calls, userMessage('wait'), result('b', 'B'), result('a', 'A')];
    expect(contents(transcript, 'gemini-2.0-flash')).toEqual([
      user({ text: 'hi' }),
      model(called({}, 'one'), called({}, 'two')),
      user(responded({ result: 'A' }, {}, 'one'), responded({ result: 'B' }, {}, 'two')),
      user({ text: 'wait' }),
    ]);
  });

  test('are objects: the result, its display text, or the error', () => {
    const transcript: Item[] = [
      userMessage('hi'),
      ...['a', 'b', 'c', 'd'].map(id => call(id)),
      { type: 'tool_result', callId: 'a', output: { n: 0 }, isError: false },
      { type: 'tool_result', callId: 'b', output: 'long', shown: 'short', isError: false },
      { type: 'tool_result', callId: 'c', output: 'broken', isError: true },
      { type: 'tool_result', callId: 'd', output: null, isError: false },
    ];
    expect(contents(transcript)).toMatchObject([
      {},
      {},
      user(
        responded({ result: { n: 0 } }),
        responded({ result: 'short' }),
        responded({ error: 'broken' }),
        responded({ result: null }),
      ),
    ]);
  });

  test('are exactly one per call: a missing one is added, one without a call is left out', () => {
    const transcript = [userMessage('hi'), answer('Well'), result('gone', 'x'), call('a'), userMessage('on')];
    expect(contents(transcript, 'gemini-2.0-flash')).toEqual([
      user({ text: 'hi' }),
      model({ text: 'Well' }, called()),
      user(responded({ error: expect.any(String) })),
      user({ text: 'on' }),
    ]);
  });

  test('separate the steps, each with its own first call', () => {
    const transcript = [userMessage('hi'), call('a'), result('a', 'A'), call('b'), result('b', 'B')];
    const mark = { thoughtSignature: 'skip_thought_signature_validator' };
    expect(contents(transcript, 'gemini-3-flash')).toEqual([
      user({ text: 'hi' }),
      model(called(mark)),
      user(responded({ result: 'A' })),
      model(called(mark)),
      user(responded({ result: 'B' })),
    ]);
  });
});

describe('contents', () => {
  test('of one role are merged, with unchanged parts', () => {
    const transcript = [userMessage('a'), userMessage('b'), answer('c'), answer('d'), userMessage('e')];
    expect(contents(transcript)).toEqual([
      user({ text: 'a' }, { text: 'b' }),
      model({ text: 'c' }, { text: 'd' }),
      user({ text: 'e' }),
    ]);
  });

  test('start with the user, even if there is no user message', () => {
    expect(contents([])).toEqual([user({ text: '' })]);
    expect(contents([answer('Hello!')])).toEqual([user({ text: '' }), model({ text: 'Hello!' })]);
  });

  test('have system messages as user text; those at the start are instructions', () => {
    const transcript = [system('Be kind.'), userMessage('hi'), answer('hello'), system('It is late.')];
    const made = body(request(transcript, { instructions: 'Be brief.' }));
    expect(made.systemInstruction).toEqual({ parts: [{ text: 'Be brief.\n\nBe kind.' }] });
    expect(made.contents).toEqual([
      user({ text: 'hi' }),
      model({ text: 'hello' }),
      user({ text: 'It is late.' }),
    ]);
  });

  test('have no control items', () => {
    const control: Item[] = [
      { type: 'approval_request', callId: 'a', name: 'weather', arguments: '{}' },
      { type: 'approval_response', callId: 'a', approve: true },
      { type: 'tool_list', label: 'x', tools: [] },
    ];
    const made = body(request([...control, system('Be kind.'), ...control, userMessage('hi'), ...control]));
    expect(made).toEqual({
      contents: [user({ text: 'hi' })],
      systemInstruction: { parts: [{ text: 'Be kind.' }] },
    });
  });

  test('have images and files inline or by reference', () => {
    const message: Item = {
      type: 'message',
      role: 'user',
      content: [
        { type: 'text', text: 'See:' },
        { type: 'image', url: 'data:image/png;base64,aGk=' },
        { type: 'image', url: 'https://example.test/a.JPG?size=1' },
        { type: 'file', url: 'data:,h%20i', name: 'a.txt' },
        { type: 'file', url: 'gs://bucket/x', mediaType: 'application/pdf' },
        { type: 'file', url: 'https://youtu.be/abc' },
      ],
    };
    expect(contents([message])).toEqual([
      user(
        { text: 'See:' },
        { inlineData: { mimeType: 'image/png', data: 'aGk=' } },
        { fileData: { mimeType: 'image/jpeg', fileUri: 'https://example.test/a.JPG?size=1' } },
        { inlineData: { mimeType: 'text/plain', data: 'aCBp' } },
        { fileData: { mimeType: 'application/pdf', fileUri: 'gs://bucket/x' } },
        { fileData: { fileUri: 'https://youtu.be/abc' } },
      ),
    ]);
  });
});

describe('tools and settings', () => {
  test('tools are described by complete JSON Schemas', () => {
    expect(body(request('hi', { tools: [tool] })).tools).toEqual([
      {
        functionDeclarations: [
          {
            name: 'weather',
            description: 'The weather.',
            parametersJsonSchema: {
              type: 'object',
              properties: { city: { type: 'string' } },
              additionalProperties: false,
            },
          },
        ],
      },
    ]);
  });

  test.each([
    ['auto', { mode: 'AUTO' }],
    ['required', { mode: 'ANY' }],
    ['none', { mode: 'NONE' }],
    [{ name: 'weather' }, { mode: 'ANY', allowedFunctionNames: ['weather'] }],
  ] as const)('the choice %j is a mode, and the tools stay', (toolChoice, functionCallingConfig) => {
    const made = body(request('hi', { tools: [tool], toolChoice }));
    expect(made.toolConfig).toEqual({ functionCallingConfig });
    expect(made.tools).toHaveLength(1);
  });

  test('without tools there is no tool choice', () => {
    expect(body(request('hi', { toolChoice: 'none' }))).toEqual({ contents: [user({ text: 'hi' })] });
  });

  test("settings and provider options go into the body, and the request's override the adapter's", () => {
    const settings = { temperature: 0, topP: 0.5, maxOutputTokens: 9, parallelToolCalls: false };
    const providerOptions = { generationConfig: { seed: 1 }, tools: [{ googleSearch: {} }] };
    const modelRequest = request('hi', { settings, tools: [tool], providerOptions });
    const made = body(modelRequest, 'gemini-3-flash', { generationConfig: { seed: 2, topK: 3 } });
    expect(made.generationConfig).toEqual({
      temperature: 0,
      topP: 0.5,
      maxOutputTokens: 9,
      seed: 1,
      topK: 3,
    });
    expect(made.tools).toMatchObject([{ functionDeclarations: [{}] }, { googleSearch: {} }]);
  });

  test.each([
    ['gemini-2.5-flash', 'none', { thinkingBudget: 0 }],
    ['gemini-2.5-flash', 'low', { thinkingBudget: 1024 }],
    ['gemini-2.5-pro', 'high', { thinkingBudget: 24_576 }],
    ['gemini-2.5-pro', '2048', { thinkingBudget: 2048 }],
    ['gemini-2.5-pro', 'whatever', { thinkingBudget: -1 }],
    ['gemini-3-flash-preview', 'none', { thinkingLevel: 'minimal' }],
    ['gemini-3-flash-preview', 'medium', { thinkingLevel: 'medium' }],
    ['models/gemini-3.1-pro-preview', 'minimal', { thinkingLevel: 'low' }],
    ['gemini-3.8-flash', 'minimal', { thinkingLevel: 'low' }],
    ['gemini-flash-latest', 'none', { thinkingLevel: 'low' }],
    ['gemini-pro-latest', 'xhigh', { thinkingLevel: 'high' }],
  ])('%s thinks with effort %s by %j', (name, reasoningEffort, thinkingConfig) => {
    const made = body(request('hi', { settings: { reasoningEffort } }), name);
    expect(made.generationConfig).toEqual({ thinkingConfig });
  });
});

describe('an output schema', () => {
  const json = { responseMimeType: 'application/json', responseJsonSchema: output.schema };

  test('is enforced by the provider; with tools only from Gemini 3 on', () => {
    expect(body(request('hi', { output })).generationConfig).toEqual(json);
    expect(body(request('hi', { output, tools: [tool] }), 'gemini-3-flash').generationConfig).toEqual(json);
  });

  test.each([
    ['its own', { tools: [tool] }],
    ['the provider’s', { providerOptions: { tools: [{ googleSearch: {} }] } }],
    ['its own, off', { tools: [tool], toolChoice: 'none' as const }],
  ])('is described in words before Gemini 3 if there are tools (%s)', (_, more) => {
    const made = body(request('hi', { instructions: 'Be brief.', output, ...more }), 'gemini-2.5-flash');
    expect(made.generationConfig).toBeUndefined();
    expect(JSON.stringify(made.systemInstruction)).toMatch(/Be brief\..*JSON Schema.*city/);
  });
});
