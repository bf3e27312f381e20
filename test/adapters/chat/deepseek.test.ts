import { beforeEach, describe, expect, test, vi } from 'vitest';
import { replayFetch } from '../../../adapters/conformance.ts';
import { deepseek } from '../../../adapters/deepseek.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelRequest, ModelTurn } from '../../../protocol/turn.ts';
import { sse } from '../../support/adapters/replay-server.ts';
import { calling, collect, rejection, request, result, sumOf } from '../../support/adapters/requests.ts';

beforeEach(() => {
  vi.unstubAllEnvs();
});

const thought: JsonObject = {
  type: 'reasoning',
  id: 'fa6f',
  status: 'completed',
  content: [{ type: 'reasoning_text', text: "I'll ask the tool." }],
  summary: [],
};
const call: JsonObject = {
  type: 'function_call',
  id: '62bf',
  status: 'completed',
  call_id: 'call_00_a',
  name: 'get_temperature',
  arguments: '{"city": "Tokyo"}',
};
const response = (output: JsonObject[]): JsonObject => ({
  id: '1235',
  object: 'response',
  status: 'completed',
  model: 'deepseek-v4-flash',
  store: false,
  output,
  usage: { input_tokens: 366, output_tokens: 59, output_tokens_details: { reasoning_tokens: 14 } },
});
const EVENTS = sse(
  { type: 'response.created', response: { ...response([]), status: 'in_progress' } },
  {
    type: 'response.output_item.added',
    output_index: 0,
    item: { ...thought, content: [], status: 'in_progress' },
  },
  {
    type: 'response.reasoning_text.delta',
    output_index: 0,
    item_id: 'fa6f',
    content_index: 0,
    delta: "I'll ask",
  },
  {
    type: 'response.reasoning_text.delta',
    output_index: 0,
    item_id: 'fa6f',
    content_index: 0,
    delta: ' the tool.',
  },
  { type: 'response.output_item.done', output_index: 0, item: thought },
  { type: 'response.output_item.added', output_index: 1, item: { ...call, arguments: '' } },
  { type: 'response.function_call_arguments.delta', output_index: 1, item_id: '62bf', delta: '{"city": ' },
  { type: 'response.function_call_arguments.delta', output_index: 1, item_id: '62bf', delta: '"Tokyo"}' },
  { type: 'response.output_item.done', output_index: 1, item: call },
  { type: 'response.completed', response: response([thought, call]) },
);

async function ask(
  modelRequest: ModelRequest,
  body: JsonObject,
): Promise<{ turn: ModelTurn; body: JsonObject }> {
  const { fetch, requests } = replayFetch({
    headers: { 'content-type': 'application/json' },
    chunks: [JSON.stringify(body)],
  });
  const adapter = deepseek({ api: 'responses', model: 'deepseek-v4-flash', apiKey: 'k', fetch });
  return { turn: await adapter.generate(modelRequest, calling()), body: requests[0]?.body ?? {} };
}

