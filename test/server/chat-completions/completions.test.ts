import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { addUpChunks, complete, postChat, refusedChat, streamChat } from '../../support/responses/chat.ts';
import { calling, fastHost, Gateway, type Resource } from '../../support/responses/gateway.ts';

const USAGE = { inputTokens: 5, outputTokens: 7, cachedInputTokens: 2, reasoningTokens: 3 };
const TOOLS = [{ type: 'function', function: { name: 'ask', parameters: { type: 'object' } } }];
const GO = [{ role: 'user', content: 'go' }];

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway(
    {
      hello: [{ reasoning: 'a greeting', text: 'Hello there.', usage: USAGE }],
      silent: [{ text: '' }],
      ask: [
        { text: 'Wait.', toolCalls: [1, 2].map(n => ({ name: 'ask', arguments: { n } })) },
        { text: 'Asked.' },
      ],
      'only-calls': [calling('ask')],
      long: [{ text: 'And so', finishReason: 'length' }],
      filtered: [{ text: 'I', finishReason: 'content_filter' }],
      hidden: [{ text: 'Let me see.', ...calling('echo', { text: 'hi' }) }, { text: 'Seen.' }],
      'too-many': [...Array.from({ length: 11 }, () => calling('echo', { text: 'hi' })), { text: 'Enough.' }],
      lost: [{ text: 'Wait.', ...calling('die') }, { text: 'Never said.' }],
      slow: [{ text: 'Never said.', delayMs: 600_000 }],
      failing: [{ error: { code: 'server', message: 'out of order', retryable: false } }],
      busy: [{ error: { code: 'rate-limit', message: 'too many', retryable: true } }],
    },
    {
      host: fastHost,
      hiddenWaitMs: 2_000_000,
      config: folder => ({
        mcp_servers: { desk: folder.server({ hidden: true, tools: { die: { side_effect: 'once' } } }) },
      }),
    },
  );
});
afterAll(() => gateway.close());

describe('a completion', () => {
  it('has the members of OpenAI, the reasoning, and the usage with its details', async () => {
    const before = Math.floor(Date.now() / 1000);
    const completion = await complete(gateway, { model: 'hello', messages: GO });
    expect(completion).toEqual({
      id: expect.stringMatching(/^chatcmpl-[a-f0-9]+$/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'hello',
      service_tier: 'default',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'Hello there.',
            refusal: null,
            reasoning_content: 'a greeting',
          },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 5,
        completion_tokens: 7,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 2 },
        completion_tokens_details: { reasoning_tokens: 3 },
      },
    });
    expect(completion.created).toBeGreaterThanOrEqual(before);
  });

  it('with calls has their ids, names and arguments; its content is null if it has no text', async () => {
    const both = await complete(gateway, { model: 'ask', tools: TOOLS, messages: GO });
    expect(both.choices).toMatchObject([
      {
        message: {
          content: 'Wait.',
          tool_calls: [
            { type: 'function', function: { name: 'ask', arguments: '{"n":1}' } },
            { type: 'function', function: { name: 'ask', arguments: '{"n":2}' } },
          ],
        },
        finish_reason: 'tool_calls',
      },
    ]);
    const ids = both.choices[0]?.message.tool_calls?.map(({ id }) => id);
    expect(new Set(ids).size).toBe(2);
    const bare = await complete(gateway, { model: 'only-calls', tools: TOOLS, messages: GO });
    expect(bare.choices[0]?.message.content).toBeNull();
  });

  it.each([
    ['hello', 'stop'],
    ['long', 'length'],
    ['filtered', 'content_filter'],
    ['too-many', 'stop'],
    ['lost', 'length'],
  ])('of the model %s ends with %s', async (model, reason) => {
    const completion = await complete(gateway, { model, messages: GO });
    expect(completion.choices[0]?.finish_reason).toBe(reason);
  });

  it('shows nothing of the tools of hidden servers but the texts around their calls', async () => {
    const { choices } = await complete(gateway, { model: 'hidden', messages: GO });
    expect(choices).toMatchObject([
      { message: { content: 'Let me see.\n\nSeen.', refusal: null }, finish_reason: 'stop' },
    ]);
    expect(choices[0]?.message).not.toHaveProperty('tool_calls');
    expect(gateway.folder.calls()).toContain('echo');
  });
});

