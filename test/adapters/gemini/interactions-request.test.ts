import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { type GeminiOptions, gemini } from '../../../adapters/gemini.ts';
import { arrayOf, objectsOf } from '../../../adapters/turn/json-access.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { tool } from '../../../tools/tool.ts';
import { calling, collect, rejection, request, result } from '../../support/adapters/requests.ts';
import {
  answering,
  bodyOf,
  call,
  events,
  generate,
  interaction,
  SEARCH,
  says,
  thought,
} from '../../support/adapters/wire/interaction-stream.ts';

const input = (text: string): JsonObject => ({ type: 'user_input', content: [{ type: 'text', text }] });
const TOOL = {
  name: 'look',
  description: 'Looks.',
  inputSchema: { $schema: 'x', type: 'object', properties: {} },
};
const called = (callId: string, more: Partial<Item> = {}): Item => ({
  type: 'tool_call',
  callId,
  name: 'look',
  arguments: '{"a":1}',
  ...(more as object),
});
const system = (text: string): Item => ({
  type: 'message',
  role: 'system',
  content: [{ type: 'text', text }],
});

test.each([
  [
    { api: 'interaction' },
    'expected api of gemini to be "generateContent" or "interactions", got "interaction"',
  ],
  [{ store: false }, 'store of gemini is an option of api: "interactions"'],
])('the options %j are refused by name', (options, said) => {
  const given = { model: 'gemini-3.8-flash', ...options } as GeminiOptions;
  expect(() => gemini(given)).toThrow(said);
});

