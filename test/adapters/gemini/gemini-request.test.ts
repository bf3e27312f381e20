import { describe, expect, test } from 'vitest';
import { growingContents } from '../../../adapters/gemini/contents.ts';
import { bodyOf } from '../../../adapters/gemini/request.ts';
import { gemini } from '../../../adapters/gemini.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, ModelTurn, ToolDefinition } from '../../../protocol/turn.ts';
import { calling, request, result } from '../../support/adapters/requests.ts';

function body(of: ModelRequest, model = 'gemini-2.5-flash', providerOptions?: JsonObject): JsonObject {
  return bodyOf(of, { model, contentsOf: growingContents(model), providerOptions });
}

function contents(transcript: readonly Item[], model?: string): JsonValue | undefined {
  return body(request(transcript), model).contents;
}

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
const output = {
  name: 'city',
  schema: { type: 'object', properties: { city: { type: 'string' } } } satisfies JsonObject,
};
const mine = (data: JsonValue) => ({ opaque: { provider: 'gemini', data } });
const foreign = { opaque: { provider: 'anthropic', data: { thoughtSignature: 'bad', hasId: true } } };
const call = (callId: string, more: Partial<Item & { type: 'tool_call' }> = {}): Item => ({
  type: 'tool_call',
  callId,
  name: 'weather',
  arguments: '{"city":"Rome"}',
  ...more,
});
const answer = (text: string, more: object = {}): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text }],
  ...more,
});
const system = (text: string): Item => ({
  type: 'message',
  role: 'system',
  content: [{ type: 'text', text }],
});
const user = (...parts: JsonObject[]): JsonObject => ({ role: 'user', parts });
const model = (...parts: JsonObject[]): JsonObject => ({ role: 'model', parts });
const called = (more: JsonObject = {}, name = 'weather') => ({
  functionCall: { name, args: { city: 'Rome' } },
  ...more,
});
const responded = (response: JsonObject, more: JsonObject = {}, name = 'weather'): JsonObject => ({
  functionResponse: { name, response, ...more },
});

/** What comes back of a turn the provider answered with, its items stored as JSON, with a result of each call. */
async function replayed(parts: JsonObject[], name = 'gemini-3-flash'): Promise<JsonValue | undefined> {
  const response = { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }] };
  const fetch = async () => Response.json(response);
  const adapter = gemini({ model: name, apiKey: 'test', baseURL: 'http://provider.test', fetch });
  const turn: ModelTurn = await adapter.generate(request('hi'), calling());
  const items: Item[] = JSON.parse(JSON.stringify(turn.items));
  const results = turn.toolCalls.map(({ callId }) => result(callId, 'sunny'));
  return body(request([userMessage('hi'), ...items, ...results, userMessage('on')]), name).contents;
}

