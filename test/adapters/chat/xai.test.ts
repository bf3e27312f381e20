import { beforeEach, describe, expect, test, vi } from 'vitest';
import { replayFetch } from '../../../adapters/conformance.ts';
import { type XaiOptions, xai } from '../../../adapters/xai.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { sse } from '../../support/adapters/replay-server.ts';
import { calling, collect, rejection, request, result } from '../../support/adapters/requests.ts';
import {
  answer,
  ask,
  CALLS,
  events,
  response,
  results,
  said,
  thought,
} from '../../support/adapters/wire/xai.ts';

beforeEach(() => {
  vi.unstubAllEnvs();
});

describe('xAI over the Responses API', () => {
  test('key and URL come from XAI_API_KEY and XAI_BASE_URL; the URL has a default', async () => {
    vi.stubEnv('XAI_API_KEY', 'env-key');
    vi.stubEnv('XAI_BASE_URL', 'http://proxy.test/x/v1');
    const { fetch, requests } = replayFetch(answer(response([said('ok')])));
    const adapter = xai({ model: 'grok-4.3', fetch });
    await adapter.generate(request('hi'), calling());
    expect(requests[0]).toMatchObject({
      path: '/x/v1/responses',
      headers: { authorization: 'Bearer env-key' },
    });
    vi.stubEnv('XAI_BASE_URL', undefined);
    const hosts: string[] = [];
    const watched: typeof globalThis.fetch = (input, init) => {
      hosts.push(String(input));
      return fetch(input, init);
    };
    await xai({ model: 'grok-4.3', fetch: watched }).generate(request('hi'), calling());
    expect(hosts).toEqual(['https://api.x.ai/v1/responses']);
  });

  test('its output tokens include reasoning', async () => {
    const { turn } = await ask(request('hi'));
    expect(turn.usage).toEqual({
      inputTokens: 340,
      outputTokens: 127,
      cachedInputTokens: 192,
      cacheWriteTokens: null,
      reasoningTokens: 105,
    });
  });

  test('a continuation has the id, the new input and the tools, but no instructions, which it would reject', async () => {
    const { turn } = await ask(request('hi', { instructions: 'Be brief.' }), CALLS);
    const tools = [{ name: 'look_up', description: '', inputSchema: { type: 'object' } }];
    const { body } = await ask(
      request([...request('hi').transcript, ...turn.items, ...results], {
        instructions: 'Be brief.',
        tools,
        settings: { temperature: 0 },
        ...omitUndefined({ continuation: turn.continuation }),
      }),
    );
    expect(body).toEqual({
      model: 'grok-4.3',
      previous_response_id: CALLS.id,
      input: [
        { type: 'function_call_output', call_id: 'call-77aa-0', output: '15 °C' },
        { type: 'function_call_output', call_id: 'call-77aa-1', output: '3 °C' },
      ],
      include: ['reasoning.encrypted_content'],
      tools: [expect.objectContaining({ name: 'look_up' })],
      tool_choice: 'auto',
      temperature: 0,
    });
  });

  test('with store: false the encrypted reasoning is sent back before its calls, without ids', async () => {
    const { turn } = await ask(request('hi'), { ...CALLS, store: false }, { store: false });
    expect(turn.continuation).toBeUndefined();
    const { body } = await ask(
      request([...request('hi').transcript, ...turn.items, ...results], { instructions: 'Be brief.' }),
      undefined,
      { store: false },
    );
    expect(body).toMatchObject({
      store: false,
      include: ['reasoning.encrypted_content'],
      instructions: 'Be brief.',
    });
    expect(body.input).toEqual([
      { role: 'user', content: 'hi' },
      {
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: 'Two cities.\n' }],
        encrypted_content: 'c2VjcmV0+/=',
      },
      { type: 'function_call', call_id: 'call-77aa-0', name: 'look_up', arguments: '{"city":"Berlin"}' },
      { type: 'function_call', call_id: 'call-77aa-1', name: 'look_up', arguments: '{"city":"Oslo"}' },
      { type: 'function_call_output', call_id: 'call-77aa-0', output: '15 °C' },
      { type: 'function_call_output', call_id: 'call-77aa-1', output: '3 °C' },
    ]);
  });

  test('a forgotten response leads to one complete request with instructions', async () => {
    const gone = { code: 'not-found', error: `Response with id ${CALLS.id} was not found` };
    const { fetch, requests } = replayFetch(answer(gone, 404), answer(response([said('ok')])));
    const adapter = xai({ model: 'grok-4.3', apiKey: 'k', fetch });
    const { turn } = await ask(request('hi'), CALLS);
    const modelRequest = request([...request('hi').transcript, ...turn.items, ...results], {
      instructions: 'Be brief.',
      continuation: CALLS.id as string,
    });
    expect((await adapter.generate(modelRequest, calling())).text).toBe('ok');
    expect(requests.map(({ body }) => [body.previous_response_id, body.instructions])).toEqual([
      [CALLS.id, undefined],
      [undefined, 'Be brief.'],
    ]);
    expect(requests[1]?.body.input).toHaveLength(6);
  });

  test('tools that xAI ran are not calls, including custom_tool_calls of x_search', async () => {
    const searched = response([
      thought('rs_1', 'one'),
      {
        id: 'ctc_1',
        type: 'custom_tool_call',
        call_id: 'xs_1',
        name: 'x_keyword_search',
        input: '{"query":"a"}',
      },
      { id: 'ws_1', type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'a' } },
      { id: 'ci_1', type: 'code_interpreter_call', status: 'completed', code: '1 + 1' },
      thought('tco_1', 'two'),
      thought('rs_1', 'three'),
      said('Found.'),
    ]);
    const { fetch } = replayFetch({ chunks: [events(searched)] });
    const deltas = [];
    for await (const delta of xai({ model: 'grok-4.3', apiKey: 'k', fetch }).stream(
      request('hi'),
      calling(),
    )) {
      deltas.push(delta);
    }
    const shown = deltas.map(({ type }) => type).filter(type => type !== 'reasoning_ended');
    expect(shown).toEqual(['text', 'turn']);
    const { turn } = await ask(request('hi'), searched);
    expect(deltas.at(-1)).toEqual({ type: 'turn', turn });
    expect(turn).toMatchObject({ finishReason: 'stop', toolCalls: [], text: 'Found.' });

    const next = request([...request('hi').transcript, ...JSON.parse(JSON.stringify(turn.items))]);
    const { body } = await ask(next, undefined, { store: false });
    const input = body.input as JsonObject[];
    expect(input.map(item => item.type ?? item.role)).toEqual([
      'user',
      'reasoning',
      'custom_tool_call',
      'web_search_call',
      'code_interpreter_call',
      'reasoning',
      'reasoning',
      'assistant',
    ]);
    expect(input.flatMap(item => item.encrypted_content ?? [])).toEqual(['one', 'two', 'three']);
  });

  test("its own tools are requested in the provider options, in addition to the agent's tools", async () => {
    const { body } = await ask(
      request('hi', {
        tools: [{ name: 'look_up', description: '', inputSchema: { type: 'object' } }],
        providerOptions: { tools: [{ type: 'web_search' }, { type: 'x_search' }] },
      }),
    );
    expect((body.tools as JsonObject[]).map(tool => tool.type)).toEqual([
      'function',
      'web_search',
      'x_search',
    ]);
  });

  test('models without reasoning are not asked for encrypted reasoning', async () => {
    const { body } = await ask(request('hi'), undefined, { model: 'grok-4-1-fast-non-reasoning' });
    expect(body.include).toBeUndefined();
  });

  test('a bad key is an authentication error, though it comes as a 400 or in a stream', async () => {
    const bad = { code: 'invalid-argument', error: 'Incorrect API key provided: xa***ey.' };
    for (const refusal of [answer(bad, 400), { chunks: [sse(bad)] }]) {
      const { fetch } = replayFetch(refusal);
      const adapter = xai({ model: 'grok-4.3', apiKey: 'xai-test-key', fetch });
      expect(await rejection(collect(adapter.stream(request('hi'), calling())))).toMatchObject({
        name: 'ProviderError',
        code: 'authentication',
        retryable: false,
        provider: 'xai',
      });
    }
  });
});

