import { describe, expect, test } from 'vitest';
import { replayFetch } from '../../../adapters/conformance.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelTurn, TurnDelta } from '../../../protocol/turn.ts';
import { sse } from '../../support/adapters/replay-server.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';

/** An adapter whose provider answers every call with this body. */
function answering(body: string, type = 'text/event-stream') {
  return openaiResponses({
    model: 'gpt-4.1',
    apiKey: 'test',
    baseURL: 'http://provider.test/v1',
    fetch: async () => new Response(body, { headers: { 'content-type': type } }),
  });
}

async function stream(...events: JsonObject[]): Promise<{ turn: ModelTurn; deltas: TurnDelta[] }> {
  const deltas = await collect(answering(sse(...events)).stream(request('hi'), calling()));
  const last = deltas.pop();
  if (last?.type !== 'turn') throw new Error('Expected the stream to end with a turn.');
  return { turn: last.turn, deltas };
}

function generate(response: JsonObject): Promise<ModelTurn> {
  return answering(JSON.stringify(response), 'application/json').generate(request('hi'), calling());
}

const added = (output_index: number, item: JsonObject) => ({
  type: 'response.output_item.added',
  output_index,
  item,
});
const functionCall = (id: string, name: string, args = ''): JsonObject => ({
  type: 'function_call',
  id,
  call_id: `call_${id}`,
  name,
  arguments: args,
});
const args = (output_index: number, delta: string) => ({
  type: 'response.function_call_arguments.delta',
  output_index,
  delta,
});
const message = (...content: JsonObject[]): JsonObject => ({ type: 'message', role: 'assistant', content });
const text = (value: string): JsonObject => ({ type: 'output_text', text: value, annotations: [] });
const completed = (response: JsonObject = {}) => ({
  type: 'response.completed',
  response: { id: 'resp_1', status: 'completed', output: [], ...response },
});

