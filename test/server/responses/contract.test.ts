import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { calling, Gateway, runOf, typesOf } from '../../support/responses/gateway.ts';

/**
 * The demands of the Open Responses compliance suite on the HTTP core (openresponses/openresponses; its test
 * ids are the names here): every field of a response is present and typed, in streamed responses too.
 */
const message = z.object({
  type: z.literal('message'),
  id: z.string(),
  status: z.enum(['in_progress', 'completed', 'incomplete']),
  role: z.literal('assistant'),
  content: z.array(
    z.object({ type: z.literal('output_text'), text: z.string(), annotations: z.array(z.unknown()) }),
  ),
  phase: z.enum(['commentary', 'final_answer']).nullable().optional(),
});
const functionCall = z.object({
  type: z.literal('function_call'),
  id: z.string(),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
  status: z.enum(['in_progress', 'completed', 'incomplete']),
});
const reasoning = z.object({
  type: z.literal('reasoning'),
  id: z.string(),
  status: z.string(),
  summary: z.array(z.object({ type: z.literal('summary_text'), text: z.string() })),
});
const item = z.discriminatedUnion('type', [message, functionCall, reasoning]);
const functionTool = z.object({
  type: z.literal('function'),
  name: z.string(),
  description: z.string().nullable(),
  parameters: z.record(z.string(), z.unknown()).nullable(),
  strict: z.boolean().nullable(),
});
const count = z.number().int();
const resource = z.object({
  id: z.string(),
  object: z.literal('response'),
  created_at: count,
  completed_at: count.nullable(),
  status: z.string(),
  incomplete_details: z.object({ reason: z.string() }).nullable(),
  model: z.string(),
  previous_response_id: z.string().nullable(),
  instructions: z.string().nullable(),
  output: z.array(item),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  tools: z.array(functionTool),
  tool_choice: z.unknown(),
  truncation: z.enum(['auto', 'disabled']),
  parallel_tool_calls: z.boolean(),
  text: z.object({ format: z.object({ type: z.string() }) }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: count,
  temperature: z.number(),
  reasoning: z.object({ effort: z.string().nullable(), summary: z.string().nullable() }).nullable(),
  usage: z
    .object({
      input_tokens: count,
      output_tokens: count,
      total_tokens: count,
      input_tokens_details: z.object({ cached_tokens: count }),
      output_tokens_details: z.object({ reasoning_tokens: count }),
    })
    .nullable(),
  max_output_tokens: count.nullable(),
  max_tool_calls: count.nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: z.string(),
  metadata: z.record(z.string(), z.string()),
  safety_identifier: z.string().nullable(),
  prompt_cache_key: z.string().nullable(),
});

const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const WEATHER = {
  type: 'function',
  name: 'get_weather',
  description: 'Says the weather.',
  parameters: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
};

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway({
    hello: [
      { reasoning: 'a greeting', text: 'Hello there, friend.', usage: { inputTokens: 5, outputTokens: 7 } },
      { text: 'You are Alice.' },
    ],
    weather: [calling('get_weather', { location: 'Oslo' }), { text: 'It rains in Oslo.' }],
  });
});
afterAll(() => gateway.close());