describe('a request', () => {
  test('has instructions, tools, settings and the transcript as steps', async () => {
    const { adapter, bodies, urls } = answering([events(interaction([says('ok')]))]);
    const asked = request([system('Mind the gap.'), userMessage('hi')], {
      instructions: 'Be brief.',
      tools: [TOOL],
      settings: { temperature: 0, topP: 0.5, maxOutputTokens: 9, reasoningEffort: 'xhigh' },
    });
    await collect(adapter.stream(asked, calling()));
    expect(urls).toEqual(['http://provider.test/v1beta/interactions']);
    expect(bodies).toEqual([
      {
        model: 'gemini-3.8-flash',
        system_instruction: 'Be brief.\n\nMind the gap.',
        input: [input('hi')],
        tools: [
          {
            type: 'function',
            name: 'look',
            description: 'Looks.',
            parameters: { type: 'object', properties: {} },
          },
        ],
        generation_config: {
          temperature: 0,
          top_p: 0.5,
          max_output_tokens: 9,
          thinking_level: 'high',
          tool_choice: 'auto',
        },
        stream: true,
      },
    ]);
  });

  const choices: [choice: ModelRequest['toolChoice'], expected: JsonValue][] = [
    ['auto', 'auto'],
    ['required', 'any'],
    ['none', 'none'],
    [{ name: 'look' }, { allowed_tools: { mode: 'any', tools: ['look'] } }],
  ];
  test.each(choices)(
    'for the tool choice %j has %j, and without tools of ours none',
    async (toolChoice, sent) => {
      expect(await bodyOf('hi', { tools: [TOOL], toolChoice })).toMatchObject({
        generation_config: { tool_choice: sent },
      });
      const providerOptions = { tools: [{ type: 'google_search' }], service_tier: 'flex' };
      const alone = await bodyOf('hi', { toolChoice, providerOptions });
      expect(alone).toMatchObject(providerOptions);
      expect(alone.generation_config).toBeUndefined();
    },
  );

  test.each([
    ['gemini-3.6-flash', 'none', 'minimal'],
    ['gemini-3.8-flash', 'minimal', 'low'],
    ['gemini-flash-latest', 'none', 'low'],
    ['gemini-3.1-pro-preview', 'minimal', 'low'],
    ['gemini-2.5-flash', 'none', 'low'],
    ['gemini-2.5-flash', 'medium', 'medium'],
    ['gemini-3.8-flash', '-1', undefined],
    ['gemini-3.8-flash', '0', 'low'],
    ['gemini-3.8-flash', '8192', 'medium'],
    ['gemini-3.8-flash', '20000', 'high'],
  ])('to %s with the effort %s has the thinking level %s', async (model, reasoningEffort, level) => {
    const body = await bodyOf('hi', { settings: { reasoningEffort } }, { model });
    expect(body.generation_config).toEqual(level && { thinking_level: level });
  });

  test('has an output schema as its format; with tools before Gemini 3, as an instruction', async () => {
    const schema = { type: 'object', properties: { a: { type: 'number' } } };
    const output = { name: 'answer', schema: { $schema: 'x', ...schema } };
    const format = { type: 'text', mime_type: 'application/json', schema };
    expect(await bodyOf('hi', { output, tools: [TOOL] })).toMatchObject({ response_format: format });
    const model = 'gemini-2.5-flash';
    expect(await bodyOf('hi', { output }, { model })).toMatchObject({ response_format: format });
    const older = await bodyOf('hi', { output, tools: [TOOL] }, { model });
    expect(older.response_format).toBeUndefined();
    expect(older.system_instruction).toContain(JSON.stringify(output.schema));
  });

  test('has images and files of users by their kinds', async () => {
    const file = (url: string, mediaType?: string): Item => ({
      type: 'message',
      role: 'user',
      content: [{ type: 'file', url, ...(mediaType && { mediaType }) }],
    });
    const image: Item = {
      type: 'message',
      role: 'user',
      content: [
        { type: 'text', text: 'See' },
        { type: 'image', url: 'data:image/png;base64,AAAA' },
      ],
    };
    const { input: steps } = await bodyOf([
      image,
      file('https://x.test/a.pdf'),
      file('data:audio/wav;base64,BBBB'),
      file('https://youtu.be/abc'),
      file('gs://bucket/b', 'video/mp4'),
    ]);
    expect(objectsOf(steps).flatMap(({ content }) => arrayOf(content))).toEqual([
      { type: 'text', text: 'See' },
      { type: 'image', data: 'AAAA', mime_type: 'image/png' },
      { type: 'document', uri: 'https://x.test/a.pdf', mime_type: 'application/pdf' },
      { type: 'audio', data: 'BBBB', mime_type: 'audio/wav' },
      { type: 'video', uri: 'https://youtu.be/abc' },
      { type: 'video', uri: 'gs://bucket/b', mime_type: 'video/mp4' },
    ]);
  });

  test('has one result for each call after its turn, in call order', async () => {
    const { input: steps } = await bodyOf([
      userMessage('hi'),
      called('c1'),
      called('c2'),
      called('c3'),
      result('c2', 'two', true),
      result('c1', 'one'),
      result('c9', 'for no call'),
      userMessage('and?'),
    ]);
    expect(objectsOf(steps).slice(4)).toEqual([
      { type: 'function_result', call_id: 'c1', name: 'look', result: 'one' },
      { type: 'function_result', call_id: 'c2', name: 'look', result: 'two', is_error: true },
      expect.objectContaining({ call_id: 'c3', is_error: true }),
      input('and?'),
    ]);
  });

  test('has images of a result inside of it, for older models after it', async () => {
    const output = {
      type: 'content',
      parts: [
        { type: 'text', text: 'Here.' },
        { type: 'image', url: 'data:image/png;base64,AAAA' },
      ],
    };
    const transcript: Item[] = [
      userMessage('hi'),
      called('c1'),
      { type: 'tool_result', callId: 'c1', output, isError: false },
    ];
    const image = { type: 'image', data: 'AAAA', mime_type: 'image/png' };
    const newer = await bodyOf(transcript);
    expect(objectsOf(newer.input)[2]).toMatchObject({ result: [{ type: 'text', text: 'Here.' }, image] });
    const older = await bodyOf(transcript, {}, { model: 'gemini-2.5-flash' });
    expect(objectsOf(older.input).slice(2)).toMatchObject([
      { result: 'Here.' },
      { type: 'user_input', content: [image] },
    ]);
  });

  test('only grows: the steps of a turn are the beginning of those of the next', async () => {
    const { adapter, bodies } = answering(
      [
        interaction([thought('s1', 'Hm.'), ...SEARCH, says('One.'), call('c1'), call('c2')]),
        interaction([thought('s2'), says('Two.', { type: 'image', data: 'AAAA', mime_type: 'image/png' })]),
        interaction([says('Three.')]),
      ],
      { store: false },
    );
    let transcript: Item[] = [userMessage('hi')];
    for (const more of [[result('c1', 'one'), result('c2', 'two')], [userMessage('and?')], []]) {
      const turn = await adapter.generate(request(transcript, { instructions: 'Be brief.' }), calling());
      transcript = [...transcript, ...turn.items, ...more];
    }
    const sent = bodies.map(body => objectsOf(body.input));
    expect(sent.map(({ length }) => length)).toEqual([1, 9, 12]);
    for (const [at, steps] of sent.entries()) {
      const before = sent[at - 1] ?? [];
      expect(JSON.stringify(steps.slice(0, before.length))).toBe(JSON.stringify(before));
    }
    expect(new Set(bodies.map(body => body.system_instruction)).size).toBe(1);
  });
});

