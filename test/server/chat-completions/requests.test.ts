import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { readChatRequest } from '../../../server/chat-completions/chat-request.ts';
import { complete, postChat, refusedChat, streamChat } from '../../support/responses/chat.ts';
import { CutProvider } from '../../support/responses/cut-provider.ts';
import { Gateway } from '../../support/responses/gateway.ts';

const MODEL = 'openai-chat:any';
const GO = { role: 'user', content: 'go' };
const PIXEL = 'data:image/png;base64,AAAA';
const ASK = {
  type: 'function',
  function: { name: 'ask', description: 'Asks.', parameters: { type: 'object', properties: {} } },
};
const CALL = { id: 'call_1', type: 'function', function: { name: 'ask', arguments: '{"a":1}' } };

let provider: CutProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await CutProvider.listen();
  gateway = new Gateway({});
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
  provider.play({ words: ['ok'], cuts: [] });
});
afterAll(async () => {
  await gateway.close();
  await provider.close();
});

/** What the provider gets for a chat request. */
async function sent(body: object) {
  await complete(gateway, { model: MODEL, messages: [GO], ...body });
  return provider.body;
}

describe('the provider is asked to stream', () => {
  it.each([
    ['for a run that others may watch', {}],
    ['for a run that a later request may continue', { store: false, tools: [ASK] }],
  ])('%s', async (_, body) => {
    expect(await sent(body)).toMatchObject({ stream: true });
  });

  it('for a request that streams', async () => {
    await streamChat(gateway, { model: MODEL, messages: [GO], store: false });
    expect(provider.body).toMatchObject({ stream: true });
  });

  it('not for a request whose run nobody can watch', async () => {
    expect(await sent({ store: false })).not.toHaveProperty('stream', true);
  });
});

describe('the messages of a request reach the provider', () => {
  it('with their roles, texts, calls and results', async () => {
    await sent({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', name: 'ann', content: [{ type: 'text', text: 'Ask.' }] },
        { role: 'assistant', content: null, tool_calls: [CALL] },
        {
          role: 'tool',
          tool_call_id: 'call_1',
          content: [
            { type: 'text', text: 'y' },
            { type: 'text', text: 'es' },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'Said ' },
            { type: 'refusal', refusal: 'no.' },
          ],
        },
        { role: 'developer', content: 'Be kind.' },
        GO,
      ],
    });
    expect(provider.messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Ask.' },
      { role: 'assistant', content: null, tool_calls: [CALL] },
      { role: 'tool', tool_call_id: 'call_1', content: 'yes' },
      { role: 'assistant', content: 'Said no.' },
      expect.objectContaining({ content: 'Be kind.' }),
      GO,
    ]);
  });

  it('with images, and files as data', async () => {
    const file = { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' };
    const content = [
      { type: 'text', text: 'Look.' },
      { type: 'image_url', image_url: { url: PIXEL, detail: 'low' } },
      { type: 'file', file },
    ];
    await sent({ messages: [{ role: 'user', content }] });
    expect(provider.messages[0]?.content).toMatchObject([
      { type: 'text', text: 'Look.' },
      { type: 'image_url', image_url: { url: PIXEL } },
      { type: 'file', file },
    ]);
  });

  it('with calls whose ids another message used before', async () => {
    const turn = [
      { role: 'assistant', tool_calls: [CALL] },
      { role: 'tool', tool_call_id: 'call_1', content: 'yes' },
    ];
    await sent({ messages: [GO, ...turn, ...turn] });
    const ids = provider.messages.flatMap(({ tool_calls: calls }) =>
      Array.isArray(calls) ? calls.map(call => (call as { id: string }).id) : [],
    );
    expect(new Set(ids).size).toBe(2);
    expect(provider.messages.filter(({ role }) => role === 'tool')).toMatchObject([
      { tool_call_id: ids[0], content: 'yes' },
      { tool_call_id: ids[1], content: 'yes' },
    ]);
  });
});