describe('a turn that goes back', () => {
  test('has its parts as they came: signatures, order and cuts', async () => {
    const parts = [
      { text: 'Let me ', thoughtSignature: 'czE=' },
      { text: 'see.' },
      { executableCode: { language: 'PYTHON', code: '1' }, thoughtSignature: 'czI=' },
      { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
      { functionCall: { name: 'weather', args: { city: 'Rome', n: 0 } }, thoughtSignature: 'a+/b_-==' },
      { functionCall: { name: 'weather', args: {} } },
      { text: '', thoughtSignature: 'czM=' },
    ];
    expect(await replayed(parts)).toEqual([
      user({ text: 'hi' }),
      model(...parts),
      user(responded({ result: 'sunny' }), responded({ result: 'sunny' })),
      user({ text: 'on' }),
    ]);
  });

  test('has a picture with its signature', async () => {
    const parts = [
      { text: 'Look:' },
      { inlineData: { mimeType: 'image/png', data: 'aGk=' }, thoughtSignature: 'cw==' },
    ];
    expect(await replayed(parts)).toEqual([user({ text: 'hi' }), model(...parts), user({ text: 'on' })]);
  });

  test('echoes the ids the provider gave, and none of ours', async () => {
    const given = { functionCall: { name: 'weather', args: {}, id: 'their' }, thoughtSignature: 'cw==' };
    const ours = { functionCall: { name: 'weather', args: {} } };
    expect(await replayed([given, ours])).toEqual([
      user({ text: 'hi' }),
      model(given, ours),
      user(responded({ result: 'sunny' }, { id: 'their' }), responded({ result: 'sunny' })),
      user({ text: 'on' }),
    ]);
  });

  test('echoes an id as the run renamed it, in call and response alike', () => {
    const renamed = call('their_2', mine({ hasId: true, thoughtSignature: 'cw==' }));
    expect(contents([userMessage('hi'), renamed, result('their_2', 'sunny')])).toEqual([
      user({ text: 'hi' }),
      model({
        functionCall: { name: 'weather', args: { city: 'Rome' }, id: 'their_2' },
        thoughtSignature: 'cw==',
      }),
      user(responded({ result: 'sunny' }, { id: 'their_2' })),
    ]);
  });

  test('has thoughts only signed, and never as text', async () => {
    const signed = { text: 'hm', thought: true, thoughtSignature: 'cw==' };
    expect(await replayed([{ text: 'aha', thought: true }, { text: 'Yes.' }])).toEqual([
      user({ text: 'hi' }),
      model({ text: 'Yes.' }),
      user({ text: 'on' }),
    ]);
    expect(await replayed([signed, { text: 'Yes.' }])).toEqual([
      user({ text: 'hi' }),
      model(signed, { text: 'Yes.' }),
      user({ text: 'on' }),
    ]);
  });

  test('leaves out what the search found', () => {
    const found: Item = { type: 'provider_item', kind: 'groundingMetadata', ...mine({ queries: [] }) };
    expect(contents([userMessage('hi'), answer('Sunny.'), found])).toEqual([
      user({ text: 'hi' }),
      model({ text: 'Sunny.' }),
    ]);
  });

  test('is a text without a signature once somebody has edited it', () => {
    const edited = answer('Sunny!', mine({ spans: [{ length: 3, thoughtSignature: 'cw==' }] }));
    expect(contents([userMessage('hi'), edited])).toEqual([user({ text: 'hi' }), model({ text: 'Sunny!' })]);
  });
});

describe('a turn of another provider', () => {
  const turn: Item[] = [
    { type: 'reasoning', text: 'secret', ...foreign },
    answer('Let me see.', foreign),
    call('a', foreign),
    call('b', foreign),
    result('a', 'sunny'),
    result('b', 'rainy'),
  ];
  const responses = user(responded({ result: 'sunny' }), responded({ result: 'rainy' }));

  test.each(['gemini-2.5-pro', 'gemini-3-pro-preview', 'gemini-flash-latest'])(
    'loses its opaque data, and its first call is marked as not signed (%s)',
    name => {
      expect(contents([userMessage('hi'), ...turn], name)).toEqual([
        user({ text: 'hi' }),
        model(
          { text: 'Let me see.' },
          called({ thoughtSignature: 'skip_thought_signature_validator' }),
          called(),
        ),
        responses,
      ]);
    },
  );

  test.each(['gemini-2.0-flash', 'gemini-1.5-pro', 'tunedModels/mine', 'gemma-3-27b-it', 'gemini-exp-1206'])(
    'has no mark where calls are not signed (%s)',
    name => {
      expect(contents([userMessage('hi'), ...turn], name)).toEqual([
        user({ text: 'hi' }),
        model({ text: 'Let me see.' }, called(), called()),
        responses,
      ]);
    },
  );

  test('a call an older Gemini made unsigned is marked for Gemini 3 only', () => {
    const own = [userMessage('hi'), call('a', mine({ hasId: true })), result('a', 'sunny')];
    expect(JSON.stringify(contents(own, 'gemini-2.5-flash'))).not.toContain('thoughtSignature');
    expect(JSON.stringify(contents(own, 'gemini-3.1-pro-preview'))).toContain('skip_thought');
  });

  test('arguments that are no object are sent as none', () => {
    const broken = [call('a', { arguments: '{"city":' }), call('b', { arguments: '[]' })];
    expect(contents([userMessage('hi'), ...broken], 'gemini-2.0-flash')).toMatchObject([
      {},
      model({ functionCall: { name: 'weather', args: {} } }, { functionCall: { name: 'weather', args: {} } }),
      {},
    ]);
  });

  test('its pictures stay out, and so does an answer that says nothing', () => {
    const picture: Item = {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'image', url: 'data:image/png;base64,aGk=' }],
    };
    expect(contents([userMessage('hi'), picture, answer(''), userMessage('on')])).toEqual([
      user({ text: 'hi' }, { text: 'on' }),
    ]);
  });
});