describe('a streamed response', () => {
  test('interleaved arguments of two calls are kept separate by output index', async () => {
    const { turn, deltas } = await stream(
      added(0, functionCall('a', 'one')),
      added(1, functionCall('b', 'two')),
      args(1, '{"y":'),
      args(0, '{"x":'),
      args(1, '2}'),
      args(0, '1}'),
      completed(),
    );
    expect(turn.toolCalls.map(call => [call.callId, call.input])).toEqual([
      ['call_a', { x: 1 }],
      ['call_b', { y: 2 }],
    ]);
    expect(deltas.slice(0, 4)).toEqual([
      { type: 'call_started', index: 0, name: 'one', callId: 'call_a' },
      { type: 'call_started', index: 1, name: 'two', callId: 'call_b' },
      { type: 'call_arguments', index: 1, text: '{"y":' },
      { type: 'call_arguments', index: 0, text: '{"x":' },
    ]);
  });

  test('item ids that change with every event are ignored if there is an output index', async () => {
    const { turn, deltas } = await stream(
      added(0, functionCall('x1', 'one')),
      added(1, functionCall('x2', 'two')),
      { ...args(0, '{"x":'), item_id: 'x3' },
      { ...args(1, '{}'), item_id: 'x4' },
      { ...args(0, '1}'), item_id: 'x4' },
      completed(),
    );
    expect(turn.toolCalls.map(call => [call.name, call.input])).toEqual([
      ['one', { x: 1 }],
      ['two', {}],
    ]);
    expect(deltas).toHaveLength(5);
  });

  test('events without an output index are matched by their item id', async () => {
    const { turn } = await stream(
      { type: 'response.output_item.added', item: functionCall('a', 'one') },
      { type: 'response.output_item.added', item: functionCall('b', 'two') },
      { type: 'response.function_call_arguments.delta', item_id: 'a', delta: '{"x":1}' },
      { type: 'response.function_call_arguments.delta', item_id: 'b', delta: '{"y":2}' },
      completed(),
    );
    expect(turn.toolCalls.map(call => call.input)).toEqual([{ x: 1 }, { y: 2 }]);
  });

  test('final arguments take precedence over the sum of their deltas', async () => {
    const { turn } = await stream(
      added(0, functionCall('a', 'one')),
      args(0, '{"x":'),
      { type: 'response.function_call_arguments.done', output_index: 0, arguments: '{"x":1}' },
      completed(),
    );
    expect(turn.toolCalls).toMatchObject([{ arguments: '{"x":1}', input: { x: 1 } }]);
  });

  test('the output of the terminal response takes precedence over the collected output', async () => {
    const { turn } = await stream(
      added(0, functionCall('a', 'one')),
      args(0, '{"x":1}'),
      completed({ output: [functionCall('a', 'one', '{"x":2}')] }),
    );
    expect(turn.toolCalls).toMatchObject([{ input: { x: 2 } }]);
  });

  test('response.done ends a stream as well', async () => {
    const { turn } = await stream({
      ...completed({ output: [message(text('hello'))] }),
      type: 'response.done',
    });
    expect(turn).toMatchObject({ text: 'hello', finishReason: 'stop' });
  });

  test('a call whose id changes when it is finished is announced without an id', async () => {
    const search = (call_id: string, members: JsonObject = {}): JsonObject => ({
      type: 'tool_search_call',
      id: 'tsc_1',
      call_id,
      execution: 'client',
      ...members,
    });
    const done = search('call_2', { arguments: { goal: 'pay' } });
    const { turn, deltas } = await stream(
      added(0, search('call_1', { arguments: {} })),
      { type: 'response.output_item.done', output_index: 0, item: done },
      completed({ output: [done] }),
    );
    expect(turn.toolCalls).toMatchObject([{ callId: 'call_2', input: { goal: 'pay' } }]);
    expect(deltas[0]).toEqual({ type: 'call_started', index: 0, name: 'tool_search' });
  });

  test('two calls with one call id get distinct ids', async () => {
    const twice = completed({ output: [functionCall('a', 'one'), { ...functionCall('a', 'two'), id: 'b' }] });
    const { turn } = await stream(twice);
    const ids = turn.toolCalls.map(call => call.callId);
    expect(new Set(ids).size).toBe(2);
    expect(turn.continuation, 'the provider does not know the generated id').toBeUndefined();
    expect((await stream(twice)).turn.toolCalls.map(call => call.callId)).toEqual(ids);
  });

  test('text that only the terminal response has is still yielded as a delta', async () => {
    const { deltas } = await stream(completed({ output: [message(text('hello'))] }));
    expect(deltas).toEqual([{ type: 'text', text: 'hello' }]);
  });

  test('text, reasoning and calls of one response are all collected without a terminal output', async () => {
    const { turn } = await stream(
      added(0, { type: 'reasoning', id: 'rs', summary: [] }),
      { type: 'response.reasoning_summary_text.delta', output_index: 0, summary_index: 0, delta: 'h' },
      { type: 'response.reasoning_summary_text.delta', output_index: 0, summary_index: 1, delta: 'm' },
      added(1, message()),
      { type: 'response.output_text.delta', output_index: 1, content_index: 0, delta: 'Look' },
      { type: 'response.output_text.delta', output_index: 1, content_index: 1, delta: 'ing' },
      added(2, functionCall('a', 'one')),
      completed(),
    );
    expect(turn).toMatchObject({ text: 'Looking', reasoning: 'hm', finishReason: 'tool_calls' });
    expect(turn.items.map(item => item.type)).toEqual(['reasoning', 'message', 'tool_call']);
  });

  test('items that are finished with no content have the streamed content', async () => {
    const finished = (output_index: number, item: JsonObject) => ({
      type: 'response.output_item.done',
      output_index,
      item,
    });
    const { turn, deltas } = await stream(
      added(0, { type: 'reasoning', id: 'rs' }),
      { type: 'response.reasoning_summary_text.delta', item_id: 'rs', summary_index: 0, delta: 'hm' },
      finished(0, { type: 'reasoning', id: 'rs', encrypted_content: 'secret' }),
      added(1, { type: 'message', id: 'msg' }),
      { type: 'response.output_text.delta', item_id: 'msg', delta: 'Look' },
      { type: 'response.output_text.delta', item_id: 'msg', delta: 'ing' },
      finished(1, { type: 'message', id: 'msg' }),
      added(2, functionCall('a', 'one')),
      args(2, '{"n":1}'),
      finished(2, functionCall('a', 'one')),
      { type: 'response.completed', response: {} },
    );
    expect(turn).toMatchObject({ text: 'Looking', reasoning: 'hm', toolCalls: [{ input: { n: 1 } }] });
    expect(turn.items[0]).toMatchObject({ opaque: { data: { item: { encrypted_content: 'secret' } } } });
    expect(deltas).toContainEqual({ type: 'text', text: 'ing' });
  });

  test('an item that was never announced is recognized by its text', async () => {
    const { turn } = await stream(
      { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'hi' },
      completed(),
    );
    expect(turn).toMatchObject({ text: 'hi', items: [{ type: 'message' }] });
  });

  test('an event whose name is only on its event line is understood', async () => {
    const body = 'event: response.completed\ndata: {"response":{"output":[]}}\n\ndata: [DONE]\n\n';
    const turns = await collect(answering(body).stream(request('hi'), calling()));
    expect(turns).toMatchObject([{ type: 'turn', turn: { finishReason: 'stop' } }]);
  });

  test('an event that is not JSON is a malformed stream that quotes it', async () => {
    const error = await rejection(collect(answering('data: <html>\n\n').stream(request('hi'), calling())));
    expect(error).toMatchObject({ code: 'malformed-stream', retryable: true });
    expect(String(error)).toContain('<html>');
  });

  test("a failing stream reports the provider's message, and not the request", async () => {
    const error = await rejection(
      stream({
        type: 'response.failed',
        response: {
          id: 'r',
          status: 'failed',
          instructions: 'private',
          error: { code: 'server_error', message: 'sorry' },
        },
      }),
    );
    expect(error).toMatchObject({
      code: 'server',
      retryable: true,
      message: expect.stringContaining('sorry'),
    });
    expect(JSON.stringify(error)).not.toContain('private');
  });
});