describe('xAI over Chat Completions', () => {
  const chunk = (delta: JsonObject, more: JsonObject = {}): JsonObject => ({
    model: 'grok-3-mini',
    choices: [{ index: 0, delta, ...more }],
  });
  const STREAM = sse(
    chunk({ role: 'assistant', reasoning_content: 'One city.' }),
    chunk({
      content: '',
      tool_calls: [
        {
          id: 'call_55',
          index: 0,
          type: 'function',
          function: { name: 'look_up', arguments: '{"city":"Rom"}' },
        },
      ],
    }),
    chunk({}, { finish_reason: 'tool_calls' }),
  );
  const chat = (options: Partial<XaiOptions> = {}) =>
    xai({ api: 'chat', model: 'grok-3-mini', apiKey: 'xai-test-key', ...options });

  test('declares capabilities that differ from the Responses API', () => {
    expect(chat().capabilities).toMatchObject({ continuation: false, reasoningReplay: false });
    expect(xai({ model: 'grok-4.3' }).capabilities).toMatchObject({
      continuation: true,
      reasoningReplay: true,
    });
  });

  test('a conversation continues over the other API, without data that only the first API reads', async () => {
    const { turn } = await ask(request('hi'), CALLS);
    const transcript = [...request('hi').transcript, ...turn.items, ...results];
    const other = replayFetch({ chunks: [STREAM] });
    await collect(chat({ fetch: other.fetch }).stream(request(transcript), calling()));
    expect(JSON.stringify(other.requests[0]?.body)).not.toContain('c2VjcmV0');
    expect(other.requests[0]?.body.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call-77aa-0' }, { id: 'call-77aa-1' }] },
      { role: 'tool', tool_call_id: 'call-77aa-0' },
      { role: 'tool', tool_call_id: 'call-77aa-1' },
    ]);

    const deltas = await collect(chat({ fetch: other.fetch }).stream(request('hi'), calling()));
    const last = deltas.at(-1);
    const items = last?.type === 'turn' ? last.turn.items : [];
    const { body } = await ask(request([...request('hi').transcript, ...items, result('call_55', 'sunny')]));
    expect(body.input).toEqual([
      { role: 'user', content: 'hi' },
      { type: 'function_call', call_id: 'call_55', name: 'look_up', arguments: '{"city":"Rom"}' },
      { type: 'function_call_output', call_id: 'call_55', output: 'sunny' },
    ]);
  });
});