describe('the responses to calls', () => {
  test('stand in call order right behind the calls, wherever the results stand', () => {
    const calls = [call('a', { name: 'one' }), call('b', { name: 'two' })];
    const transcript = [userMessage('hi'), ...calls, userMessage('wait'), result('b', 'B'), result('a', 'A')];
    expect(contents(transcript, 'gemini-2.0-flash')).toEqual([
      user({ text: 'hi' }),
      model(called({}, 'one'), called({}, 'two')),
      user(responded({ result: 'A' }, {}, 'one'), responded({ result: 'B' }, {}, 'two')),
      user({ text: 'wait' }),
    ]);
  });

  test('are objects: the result, what is shown of it, or the error', () => {
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

  test('are one for each call: a missing one is made up, one without its call left out', () => {
    const transcript = [userMessage('hi'), answer('Well'), result('gone', 'x'), call('a'), userMessage('on')];
    expect(contents(transcript, 'gemini-2.0-flash')).toEqual([
      user({ text: 'hi' }),
      model({ text: 'Well' }, called()),
      user(responded({ error: expect.any(String) })),
      user({ text: 'on' }),
    ]);
  });

  test('divide the steps, each with its own first call', () => {
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
  test('of one role are joined, their parts untouched', () => {
    const transcript = [userMessage('a'), userMessage('b'), answer('c'), answer('d'), userMessage('e')];
    expect(contents(transcript)).toEqual([
      user({ text: 'a' }, { text: 'b' }),
      model({ text: 'c' }, { text: 'd' }),
      user({ text: 'e' }),
    ]);
  });

  test('begin with the user, also where nobody has said anything', () => {
    expect(contents([])).toEqual([user({ text: '' })]);
    expect(contents([answer('Hello!')])).toEqual([user({ text: '' }), model({ text: 'Hello!' })]);
  });

  test('have system messages as words of the user; those at the beginning are instructions', () => {
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

  test('have pictures and files inline or by reference', () => {
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
  test('tools are described by whole JSON Schemas', () => {
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

  test('without tools there is no choice', () => {
    expect(body(request('hi', { toolChoice: 'none' }))).toEqual({ contents: [user({ text: 'hi' })] });
  });

  test('settings and provider options go into the body, the request before the adapter', () => {
    const settings = { temperature: 0, topP: 0.5, maxOutputTokens: 9, parallelToolCalls: false };
    const providerOptions = { generationConfig: { seed: 1 }, tools: [{ googleSearch: {} }] };
    const asked = request('hi', { settings, tools: [tool], providerOptions });
    const made = body(asked, 'gemini-3-flash', { generationConfig: { seed: 2, topK: 3 } });
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
    ['gemini-pro-latest', 'xhigh', { thinkingLevel: 'high' }],
  ])('%s thinks with effort %s by %j', (name, reasoningEffort, thinkingConfig) => {
    const made = body(request('hi', { settings: { reasoningEffort } }), name);
    expect(made.generationConfig).toEqual({ thinkingConfig });
  });
});

describe('an output schema', () => {
  const json = { responseMimeType: 'application/json', responseJsonSchema: output.schema };

  test('is enforced by the provider, beside tools from Gemini 3 on', () => {
    expect(body(request('hi', { output })).generationConfig).toEqual(json);
    expect(body(request('hi', { output, tools: [tool] }), 'gemini-3-flash').generationConfig).toEqual(json);
  });

  test.each([
    ['its own', { tools: [tool] }],
    ['the provider’s', { providerOptions: { tools: [{ googleSearch: {} }] } }],
    ['its own, off', { tools: [tool], toolChoice: 'none' as const }],
  ])('is asked for in words before Gemini 3 where there are tools (%s)', (_, more) => {
    const made = body(request('hi', { instructions: 'Be brief.', output, ...more }), 'gemini-2.5-flash');
    expect(made.generationConfig).toBeUndefined();
    expect(JSON.stringify(made.systemInstruction)).toMatch(/Be brief\..*JSON Schema.*city/);
  });
});