describe('the steps of a turn', () => {
  const STEPS = [
    thought('sig-0', 'First. ', 'Second.'),
    thought('sig-only'),
    {
      type: 'thought',
      signature: 'sig-image',
      summary: [{ type: 'image', data: 'AAAA', mime_type: 'image/png' }],
    },
    ...SEARCH,
    { type: 'url_context_call', id: 'u1', arguments: { urls: ['https://x.test'] }, signature: 'sig-u' },
    { type: 'url_context_result', call_id: 'u1', result: [{ url: 'https://x.test', status: 'success' }] },
    { type: 'code_execution_call', id: 'x1', arguments: { code: 'print(1)', language: 'python' } },
    { type: 'code_execution_result', call_id: 'x1', result: '', is_error: false, signature: 'sig-x' },
    { type: 'file_search_call', id: 'f1', signature: 'sig-f' },
    { type: 'file_search_result', call_id: 'f1', signature: 'sig-g' },
    { type: 'mcp_server_tool_call', id: 'm1', name: 'find', server_name: 'docs', arguments: { q: 'a' } },
    { type: 'mcp_server_tool_result', call_id: 'm1', result: [{ type: 'text', text: 'b' }] },
    { type: 'something_new', id: 'n1', what: { is: ['this'] } },
    says(
      { type: 'text', text: 'Here.', annotations: [{ type: 'url_citation', url: 'u', start_index: 0 }] },
      { type: 'image', data: 'AAAA', mime_type: 'image/jpeg', resolution: 'high' },
      { type: 'video', uri: 'gs://b/v', mime_type: 'video/mp4', name: 'clip' },
      'And there.',
    ),
    says({ type: 'image', uri: 'https://x.test/i', mime_type: 'image/png' }),
    says({ type: 'hologram', frames: [1] }),
    call('c1', 'look', { signature: 'sig-c' }),
    call('c2'),
  ];

  test('go back unchanged, those of provider tools included', async () => {
    const turn = await generate(interaction(STEPS));
    const items: Item[] = JSON.parse(JSON.stringify(turn.items));
    const { input: sent } = await bodyOf([userMessage('hi'), ...items, result('c1', '1'), result('c2', '2')]);
    expect(objectsOf(sent).slice(1, -2)).toEqual(STEPS);
  });

  test('do not go to the other API of Gemini, nor its opaque data here', async () => {
    const turn = await generate(interaction([thought('sig-0', 'Hm.'), ...SEARCH, says('Hi.')]));
    const foreign = turn.items.map(item =>
      'opaque' in item && item.opaque ? { ...item, opaque: { ...item.opaque, provider: 'gemini' } } : item,
    );
    const { input: sent } = await bodyOf([userMessage('hi'), ...foreign, userMessage('and?')]);
    expect(sent).toEqual([input('hi'), says('Hi.'), input('and?')]);
  });

  test('leave out a thought whose summary was edited', async () => {
    const { items } = await generate(interaction([thought('sig-0', 'Hm.'), says('Hi.')]));
    const edited = items.map(item => (item.type === 'reasoning' ? { ...item, text: 'Aha.' } : item));
    const { input: sent } = await bodyOf([userMessage('hi'), ...edited, userMessage('and?')]);
    expect(sent).toEqual([input('hi'), says('Hi.'), input('and?')]);
  });
});

