import type Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { addUp, anthropicOn, streamed } from '../../support/messages/client.ts';
import { calling, type Folder, Gateway } from '../../support/responses/gateway.ts';

const usage = {
  inputTokens: 10,
  outputTokens: 4,
  cachedInputTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
};

function nested(levels: number): JsonObject {
  let inner: JsonObject = {};
  for (let level = 1; level < levels; level += 1) inner = { inner };
  return inner;
}

let gateway: Gateway;
let client: Anthropic;

beforeAll(() => {
  gateway = new Gateway(
    {
      hello: [{ reasoning: 'a greeting', text: 'Hello there.', usage }],
      ask: [{ text: 'I ask.', ...calling('ask', { what: 'time' }) }, { text: 'It is noon.' }],
      cut: [{ text: 'It was a dark', finishReason: 'length' }],
      filtered: [{ text: 'It was', finishReason: 'content_filter' }],
      secret: [calling('echo', { text: 'x' }), { text: 'I ask.', ...calling('ask') }, { text: 'Done.' }],
      any: [{ text: 'Fine.' }, { text: 'Fine.' }],
      deep: [calling('ask', nested(201)), calling('ask', nested(1_000)), { text: 'I give up.' }],
    },
    { config: (folder: Folder) => ({ mcp_servers: { desk: folder.server({ hidden: true }) } }) },
  );
  client = anthropicOn(gateway);
});
afterAll(() => gateway.close());

const user = (content: string) => ({ role: 'user' as const, content });
const base = { max_tokens: 100, messages: [user('hi')] };
const ASK = { name: 'ask', input_schema: { type: 'object' as const } };

async function lastRunId(): Promise<string> {
  const [run] = (await gateway.store.list({ limit: 1 })).runs;
  return run?.runId ?? '';
}

/** The input of the last run, as it is in its journal. */
async function lastInput(): Promise<JsonObject[]> {
  const [started] = await gateway.store.read(await lastRunId());
  if (started?.event.type !== 'run.started') throw new Error('there is no run');
  return started.event.input as unknown as JsonObject[];
}

it('has no call whose arguments are nested too deep: the model is told, and no client gets them cut', async () => {
  const { content, stop_reason } = await client.messages.create({ ...base, model: 'deep', tools: [ASK] });
  expect(content).toMatchObject([{ type: 'text', text: 'I give up.' }]);
  expect(stop_reason).toBe('end_turn');
  const entries = await gateway.store.read(await lastRunId());
  const refused = entries.flatMap(({ event }) => (event.type === 'turn.completed' ? event.calls : []));
  expect(refused).toMatchObject(Array(2).fill({ error: expect.stringContaining('more than 200 levels') }));
});

describe('a message', () => {
  it('has every field of Anthropic’s messages', async () => {
    const message = await client.messages.create({ ...base, model: 'hello' });
    expect(message._request_id).toMatch(/^req_/);
    expect(message).toEqual({
      id: expect.stringMatching(/^msg_\w+$/),
      type: 'message',
      role: 'assistant',
      model: 'hello',
      container: null,
      content: [{ type: 'text', text: 'Hello there.', citations: null }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      stop_details: null,
      usage: {
        input_tokens: 5,
        cache_read_input_tokens: 3,
        cache_creation_input_tokens: 2,
        output_tokens: 4,
        output_tokens_details: { thinking_tokens: 1 },
        cache_creation: null,
        server_tool_use: null,
        service_tier: null,
      },
    });
  });

  it.each([
    ['cut', 'max_tokens', null],
    ['filtered', 'refusal', { type: 'refusal', category: null, explanation: null }],
    ['ask', 'tool_use', null],
  ])('of the model "%s" stops for the reason %s', async (model, reason, details) => {
    const body = { ...base, model, tools: [ASK] };
    const message = await client.messages.create(body);
    expect(message).toMatchObject({ stop_reason: reason, stop_details: details, stop_sequence: null });
    expect(await client.messages.stream(body).finalMessage()).toMatchObject({
      stop_reason: reason,
      stop_details: details,
    });
  });

  it('streams the events of Anthropic’s protocol', async () => {
    const thinking = { type: 'enabled', budget_tokens: 1_024 };
    const events = await streamed(gateway, { ...base, model: 'hello', thinking });
    const types = events.map(event => (event.type === 'content_block_delta' ? event.delta.type : event.type));
    expect(types.filter((type, at) => type !== types[at - 1])).toEqual([
      'message_start',
      ...['content_block_start', 'thinking_delta', 'signature_delta', 'content_block_stop'],
      ...['content_block_start', 'text_delta', 'content_block_stop'],
      ...['message_delta', 'message_stop'],
    ]);
    expect(addUp(events).usage).toMatchObject({ input_tokens: 5, output_tokens: 4 });
  });

  it('has thinking only if the request enables it, and none of its text if that is omitted', async () => {
    const ask = async (thinking: Anthropic.ThinkingConfigParam) => {
      const { content } = await client.messages.create({ ...base, model: 'hello', thinking });
      return content.map(block => (block.type === 'thinking' ? ['thinking', block.thinking] : [block.type]));
    };
    expect(await ask({ type: 'disabled' })).toEqual([['text']]);
    expect(await ask({ type: 'adaptive' })).toEqual([['thinking', 'a greeting'], ['text']]);
    expect(await ask({ type: 'adaptive', display: 'omitted' })).toEqual([['thinking', ''], ['text']]);
  });
});

describe('a loop of tool calls', () => {
  it('is one run, whose hidden calls the model still knows', async () => {
    const body = { ...base, model: 'secret', tools: [ASK] };
    const asked = await client.messages.create(body);
    expect(asked.content.map(({ type }) => type)).toEqual(['text', 'tool_use']);
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    const id = asked.content.flatMap(block => (block.type === 'tool_use' ? [block.id] : []))[0] ?? '';
    const done = await client.messages.create({
      ...body,
      messages: [
        user('hi'),
        { role: 'assistant', content: asked.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'noon' }] },
      ],
    });
    expect(done.content).toMatchObject([{ type: 'text', text: 'Done.' }]);
    expect(gateway.folder.calls()).toContain('echo');
    expect((await gateway.store.list({ limit: 1000 })).runs).toHaveLength(before);
  });

  it('starts a new run if the client changed the history', async () => {
    const body = { ...base, model: 'ask', tools: [ASK] };
    const asked = await client.messages.create(body);
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    const id = asked.content.flatMap(block => (block.type === 'tool_use' ? [block.id] : []))[0] ?? '';
    const done = await client.messages.create({
      ...body,
      messages: [
        user('hello'),
        { role: 'assistant', content: asked.content },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: id, content: 'no clock', is_error: true }],
        },
      ],
    });
    expect(done.content).toMatchObject([{ type: 'text', text: 'It is noon.' }]);
    expect((await gateway.store.list({ limit: 1000 })).runs).toHaveLength(before + 1);
    expect((await lastInput()).at(-1)).toMatchObject({
      type: 'tool_result',
      output: 'no clock',
      isError: true,
    });
  });
});