describe('the settings of a request reach the provider', () => {
  it('sampling, length, effort and penalties', async () => {
    const settings = { temperature: 0.5, top_p: 0.9, presence_penalty: 0.5, frequency_penalty: -1, seed: 7 };
    expect(await sent({ ...settings, max_tokens: 50, reasoning_effort: 'low', stop: 'END' })).toMatchObject({
      ...settings,
      max_tokens: 50,
      reasoning_effort: 'low',
      stop: ['END'],
    });
    expect(await sent({ max_tokens: 50, max_completion_tokens: 60, stop: ['a', 'b'] })).toMatchObject({
      max_tokens: 60,
      stop: ['a', 'b'],
    });
  });

  it.each([
    ['none', 'none'],
    ['auto', 'auto'],
    ['required', 'required'],
    [
      { type: 'function', function: { name: 'ask' } },
      { type: 'function', function: { name: 'ask' } },
    ],
  ])('tools with the choice %j', async (tool_choice, choice) => {
    expect(await sent({ tools: [ASK], tool_choice, parallel_tool_calls: false })).toMatchObject({
      tools: [ASK],
      tool_choice: choice,
      parallel_tool_calls: false,
    });
  });

  it('only the tools that the choice allows', async () => {
    const other = { ...ASK, function: { ...ASK.function, name: 'other' } };
    const allowed_tools = { mode: 'required', tools: [{ type: 'function', function: { name: 'ask' } }] };
    const tool_choice = { type: 'allowed_tools', allowed_tools };
    expect(await sent({ tools: [ASK, other], tool_choice })).toMatchObject({
      tools: [ASK],
      tool_choice: 'required',
    });
  });

  it('the form of the answer', async () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
    const json_schema = { name: 'answer', schema };
    const response_format = { type: 'json_schema', json_schema };
    expect(await sent({ response_format })).toMatchObject({ response_format: { json_schema } });
    expect(await sent({ response_format: { type: 'json_object' } })).toHaveProperty('response_format');
    expect(await sent({ response_format: { type: 'text' } })).not.toHaveProperty('response_format');
  });

  it.each<[object, string, string | undefined]>([
    [{ reasoning: { effort: 'low' } }, 'groq', 'low'],
    [{ reasoning: { effort: 'low' }, reasoning_effort: 'high' }, 'groq', 'high'],
    [{ chat_template_kwargs: { reasoning_effort: 'low' } }, 'vllm', 'low'],
    [{ thinking: 'medium' }, 'groq', 'medium'],
    [{ thinking: { type: 'enabled' } }, 'deepseek', undefined],
    [{ thinking: { type: 'disabled' } }, 'deepseek', 'none'],
    [{ thinking: { type: 'disabled' }, reasoning_effort: 'low' }, 'deepseek', 'low'],
    [{ enable_thinking: false }, 'anthropic', 'none'],
    [{ enable_thinking: true }, 'anthropic', undefined],
    [{ chat_template_kwargs: { enable_thinking: false } }, 'gemini', 'none'],
    [{ reasoning: { enabled: false } }, 'ollama', 'none'],
    [{ enable_thinking: false }, 'openai-chat', undefined],
  ])('the thinking of %j with %s as the effort %s', (thinking, provider, effort) => {
    const { request } = readChatRequest({ model: 'any', messages: [GO], ...thinking }, () => provider);
    expect(request.settings.reasoningEffort).toBe(effort);
  });

  it('nothing of what changes no result', async () => {
    const none = { n: 1, logprobs: false, top_logprobs: 0, modalities: ['text'], stop: [], logit_bias: {} };
    const body = await sent({ ...none, prediction: { type: 'content', content: 'x' }, seed: null });
    expect(Object.keys(body).sort()).toEqual(['messages', 'model', 'stream', 'stream_options']);
  });
});

describe('a request is journaled as a run', () => {
  it('unless the client says not to store it', async () => {
    const count = async () => (await gateway.store.list({ limit: 1000 })).runs.length;
    const before = await count();
    await sent({ store: false });
    expect(await count()).toBe(before);
    await sent({});
    await sent({ store: true });
    expect(await count()).toBe(before + 2);
  });
});

const user = (content: unknown) => [{ role: 'user', content }];