describe('a stored interaction', () => {
  const first = interaction([thought('s1', 'Hm.'), call('c1')]);
  const TRANSCRIPT = async () => {
    const turn = await generate(first);
    return {
      turn,
      transcript: [userMessage('hi'), ...turn.items, result('c1', 'one'), userMessage('go on')],
    };
  };
  const ADDED = [
    { type: 'function_result', call_id: 'c1', name: 'look', result: 'one' },
    { type: 'user_input', content: [{ type: 'text', text: 'go on' }] },
  ];

  test('is continued with what is new, and with instructions, tools and settings', async () => {
    const { turn, transcript } = await TRANSCRIPT();
    const more = { instructions: 'Be brief.', tools: [TOOL], continuation: turn.continuation ?? null };
    const full = await bodyOf(transcript, { ...more, continuation: null });
    const { input: _, ...rest } = full;
    expect(await bodyOf(transcript, more)).toEqual({
      ...rest,
      previous_interaction_id: 'v1_1',
      input: ADDED,
    });
  });

  test('is not continued with `store: false`, of the adapter or of a request', async () => {
    const { turn, transcript } = await TRANSCRIPT();
    const continuation = turn.continuation ?? null;
    const bodies = [
      await bodyOf(transcript, { continuation }, { store: false }),
      await bodyOf(transcript, { continuation, providerOptions: { store: false } }),
    ];
    for (const body of bodies) {
      expect(body).toMatchObject({ store: false });
      expect(body.previous_interaction_id).toBeUndefined();
      expect(body.input).toHaveLength(5);
    }
  });

  const lost: [what: string, answer: JsonObject | string][] = [
    ['a status', { error: { code: 'not_found', message: 'Interaction v1_1 was not found.' } }],
    [
      'an event',
      events(interaction([]), {
        event_type: 'error',
        error: { code: 'not_found', message: 'Failed to get completed interaction: Result not found.' },
      }),
    ],
  ];
  test.each(lost)('that Google forgot, as %s says, is sent whole, once', async (_, answer) => {
    const { turn, transcript } = await TRANSCRIPT();
    const { adapter, bodies } = answering([answer, events(interaction([says('ok')]))]);
    const asked = request(transcript, { continuation: turn.continuation ?? null });
    const deltas = await collect(adapter.stream(asked, calling()));
    expect(deltas.at(-1)).toMatchObject({ type: 'turn', turn: { text: 'ok' } });
    expect(bodies.map(body => body.previous_interaction_id)).toEqual(['v1_1', undefined]);
    expect(bodies[1]?.input).toHaveLength(5);

    const refused = answering([answer]);
    expect(await rejection(collect(refused.adapter.stream(asked, calling())))).toMatchObject({
      code: 'not-found',
    });
    expect(refused.bodies).toHaveLength(2);
  });

  test('is not sent whole after another error, nor after something was shown', async () => {
    const { turn, transcript } = await TRANSCRIPT();
    const asked = request(transcript, { continuation: turn.continuation ?? null });
    const gone = { code: 'not_found', message: 'Interaction not found.' };
    const answers = [
      { error: { code: 'model_not_found', message: 'No model m.' } },
      events(interaction([says('One.')]), { event_type: 'error', error: gone }),
    ];
    for (const answer of answers) {
      const { adapter, bodies } = answering([answer]);
      expect(await rejection(collect(adapter.stream(asked, calling())))).toMatchObject({ code: 'not-found' });
      expect(bodies).toHaveLength(1);
    }
  });

  test('that paused within its turn is resumed by its token, without input', async () => {
    const paused = interaction([says('One, ')], {
      status: 'requires_continuation',
      continuation_token: 'token-1',
    });
    const { continuation = null, items } = await generate(paused);
    const body = await bodyOf([userMessage('hi'), ...items], { continuation });
    expect(body).toEqual({
      model: 'gemini-3.8-flash',
      previous_interaction_id: 'v1_1',
      continuation_token: 'token-1',
    });
    const whole = await bodyOf([userMessage('hi'), ...items]);
    expect(whole.input).toEqual([input('hi'), says('One, ')]);
  });

  test('that paused without being stored is resumed by its token, with the input that it had', async () => {
    const paused = (text: string, token: string) =>
      interaction([says(text)], { id: '', status: 'requires_continuation', continuation_token: token });
    const { adapter, bodies } = answering(
      [paused('One, ', 'token-1'), paused('two, ', 'token-2'), interaction([says('three.')], { id: '' })],
      { store: false },
    );
    const agent = createAgent({ name: 'a', model: adapter });
    const settled = await agent.run('hi', { stream: false });
    expect(settled).toMatchObject({ text: 'One, two, three.', turns: 3 });
    expect(bodies.map(body => body.input)).toEqual(Array.from({ length: 3 }, () => [input('hi')]));
    expect(bodies.map(body => body.continuation_token)).toEqual([undefined, 'token-1', 'token-2']);
    expect(bodies.map(body => body.previous_interaction_id)).toEqual([undefined, undefined, undefined]);
  });

  test('is sent whole if nothing is new', async () => {
    const { turn } = await TRANSCRIPT();
    const said: Item = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'Hi.' }] };
    const body = await bodyOf([userMessage('hi'), said], { continuation: turn.continuation ?? null });
    expect(body).toMatchObject({ input: [input('hi'), says('Hi.')] });
  });
});