/** Members that the API takes and the SDK's types no longer have. */
const SAMPLING = { temperature: 0.5, top_p: 0.9 };

describe('a request', () => {
  it('is shown by its response', async () => {
    await client.messages.create({
      ...base,
      model: 'any',
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      ...SAMPLING,
      tools: [{ ...ASK, description: 'Asks.', strict: true, cache_control: { type: 'ephemeral' } }],
      tool_choice: { type: 'tool', name: 'ask', disable_parallel_tool_use: true },
      thinking: { type: 'enabled', budget_tokens: 10_000 },
      output_config: { format: { type: 'json_schema', schema: { type: 'object', properties: {} } } },
      metadata: { user_id: 'u'.repeat(100) },
      service_tier: 'standard_only',
    });
    expect(await gateway.get((await lastRunId()).replace('run_', 'resp_'))).toMatchObject({
      instructions: 'Be brief.',
      max_output_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
      tools: [{ type: 'function', name: 'ask', description: 'Asks.', strict: true }],
      tool_choice: { type: 'function', name: 'ask' },
      parallel_tool_calls: false,
      reasoning: { effort: 'medium', summary: 'auto' },
      text: { format: { type: 'json_schema', schema: { type: 'object', properties: {} } } },
      safety_identifier: expect.stringMatching(/^[0-9a-f]{64}$/),
      service_tier: 'default',
    });
  });

  it('has images, documents and results with images', async () => {
    const image = { type: 'base64' as const, media_type: 'image/png' as const, data: 'AAAA' };
    const url = 'https://example.com/a.pdf';
    await client.messages.create({
      model: 'any',
      max_tokens: 9,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look.' },
            { type: 'image', source: image },
            { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
            { type: 'document', title: 'A', context: 'Old.', source: { type: 'url', url } },
            { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'hé' } },
          ],
        },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'see', input: { x: 1 } }] },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'And?' },
            {
              type: 'tool_result',
              tool_use_id: 'toolu_1',
              content: [
                { type: 'text', text: 'a' },
                { type: 'image', source: image },
              ],
            },
          ],
        },
      ],
    });
    const png = 'data:image/png;base64,AAAA';
    const input = await lastInput();
    expect(input).toMatchObject([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look.' },
          { type: 'image', url: png },
          { type: 'image', url: 'https://example.com/a.png' },
          { type: 'text', text: 'Old.' },
          { type: 'file', url, name: 'A' },
          { type: 'file', url: `data:text/plain;base64,${Buffer.from('hé').toString('base64')}` },
        ],
      },
      { type: 'tool_call', callId: 'toolu_1', name: 'see', arguments: '{"x":1}' },
      { type: 'tool_result', output: [{ text: 'a' }, { type: 'input_image', image_url: png }] },
      { role: 'user', content: [{ type: 'text', text: 'And?' }] },
    ]);
  });

  it('may have adjacent messages of one role, system messages, and the beginning of the answer', async () => {
    await client.messages.create({
      model: 'any',
      max_tokens: 9,
      messages: [
        user('a'),
        user('b'),
        { role: 'system', content: 'Now in French.' },
        { role: 'assistant', content: 'c' },
      ],
    });
    const input = await lastInput();
    expect(input.map(({ role, content }) => [role, (content as JsonObject[])[0]?.text])).toEqual([
      ['user', 'a'],
      ['user', 'b'],
      ['system', 'Now in French.'],
      ['assistant', 'c'],
    ]);
  });
});