describe('a request is refused', () => {
  it.each<[param: string | null, code: string, body: object]>([
    ['messages', 'missing_required_parameter', { messages: undefined }],
    ['messages', 'invalid_value', { messages: [] }],
    ['messages', 'invalid_value', { messages: 'go' }],
    ['messages[0].role', 'missing_required_parameter', { messages: [{ content: 'x' }] }],
    ['messages[1].role', 'invalid_value', { messages: [GO, { role: 'function', name: 'x', content: 'y' }] }],
    ['messages[0].content', 'missing_required_parameter', { messages: [{ role: 'user' }] }],
    ['messages[0].content', 'invalid_value', { messages: user(5) }],
    ['messages[0].content', 'message_content_empty', { messages: user('') }],
    ['messages[1].content', 'missing_required_parameter', { messages: [GO, { role: 'assistant' }] }],
    ['messages[0].content[0].type', 'invalid_value', { messages: user([{ type: 'input_audio' }]) }],
    [
      'messages[0].content[0].image_url.url',
      'invalid_value',
      { messages: user([{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }]) },
    ],
    [
      'messages[0].content[0].image_url.detail',
      'invalid_value',
      { messages: user([{ type: 'image_url', image_url: { url: PIXEL, detail: 'huge' } }]) },
    ],
    [
      'messages[0].content[0].file.file_id',
      'invalid_value',
      { messages: user([{ type: 'file', file: { file_id: 'file-1' } }]) },
    ],
    [
      'messages[1].tool_calls',
      'tool_output_missing',
      { messages: [GO, { role: 'assistant', tool_calls: [CALL] }, GO] },
    ],
    [
      'messages[1].tool_call_id',
      'tool_call_not_found',
      { messages: [GO, { role: 'tool', tool_call_id: 'call_1', content: 'x' }] },
    ],
    [
      'messages[1].tool_calls[0].type',
      'invalid_value',
      { messages: [GO, { role: 'assistant', tool_calls: [{ ...CALL, type: 'mcp' }] }] },
    ],
    [
      'messages[1].tool_calls[0].function.name',
      'invalid_value',
      { messages: [GO, { role: 'assistant', tool_calls: [{ ...CALL, function: { name: '' } }] }] },
    ],
    ['tools[0].type', 'invalid_value', { tools: [{ type: 'web_search' }] }],
    ['tools[0].custom.name', 'invalid_value', { tools: [{ type: 'custom', custom: { name: 'a b' } }] }],
    ['tools[0].function.name', 'invalid_value', { tools: [{ type: 'function', function: { name: 'a b' } }] }],
    ['tool_choice', 'invalid_value', { tools: [ASK], tool_choice: { type: 'mcp', server_label: 'x' } }],
    [
      'tool_choice',
      'tool_choice_function_not_found',
      { tools: [ASK], tool_choice: { type: 'function', function: { name: 'other' } } },
    ],
    [
      'response_format.json_schema.schema',
      'missing_required_parameter',
      { response_format: { type: 'json_schema', json_schema: { name: 'x' } } },
    ],
    ['max_tokens', 'invalid_value', { max_tokens: 0 }],
    ['max_completion_tokens', 'invalid_value', { max_completion_tokens: 0 }],
    ['temperature', 'invalid_value', { temperature: 5 }],
    ['n', 'unsupported_parameter', { n: 2 }],
    ['logprobs', 'unsupported_parameter', { logprobs: true }],
    ['modalities', 'unsupported_parameter', { modalities: ['text', 'audio'] }],
    ['audio', 'unsupported_parameter', { audio: { voice: 'alloy', format: 'mp3' } }],
    ['web_search_options', 'unsupported_tool', { web_search_options: {} }],
    [
      'web_search_options.search_context_size',
      'invalid_value',
      { web_search_options: { search_context_size: 'huge' } },
    ],
    ['functions', 'unsupported_parameter', { functions: [] }],
    ['function_call', 'unsupported_parameter', { function_call: 'auto' }],
    ['stop', 'unsupported_parameter', { model: 'openai:any', stop: 'END' }],
    ['seed', 'unsupported_parameter', { model: 'anthropic:any', seed: 1 }],
    ['logit_bias', 'unsupported_parameter', { model: 'gemini:any', logit_bias: { 1: 5 } }],
    ['presence_penalty', 'unsupported_parameter', { model: 'anthropic:any', presence_penalty: 1 }],
    ['model', 'model_not_found', { model: 'nobody' }],
    ['model', 'missing_required_parameter', { model: undefined }],
  ])('with the parameter %s and the code %s', async (param, code, body) => {
    const refused = await refusedChat(gateway, { model: MODEL, messages: [GO], ...body });
    expect(refused).toMatchObject({ status: 400, type: 'invalid_request_error', param, code });
    expect(refused.message).not.toMatch(/'input|text\.format|max_output_tokens/);
  });

  it('with more messages than the server takes', async () => {
    const small = new Gateway({}, { config: () => ({ limits: { input_items: 2 } }) });
    const refused = await refusedChat(small, { model: MODEL, messages: [GO, GO, GO] });
    expect(refused).toMatchObject({ status: 400, param: 'messages', code: 'too_many_items' });
    expect(refused.message).toBe("'messages' has 3 items; this server takes at most 2.");
    await small.close();
  });

  it('that is no object', async () => {
    expect(await refusedChat(gateway, [])).toMatchObject({ status: 400, param: null });
  });

  it('and its stream, before it starts', async () => {
    const response = await postChat(gateway, { model: 'nobody', messages: [GO], stream: true });
    expect([response.status, response.headers.get('content-type')]).toEqual([400, 'application/json']);
  });
});