describe('a streamed completion', () => {
  it('begins with the role, ends with the finish reason, and has the same members in every chunk', async () => {
    const chunks = await streamChat(gateway, { model: 'hello', messages: GO });
    expect(chunks[0]?.choices).toEqual([
      { index: 0, delta: { role: 'assistant' }, logprobs: null, finish_reason: null },
    ]);
    expect(chunks.at(-1)?.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }]);
    const [first] = chunks;
    for (const { choices, ...head } of chunks) {
      expect(head).toEqual({
        id: first?.id,
        object: 'chat.completion.chunk',
        created: first?.created,
        model: 'hello',
        service_tier: 'default',
      });
      expect(choices).toHaveLength(1);
    }
  });

  it('has the usage in a last chunk without choices, and null in the others, if the client asks for it', async () => {
    const stream_options = { include_usage: true };
    const chunks = await streamChat(gateway, { model: 'hello', messages: GO, stream_options });
    const last = chunks.pop();
    expect(last).toMatchObject({ choices: [], usage: { prompt_tokens: 5, total_tokens: 12 } });
    expect(chunks.map(({ usage }) => usage)).toEqual(chunks.map(() => null));
    const unknown = await streamChat(gateway, { model: 'long', messages: GO, stream_options });
    expect(unknown.at(-1)).toMatchObject({ choices: [], usage: null });
  });

  it('sends a call as its id and name, then its arguments', async () => {
    const chunks = await streamChat(gateway, { model: 'ask', tools: TOOLS, messages: GO });
    const deltas = chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
    expect(deltas).toEqual([
      { index: 0, id: expect.any(String), type: 'function', function: { name: 'ask', arguments: '' } },
      { index: 0, function: { arguments: '{"n":1}' } },
      { index: 1, id: expect.any(String), type: 'function', function: { name: 'ask', arguments: '' } },
      { index: 1, function: { arguments: '{"n":2}' } },
    ]);
  });

  it.each(['hello', 'silent', 'ask', 'only-calls', 'long', 'filtered', 'hidden', 'too-many', 'lost'])(
    'of the model %s adds up to the completion',
    async model => {
      const body = { model, tools: TOOLS, messages: GO };
      const { message, finishReasons } = addUpChunks(await streamChat(gateway, body));
      const [choice] = (await complete(gateway, body)).choices;
      expect(finishReasons).toEqual([choice?.finish_reason]);
      const { refusal: _, tool_calls: calls, ...rest } = choice?.message ?? { role: '', content: '' };
      expect(message).toEqual({
        ...rest,
        ...(calls === undefined
          ? {}
          : { tool_calls: calls.map(call => ({ ...call, id: expect.stringMatching(/^call_/) })) }),
      });
    },
  );
});

describe('a failed request', () => {
  it('has the error of the provider, and says whether it can be sent again', async () => {
    const failed = await postChat(gateway, { model: 'failing', messages: GO });
    expect([failed.status, failed.headers.get('x-should-retry')]).toEqual([502, 'false']);
    expect(await failed.json()).toMatchObject({ error: { code: 'server_error', type: 'server_error' } });
    const busy = await postChat(gateway, { model: 'busy', messages: GO });
    expect([busy.status, busy.headers.get('x-should-retry')]).toEqual([429, null]);
    expect(await busy.json()).toMatchObject({ error: { type: 'rate_limit_error' } });
  });

  it('is no stream if it failed before the provider began to answer', async () => {
    const failed = await postChat(gateway, { model: 'failing', messages: GO, stream: true });
    expect([failed.status, failed.headers.get('x-should-retry')]).toEqual([502, 'false']);
    expect(await failed.json()).toMatchObject({
      error: { type: 'server_error', code: 'server_error', param: null },
    });
  });

  it('is one that a person cancels', async () => {
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    const answer = refusedChat(gateway, { model: 'slow', messages: GO });
    await expect.poll(async () => (await gateway.store.list({ limit: 1000 })).runs).toHaveLength(before + 1);
    const [run] = (await gateway.store.list({ limit: 1000 })).runs;
    await gateway.tell({ id: String(run?.runId).replace('run_', 'resp_') } as Resource, 'cancel', {});
    expect(await answer).toMatchObject({ status: 502, message: 'The response was cancelled.' });
  });
});

describe('the list of models', () => {
  const get = async (of: Gateway, path: string) =>
    await of.app.request(`http://127.0.0.1:4100${path}`, { headers: { host: '127.0.0.1:4100' } });
  const list = async (of: Gateway) =>
    (await (await get(of, '/v1/models')).json()) as { object: string; data: JsonObject[] };

  it('has the aliases of the configuration', async () => {
    const { object, data } = await list(gateway);
    expect(object).toBe('list');
    expect(data).toContainEqual({ id: 'hello', object: 'model', created: 0, owned_by: 'agentchart' });
    expect(await (await get(gateway, '/v1/models/hello')).json()).toEqual(data[0]);
    const unknown = await get(gateway, '/v1/models/none');
    expect(unknown.status).toBe(404);
    expect(await unknown.json()).toMatchObject({ error: { code: 'model_not_found', param: 'model' } });
  });

  it.each([
    ['openai:gpt-5', 'openai:gpt-5'],
    ['scripted:/home/me/turns.json', 'scripted'],
  ])('without aliases has the model of AGENTCHART_MODEL: of %s, %s', async (model, id) => {
    const other = new Gateway({}, { model });
    const { data } = await list(other);
    expect(data).toMatchObject([{ id }]);
    expect((await get(other, `/v1/models/${encodeURIComponent(id)}`)).status).toBe(200);
    await other.close();
  });
});