describe('DeepSeek over the Responses API', () => {
  test('reasoning is read from its content, with the same result streamed and whole', async () => {
    const { fetch } = replayFetch({ chunks: [EVENTS] });
    const adapter = deepseek({ api: 'responses', model: 'deepseek-v4-flash', apiKey: 'k', fetch });
    const { turn } = await ask(request('Tokyo?'), response([thought, call]));
    const deltas = await collect(adapter.stream(request('Tokyo?'), calling()));
    expect(turn.reasoning).toBe("I'll ask the tool.");
    expect(deltas.at(-1)).toEqual({ type: 'turn', turn });
    expect(sumOf(deltas).reasoning).toBe(turn.reasoning);
  });

  test('the whole transcript is sent each time, reasoning in its content and directly before the calls', async () => {
    const { turn } = await ask(request('Tokyo?'), response([thought, call]));
    expect(turn.continuation).toBeUndefined();
    const transcript = [...request('Tokyo?').transcript, ...turn.items, result('call_00_a', '21.0')];
    const { body } = await ask(request(transcript, { continuation: '1235' }), response([]));
    const { status: _, ...sent } = thought;
    expect(body).toEqual({
      model: 'deepseek-v4-flash',
      input: [
        { role: 'user', content: 'Tokyo?' },
        sent,
        {
          type: 'function_call',
          call_id: 'call_00_a',
          name: 'get_temperature',
          arguments: '{"city": "Tokyo"}',
        },
        { type: 'function_call_output', call_id: 'call_00_a', output: '21.0' },
      ],
    });
  });

  test('text between calls is moved before them, because results must follow directly', async () => {
    const answer = (text: string): Item => ({
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text }],
    });
    const made = (callId: string): Item => ({ type: 'tool_call', callId, name: 'read', arguments: '{}' });
    const turn = [answer('first'), made('a'), answer('second'), made('b')];
    const results = [result('a', '1'), result('b', '2')];
    const modelRequest = request([
      ...request('go').transcript,
      ...turn,
      ...results,
      ...request('on').transcript,
    ]);
    const { body } = await ask(modelRequest, response([]));
    expect(body.input).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [{ text: 'first' }] },
      { role: 'assistant', content: [{ text: 'second' }] },
      { type: 'function_call', call_id: 'a' },
      { type: 'function_call', call_id: 'b' },
      { type: 'function_call_output', call_id: 'a' },
      { type: 'function_call_output', call_id: 'b' },
      { role: 'user' },
    ]);
  });

  test('reasoning whose call was dropped is not sent', async () => {
    const { turn } = await ask(request('Tokyo?'), response([thought, call]));
    const transcript = [
      ...request('Tokyo?').transcript,
      ...turn.items.filter(item => item.type === 'reasoning'),
    ];
    const { body } = await ask(request(transcript), response([]));
    expect(body.input).toEqual([{ role: 'user', content: 'Tokyo?' }]);
  });

  test('a search that it ran itself is not a call, and is sent back unchanged', async () => {
    const search: JsonObject = {
      type: 'web_search_call',
      id: 'ws_1',
      status: 'completed',
      action: { query: 'a' },
    };
    const answer: JsonObject = {
      type: 'message',
      role: 'assistant',
      phase: 'final_answer',
      content: [{ type: 'output_text', text: 'Found.' }],
    };
    const { turn } = await ask(request('a?'), response([search, answer]));
    expect(turn).toMatchObject({ finishReason: 'stop', toolCalls: [], text: 'Found.' });
    const { body } = await ask(request([...request('a?').transcript, ...turn.items]), response([]));
    expect(body.input).toMatchObject([{ role: 'user' }, search, { role: 'assistant' }]);
  });

  test('an output schema is described in the instructions, with JSON as the format', async () => {
    const output = { name: 'city', schema: { type: 'object', properties: { name: { type: 'string' } } } };
    const { body } = await ask(request('a?', { output, instructions: 'Be brief.' }), response([]));
    expect(body.text).toEqual({ format: { type: 'json_object' } });
    expect(body.instructions).toMatch(/^Be brief\.\n\n.*JSON Schema:\n\{"type":"object"/s);
  });
});

describe('DeepSeek over Chat Completions', () => {
  test('is the default, without a version in its path', async () => {
    const { fetch, requests } = replayFetch({
      headers: { 'content-type': 'application/json' },
      chunks: ['{"choices":[{"finish_reason":"stop","message":{"content":"ok"}}]}'],
    });
    const adapter = deepseek({ model: 'deepseek-chat', apiKey: 'k', fetch });
    expect((await adapter.generate(request('hi'), calling())).text).toBe('ok');
    expect(requests[0]?.path).toBe('/chat/completions');
    expect(adapter.capabilities).toMatchObject({ structuredOutput: 'instructions', reasoningReplay: true });
  });

  test.each([
    [401, { message: 'Authentication Fails', type: 'authentication_error' }, 'authentication'],
    [402, { message: 'Insufficient Balance', type: 'unknown_error' }, 'quota'],
    [400, { message: "This model's maximum context length is 131072 tokens." }, 'context-too-long'],
  ])('a status of %s maps to its code', async (status, error, code) => {
    const { fetch } = replayFetch({
      status,
      headers: { 'content-type': 'application/json' },
      chunks: [JSON.stringify({ error })],
    });
    const adapter = deepseek({ model: 'deepseek-chat', apiKey: 'k', fetch });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code,
      retryable: false,
    });
  });
});