describe('a response', () => {
  test('falsy arguments are kept', async () => {
    const turn = await generate({ output: [functionCall('a', 'one', '{"a":0,"b":false,"c":""}')] });
    expect(turn.toolCalls[0]?.input).toEqual({ a: 0, b: false, c: '' });
  });

  test.each(['', '{}'])('the arguments %j are an empty object', async written => {
    expect((await generate({ output: [functionCall('a', 'one', written)] })).toolCalls).toMatchObject([
      { arguments: '{}', input: {} },
    ]);
  });

  test.each(['{"a"', '[1]', '"x"', 'null'])(
    'the arguments %s are an error, and the call is kept',
    async written => {
      const turn = await generate({ output: [functionCall('a', 'one', written)] });
      expect(turn.finishReason).toBe('tool_calls');
      expect(turn.toolCalls).toMatchObject([{ arguments: written, error: expect.any(String) }]);
      expect(turn.toolCalls[0]).not.toHaveProperty('input');
    },
  );

  test('a call without an id gets one, which is the same in its item', async () => {
    const turn = await generate({ output: [{ type: 'function_call', name: 'one', arguments: '{}' }] });
    expect(turn.toolCalls[0]?.callId).toMatch(/^call_/);
    expect(turn.items).toMatchObject([{ callId: turn.toolCalls[0]?.callId }]);
  });

  test('a custom tool call carries its text as input', async () => {
    const item = { type: 'custom_tool_call', call_id: 'c', name: 'python', input: 'print("hi")' };
    const turn = await generate({ output: [item] });
    expect(turn.toolCalls).toMatchObject([
      { callId: 'c', input: { input: 'print("hi")' }, executedBy: 'engine' },
    ]);
  });

  test('tools that the provider ran are items, never calls', async () => {
    const items = ['web_search_call', 'file_search_call', 'mcp_call', 'something_new'].map(type => ({
      type,
      id: type,
    }));
    const turn = await generate({ output: items });
    expect(turn).toMatchObject({ finishReason: 'stop', toolCalls: [] });
    expect(turn.items).toEqual(
      items.map(item => ({
        type: 'provider_item',
        kind: item.type,
        opaque: { provider: 'openai-responses', data: expect.objectContaining({ item }) },
      })),
    );
  });

  test('a refusal is content_filter, and its words are not the answer', async () => {
    const turn = await generate({ output: [message({ type: 'refusal', refusal: 'I will not.' })] });
    expect(turn).toMatchObject({ text: '', finishReason: 'content_filter' });
  });

  test.each<[JsonObject, string]>([
    [{ status: 'completed' }, 'stop'],
    [{}, 'stop'],
    [{ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }, 'length'],
    [{ status: 'incomplete' }, 'length'],
    [{ status: 'incomplete', incomplete_details: { reason: 'content_filter' } }, 'content_filter'],
  ])('%j finishes with %s', async (response, finishReason) => {
    expect(await generate({ output: [], ...response })).toMatchObject({ finishReason });
  });

  test('reasoning alone, cut off by the length, is a turn that is not sent back', async () => {
    const thought = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' };
    const turn = await generate({ status: 'incomplete', output: [thought] });
    expect(turn).toMatchObject({ finishReason: 'length', text: '', toolCalls: [] });
    const { fetch, requests } = replayFetch({
      headers: { 'content-type': 'application/json' },
      chunks: [JSON.stringify({ output: [] })],
    });
    await openaiResponses({ model: 'gpt-5', apiKey: 'k', fetch }).generate(
      request([...request('hi').transcript, ...turn.items]),
      calling(),
    );
    expect(requests[0]?.body.input).toEqual([{ role: 'user', content: 'hi' }]);
  });

  test('a call cut off by the length does not finish with tool_calls', async () => {
    const turn = await generate({ status: 'incomplete', output: [functionCall('a', 'one', '{"a"')] });
    expect(turn).toMatchObject({ finishReason: 'length', toolCalls: [{ error: expect.any(String) }] });
  });

  test('only a stored and completed response can be continued', async () => {
    const response = { id: 'resp_1', status: 'completed', output: [] };
    expect((await generate(response)).continuation).toBe('resp_1');
    expect(await generate({ ...response, store: false })).not.toHaveProperty('continuation');
    expect(await generate({ ...response, status: 'incomplete' })).not.toHaveProperty('continuation');
  });

  test('missing usage is null', async () => {
    expect((await generate({ output: [] })).usage).toBeNull();
  });

  test('annotations stay on their text', async () => {
    const annotations = [{ type: 'url_citation', url: 'https://x.test' }];
    const turn = await generate({ output: [message({ type: 'output_text', text: 'a', annotations })] });
    expect(turn.items).toMatchObject([{ content: [{ type: 'text', text: 'a', annotations }] }]);
  });

  test.each<[string, JsonObject, string]>([
    ['an error in a 200', { error: { code: 'rate_limit_exceeded', message: 'wait' } }, 'rate-limit'],
    [
      'a failed response',
      { status: 'failed', error: { code: 'server_error', message: 'x' }, output: [] },
      'server',
    ],
    ['a response without output', { hello: 1 }, 'malformed-stream'],
    ['a response that continues in the background', { status: 'queued', output: [] }, 'invalid-request'],
  ])('%s is a ProviderError', async (_, response, code) => {
    expect(await rejection(generate(response))).toMatchObject({ name: 'ProviderError', code });
  });

  test('a body that is not JSON is malformed', async () => {
    const error = await rejection(answering('<html>', 'text/html').generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'malformed-stream' });
  });
});
