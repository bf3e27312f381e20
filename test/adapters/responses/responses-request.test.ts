import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { responsesBody } from '../../../adapters/responses/request.ts';
import type { Item } from '../../../protocol/item.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, ModelTurn, ToolDefinition } from '../../../protocol/turn.ts';
import { readRecordedJson, readRecording, recordingsArePresent } from '../../support/adapters/recordings.ts';
import { type ReplayServer, startReplayServer } from '../../support/adapters/replay-server.ts';
import { calling, request, result } from '../../support/adapters/requests.ts';
import { answer, body, DIALECT, OPTIONS } from '../../support/adapters/wire/responses-request.ts';

const tool: ToolDefinition = {
  name: 'get_weather',
  description: 'The weather.',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

describe('the body of a Responses request', () => {
  test('a minimal request has only model and input', () => {
    expect(body(request('hi'))).toEqual({ model: 'gpt-4.1', input: [{ role: 'user', content: 'hi' }] });
  });

  test('tools are flat, and strict only on request', () => {
    const { tools, tool_choice } = body(request('hi', { tools: [tool, { ...tool, strict: true }] }));
    expect(tools).toEqual([
      {
        type: 'function',
        name: 'get_weather',
        description: 'The weather.',
        parameters: tool.inputSchema,
        strict: false,
      },
      expect.objectContaining({ strict: true }),
    ]);
    expect(tool_choice).toBe('auto');
  });

  test('a tool without input has empty properties', () => {
    const { tools } = body(request('hi', { tools: [{ ...tool, inputSchema: { type: 'object' } }] }));
    expect(tools).toMatchObject([{ parameters: { type: 'object', properties: {} } }]);
  });

  test('toolChoice none keeps the tools and sends none; without tools neither is sent', () => {
    expect(body(request('hi', { tools: [tool], toolChoice: 'none' }))).toMatchObject({
      tools: [{ name: 'get_weather' }],
      tool_choice: 'none',
    });
    const bare = body(request('hi', { toolChoice: 'none', settings: { parallelToolCalls: false } }));
    expect(Object.keys(bare)).toEqual(['model', 'input']);
  });

  test('a forced tool is named', () => {
    expect(body(request('hi', { tools: [tool], toolChoice: { name: 'get_weather' } })).tool_choice).toEqual({
      type: 'function',
      name: 'get_weather',
    });
    expect(body(request('hi', { tools: [tool], toolChoice: 'required' })).tool_choice).toBe('required');
  });

  test('settings, instructions and output are mapped', () => {
    const sent = body(
      request('hi', {
        instructions: 'Be brief.',
        tools: [tool],
        output: { name: 'the city', schema: { type: 'object' } },
        settings: {
          temperature: 0,
          topP: 0.5,
          maxOutputTokens: 9,
          parallelToolCalls: false,
          reasoningEffort: 'low',
        },
      }),
    );
    expect(sent).toMatchObject({
      instructions: 'Be brief.',
      temperature: 0,
      top_p: 0.5,
      max_output_tokens: 9,
      parallel_tool_calls: false,
      reasoning: { effort: 'low' },
      text: { format: { type: 'json_schema', name: 'the_city', schema: { type: 'object' } } },
    });
  });

  test('schemas requested as strict are sent in their strict form, or else as not strict', () => {
    const optional = { ...tool.inputSchema, required: [] };
    const sent = (schema: JsonObject) =>
      body(
        request('hi', {
          tools: [{ ...tool, inputSchema: schema, strict: true }],
          output: { name: 'city', schema, strict: true },
        }),
      );
    const strict = { ...tool.inputSchema, additionalProperties: false };
    expect(sent(tool.inputSchema)).toMatchObject({
      tools: [{ parameters: strict, strict: true }],
      text: { format: { schema: strict, strict: true } },
    });
    expect(sent(optional)).toMatchObject({
      tools: [{ parameters: optional, strict: false }],
      text: { format: { schema: optional, strict: false } },
    });
  });

  test('a provider without storage gets no store option, and the whole transcript', () => {
    const modelRequest = request([answer('a'), userMessage('b')], { continuation: 'resp_1' });
    const sent = responsesBody({ ...DIALECT, remembers: false }, OPTIONS)(modelRequest, { stream: false });
    expect(Object.keys(sent)).toEqual(['model', 'input']);
    expect(sent.input).toHaveLength(2);
  });

  test("provider options come last, the request's over the adapter's, and their tools are added to the agent's", () => {
    const sent = body(
      request('hi', {
        tools: [tool],
        settings: { reasoningEffort: 'low' },
        providerOptions: {
          service_tier: 'flex',
          reasoning: { summary: 'auto' },
          tools: [{ type: 'web_search' }],
        },
      }),
      { providerOptions: { service_tier: 'default', user: 'u' }, encryptedReasoning: true },
    );
    expect(sent).toMatchObject({
      service_tier: 'flex',
      user: 'u',
      reasoning: { effort: 'low', summary: 'auto' },
      tools: [{ name: 'get_weather' }, { type: 'web_search' }],
      include: ['reasoning.encrypted_content'],
    });
  });

  test('store: false in the provider options is stateless too', () => {
    const sent = body(
      request([answer('a'), userMessage('b')], { continuation: 'resp_1', providerOptions: { store: false } }),
    );
    expect(sent).toMatchObject({ store: false });
    expect(sent).not.toHaveProperty('previous_response_id');
    expect(sent.input).toHaveLength(2);
  });
});

describe.skipIf(!recordingsArePresent)('recorded conversations', () => {
  let server: ReplayServer;
  beforeAll(async () => {
    server = await startReplayServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  /** Runs a turn that is answered with the recording; returns it and the body that was sent. */
  async function turnFor(recording: string, of: ModelRequest, options: { model: string; store?: boolean }) {
    const isStream = recording.endsWith('.sse');
    server.answer({
      headers: { 'content-type': isStream ? 'text/event-stream' : 'application/json' },
      chunks: [readRecording(`openai-responses/${recording}`)],
    });
    const adapter = openaiResponses({ apiKey: 'test', baseURL: server.baseURL, ...options });
    const turn = await adapter.generate(of, calling());
    return { turn, sent: server.requests[0]?.body ?? {} };
  }

  function recordedRequest(name: string): JsonObject {
    const { stream: _, store, ...rest } = readRecordedJson(`openai-responses/${name}`);
    return { ...rest, ...(store === false ? { store } : {}) };
  }

  const next = (transcript: Item[], turn: ModelTurn, ...more: Item[]): Item[] => [
    ...transcript,
    ...turn.items,
    ...more,
  ];

  test('a chain of previous response ids sends only new items, and all tools again', async () => {
    const name = (at: number, kind: string) => `previous-response-id-tool-chain.0${at}.${kind}.json`;
    const recorded = recordedRequest(name(1, 'request'));
    const [{ parameters }] = recorded.tools as [{ parameters: JsonObject }];
    const tools = [{ ...tool, inputSchema: parameters, strict: true }];
    let transcript: Item[] = [userMessage('Say hi in one word, no punctuation.')];
    const rounds: Item[][] = [
      [userMessage("What's the weather in New York?")],
      [
        result(
          'call_P1vN20XNjvNyIm0VshHYzmSA',
          'Location not recognized. The tool only supports the airport code "NYC". Call again with city="NYC".\n\nFix the errors and try again.',
        ),
      ],
      [result('call_N2BikjqNxghwNIwHl2XKfb0F', 'Sunny, 72F')],
      [],
    ];
    let continuation: JsonValue | undefined;
    for (const [index, more] of rounds.entries()) {
      const of = request(transcript, { tools, ...omitUndefined({ continuation }) });
      const { turn, sent } = await turnFor(name(index + 1, 'response'), of, { model: 'gpt-4.1' });
      const expected = recordedRequest(name(index + 1, 'request'));
      expect(sent).toEqual({
        ...expected,
        tools: (expected.tools as JsonObject[]).map(entry => ({ ...entry, description: 'The weather.' })),
      });
      continuation = turn.continuation;
      transcript = next(transcript, turn, ...more);
    }
  });

  test('a stateless conversation sends back reasoning, calls and results in order', async () => {
    const name = (at: number, kind: string) => `stream-reasoning-tool-multiturn.0${at}.${kind}`;
    const [recordedTool] = recordedRequest(name(1, 'request.json')).tools as [JsonObject];
    const tools = [
      {
        name: 'weather',
        description: 'Gets current weather for a location',
        inputSchema: recordedTool?.parameters as JsonObject,
      },
    ];
    let transcript: Item[] = [userMessage("What's the weather in Berlin? (52.5200, 13.4050)")];
    const rounds: Item[][] = [
      [result('call_E9m0fralKLjUmND1MuTXjnqm', 'Current weather at 52.5200, 13.4050: 15°C, Wind: 10 km/h')],
      [userMessage("What's the weather in Paris? (48.8575, 2.3514)")],
      [result('call_eX5cppckqGeLFEXcFS3pW2cE', 'Current weather at 48.8575, 2.3514: 15°C, Wind: 10 km/h')],
      [],
    ];
    for (const [index, more] of rounds.entries()) {
      const of = request(transcript, { tools });
      const { turn, sent } = await turnFor(name(index + 1, 'response.sse'), of, {
        model: 'gpt-5-nano',
        store: false,
      });
      const { tool_choice, ...rest } = sent;
      expect(tool_choice).toBe('auto');
      expect(lengthsOfEncrypted(rest)).toEqual(
        lengthsOfEncrypted(recordedRequest(name(index + 1, 'request.json'))),
      );
      expect(turn.continuation).toBeUndefined();
      transcript = next(transcript, turn, ...more);
    }
  });

  /** The recorded client sent back the other of the two encryptions in the stream. */
  function lengthsOfEncrypted(sent: JsonObject): JsonObject {
    const items = (sent.input as JsonObject[]).map(item =>
      typeof item.encrypted_content === 'string' ? { ...item, encrypted_content: 'encrypted' } : item,
    );
    return { ...sent, input: items };
  }

  test.each([
    [
      'reasoning and its call',
      'reasoning-tool',
      'gpt-5',
      [result('call_gL7JE6GDeGGsFubqO2XGytyO', 'plan updated')],
    ],
    ['reasoning around a web search', 'web-search', 'gpt-5', [userMessage('how about Mexico City?')]],
  ])('%s are sent back completely, as recorded', async (_, name, model, more) => {
    const first = recordedRequest(`${name}.01.request.json`);
    const [{ content }] = first.input as [{ content: string }];
    const transcript = [userMessage(content)];
    const { turn } = await turnFor(`${name}.01.response.json`, request(transcript), { model });
    const { sent } = await turnFor(`${name}.02.response.json`, request(next(transcript, turn, ...more)), {
      model,
    });
    const recorded = recordedRequest(`${name}.02.request.json`);
    expect(sent.input).toEqual(recorded.input);
    expect(sent.include).toEqual(recorded.include);
  });

  test('a commentary before a call keeps its phase and its place', async () => {
    const name = 'stream-text-and-tool-and-reasoning';
    const transcript = [userMessage('What is the capital of PotatoLand?')];
    const { turn } = await turnFor(`${name}.01.response.sse`, request(transcript), { model: 'gpt-5.5' });
    const all = next(transcript, turn, result('call_LabG58Uhrq9kZvR52BYKjToD', 'Potato City'));
    const { sent } = await turnFor(`${name}.02.response.sse`, request(all), { model: 'gpt-5.5' });
    const shape = (input: JsonValue | undefined) =>
      (input as JsonObject[]).map(({ type, role, id, phase, call_id }) => ({
        type,
        role,
        id,
        phase,
        call_id,
      }));
    expect(shape(sent.input)).toEqual(shape(recordedRequest(`${name}.02.request.json`).input));
  });
});

describe('the prompt cache', () => {
  test('has its key, its lifetime or its retention in the body, which provider options can change', async () => {
    const promptCache = { key: 'support', ttl: '12h', mode: 'implicit' } as const;
    const bodies: JsonObject[] = [];
    const model = openaiResponses({
      ...sending(bodies),
      promptCache,
      providerOptions: { prompt_cache_options: { ttl: '30m' } },
    });
    const older = openaiResponses({ ...sending(bodies), promptCache: { retention: '24h' } });
    await model.generate(request('hi'), calling());
    await older.generate(request('hi'), calling());
    expect(bodies[0]).toMatchObject({
      prompt_cache_key: 'support',
      prompt_cache_options: { mode: 'implicit', ttl: '30m' },
      input: [{ role: 'user', content: 'hi' }],
    });
    expect(bodies[1]).toMatchObject({ prompt_cache_retention: '24h' });
    expect(bodies[1]).not.toHaveProperty('prompt_cache_options');
  });

  test('explicit: every message of the user ends a cached beginning, and stays marked', async () => {
    const bodies: JsonObject[] = [];
    const model = openaiResponses({ ...sending(bodies), promptCache: { mode: 'explicit' } });
    const first = userMessage('one');
    await model.generate(request([first]), calling());
    await model.generate(request([first, answer('two'), userMessage('three')]), calling());
    const marked = (text: string) => ({
      role: 'user',
      content: [{ type: 'input_text', text, prompt_cache_breakpoint: { mode: 'explicit' } }],
    });
    expect(bodies.map(({ input }) => input)).toEqual([
      [marked('one')],
      [
        marked('one'),
        { role: 'assistant', content: [{ type: 'output_text', text: 'two' }] },
        marked('three'),
      ],
    ]);
  });

  test.each([
    [{ ttl: '24h' }, 'promptCache.ttl of openaiResponses to be "30m" or "12h", got "24h"'],
    [{ key: '' }, 'promptCache.key of openaiResponses to be a non-empty string'],
    [
      { ttl: '30m', retention: '24h' },
      'promptCache of openaiResponses has retention, which is for models before',
    ],
    [{ lifetime: '12h' }, 'lifetime'],
  ])('refuses %j by name', (promptCache, said) => {
    const options = { model: 'gpt-5.6', ...JSON.parse(JSON.stringify({ promptCache })) };
    expect(() => openaiResponses(options)).toThrow(said);
  });
});

/** Connects to a provider that keeps the bodies and says nothing. */
function sending(bodies: JsonObject[]) {
  return {
    model: 'gpt-5.6',
    apiKey: 'test',
    store: false,
    fetch: async (_: unknown, init?: RequestInit) => {
      bodies.push(JSON.parse(String(init?.body)));
      return Response.json({ id: 'resp_1', status: 'completed', output: [] });
    },
  };
}