test('a run continues its stored interactions, and a run after it sends the whole transcript', async () => {
  const { adapter, bodies } = answering([
    interaction([thought('s1'), call('c1')], { id: 'v1_a' }),
    interaction([says('One.')], { id: 'v1_b' }),
    interaction([says('Two.')], { id: 'v1_c' }),
  ]);
  const look = tool({
    name: 'look',
    description: 'Looks.',
    input: z.object({ a: z.number() }),
    sideEffect: 'none',
    run: ({ a }) => `saw ${a}`,
  });
  const agent = createAgent({
    name: 'a',
    model: adapter,
    instructions: 'Be brief.',
    tools: [look],
  });
  const run = await agent.start('hi', { stream: false });
  expect(await run.settled()).toMatchObject({ status: 'finished', text: 'One.' });
  await agent.run('and?', { continues: run.id, stream: false });
  expect(bodies.map(body => [body.previous_interaction_id, body.input])).toEqual([
    [undefined, [input('hi')]],
    ['v1_a', [{ type: 'function_result', call_id: 'c1', name: 'look', result: 'saw 1' }]],
    [undefined, expect.anything()],
  ]);
  expect(objectsOf(bodies[2]?.input)).toHaveLength(6);
  for (const { system_instruction, tools, generation_config } of bodies)
    expect({ system_instruction, tools, generation_config }).toEqual({
      system_instruction: bodies[0]?.system_instruction,
      tools: bodies[0]?.tools,
      generation_config: { tool_choice: 'auto' },
    });
});