describe('the Open Responses HTTP core', () => {
  it('basic-response', async () => {
    const response = resource.parse(await gateway.create({ model: 'hello', input: 'Say hello.' }));
    expect(response).toMatchObject({ status: 'completed', error: null, incomplete_details: null });
    expect(response.usage).toMatchObject({ input_tokens: 5, output_tokens: 7, total_tokens: 12 });
    expect(response.completed_at).toBeGreaterThanOrEqual(response.created_at);
    expect(typesOf(response.output)).toEqual(['reasoning', 'message']);
  });

  it('assistant-phase: an assistant message may have a phase', async () => {
    const input = [
      { role: 'user', content: 'Look it up.' },
      { role: 'assistant', content: 'I am looking.', phase: 'commentary' },
      { role: 'user', content: 'And?' },
    ];
    const response = resource.parse(await gateway.create({ model: 'hello', input }));
    expect(response.status).toBe('completed');
    const listed = await (await gateway.send('GET', `/${response.id}/input_items?order=asc`)).json();
    expect(listed).toMatchObject({ data: [{}, { role: 'assistant', phase: 'commentary' }, {}] });
  });

  it('response-output-phase-schema: an output message may have a phase or omit it', () => {
    const plain = { type: 'message', id: 'm', status: 'completed', role: 'assistant', content: [] };
    expect(item.safeParse(plain).success).toBe(true);
    expect(item.safeParse({ ...plain, phase: 'final_answer' }).success).toBe(true);
    expect(item.safeParse({ ...plain, phase: 'other' }).success).toBe(false);
  });

  it('streaming-response: every event has its type and number, and a complete response', async () => {
    const events = await gateway.stream({ model: 'hello', input: 'Count.' });
    expect(events.map(event => event.sequence_number)).toEqual(events.map((_, index) => index));
    for (const { response } of events) if (response !== undefined) resource.parse(response);
    const delta = 'response.output_text.delta';
    const types = typesOf(events);
    expect(types.filter((type, at) => type !== delta || types[at - 1] !== delta)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.reasoning_summary_part.added',
      'response.reasoning_summary_text.delta',
      'response.reasoning_summary_text.done',
      'response.reasoning_summary_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const text = events.flatMap(event => (event.type === delta ? [event.delta] : [])).join('');
    expect(text).toBe('Hello there, friend.');
    expect(events[0]?.response).toMatchObject({ status: 'in_progress', output: [], completed_at: null });
  });

  it('system-prompt: instructions and system messages reach the model separately', async () => {
    const input = [
      { type: 'message', role: 'system', content: 'You are a pirate.' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Say hello.' }] },
    ];
    const response = resource.parse(
      await gateway.create({ model: 'hello', input, instructions: 'Be brief.' }),
    );
    expect(response.instructions).toBe('Be brief.');
    const listed = await (await gateway.send('GET', `/${response.id}/input_items?order=asc`)).json();
    expect(listed).toMatchObject({ data: [{ role: 'system' }, { role: 'user' }] });
  });

  it('tool-calling: a declared function comes back as a call and does not run', async () => {
    const response = resource.parse(
      await gateway.create({ model: 'weather', input: 'How is Oslo?', tools: [WEATHER] }),
    );
    expect(response.tools).toEqual([{ ...WEATHER, strict: null }]);
    expect(response.output).toEqual([
      expect.objectContaining({
        type: 'function_call',
        name: 'get_weather',
        arguments: '{"location":"Oslo"}',
      }),
    ]);
  });

  it('tool-calling with the full history sent back produces an answer', async () => {
    const input = [
      { role: 'user', content: 'How is Oslo?' },
      { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"location":"Oslo"}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'rain' },
    ];
    const response = resource.parse(await gateway.create({ model: 'weather', input, tools: [WEATHER] }));
    expect(response.output[0]).toMatchObject({ type: 'message', content: [{ text: 'It rains in Oslo.' }] });
  });

  it('image-input: a data: URL reaches the run unchanged', async () => {
    const content = [
      { type: 'input_text', text: 'What is this?' },
      { type: 'input_image', image_url: PIXEL },
    ];
    const response = resource.parse(
      await gateway.create({ model: 'hello', input: [{ type: 'message', role: 'user', content }] }),
    );
    const [started] = await gateway.store.read(runOf(response));
    expect(started?.event).toMatchObject({
      input: [{ content: [{ type: 'text' }, { type: 'image', url: PIXEL }] }],
    });
  });

  it('multi-turn: the run starts with the history of messages', async () => {
    const input = [
      { role: 'user', content: 'My name is Alice.' },
      { role: 'assistant', content: 'Hello Alice.' },
      { role: 'user', content: 'What is my name?' },
    ];
    const response = resource.parse(await gateway.create({ model: 'hello', input }));
    expect(response.output[0]).toMatchObject({ content: [{ text: 'You are Alice.' }] });
  });

  it('each event is one write, so parsers that read chunk by chunk lose none', async () => {
    const response = await gateway.send('POST', '', { model: 'hello', input: 'x', stream: true });
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const chunks: string[] = [];
    for await (const chunk of response.body ?? []) chunks.push(new TextDecoder().decode(chunk));
    expect(chunks.pop()).toBe('data: [DONE]\n\n');
    for (const chunk of chunks) expect(chunk).toMatch(/^(event: response\.[\w.]+\ndata: \{[^\n]*\}\n\n)+$/);
  });
});
