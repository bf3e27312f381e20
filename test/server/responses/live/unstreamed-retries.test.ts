import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { isJsonObject, type JsonObject } from '../../../../protocol/json.ts';
import { post } from '../../../support/messages/client.ts';
import { endOf, fastHost, Gateway, parseStream } from '../../../support/responses/gateway.ts';
import {
  BreakingProvider,
  chatFrames,
  responseFrames,
} from '../../../support/responses/providers/breaking-provider.ts';

let provider: BreakingProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await BreakingProvider.listen();
  const config = () => ({ max_attempts: { 'openai-chat:any': 3, 'openai:any': 3 } });
  gateway = new Gateway({}, { host: fastHost, config });
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await gateway.close();
  await provider.close();
});

const CITATION = { url: 'https://rome.example', title: 'Rome', start_index: 0, end_index: 4 };
const WEATHER = { name: 'weather', parameters: { type: 'object' } };

/** Turns by what the model says in them: the model, and the frames of its provider. */
const TURNS: Record<string, { model: string; frames: string[] }> = {
  'reasoning, a JSON text and a citation in Chat Completions': {
    model: 'openai-chat:any',
    frames: chatFrames(
      [
        { role: 'assistant', reasoning_content: 'The city ' },
        { reasoning_content: 'is known.' },
        { content: '{"city":"R' },
        { content: 'ome"}' },
        { annotations: [{ type: 'url_citation', url_citation: CITATION }] },
      ],
      'stop',
    ),
  },
  'text and calls in Chat Completions': {
    model: 'openai-chat:any',
    frames: chatFrames(
      [
        { role: 'assistant', content: 'Let me ' },
        { content: 'look.' },
        ...[0, 1].flatMap(index => [
          { tool_calls: [{ index, id: `up_${index}`, function: { name: 'weather', arguments: '{"ci' } }] },
          { tool_calls: [{ index, function: { arguments: 'ty":"Rome"}' } }] },
        ]),
      ],
      'tool_calls',
    ),
  },
  'sealed reasoning, cited text and a call in the Responses API': {
    model: 'openai:any',
    frames: responseFrames([
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'sealed' },
      {
        type: 'message',
        id: 'msg_1',
        role: 'assistant',
        status: 'completed',
        content: [
          { type: 'output_text', text: 'Rome it is.', annotations: [{ type: 'url_citation', ...CITATION }] },
        ],
      },
      {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'up_1',
        name: 'weather',
        arguments: '{"city":"Rome"}',
        status: 'completed',
      },
    ]),
  },
};

type Answer = { status: number; body: JsonObject };

/** How each API asks without a stream, and what it makes of the response that `GET` returns. */
const APIS: Record<
  string,
  { ask(model: string): Promise<Answer>; fits(body: JsonObject, kept: JsonObject): void }
> = {
  Responses: {
    ask: model =>
      post(gateway, '/v1/responses', {
        model,
        input: 'go',
        include: ['reasoning.encrypted_content'],
        tools: [{ type: 'function', ...WEATHER }],
      }),
    fits: (body, kept) => expect(body).toEqual(kept),
  },
  'Chat Completions': {
    ask: model =>
      post(gateway, '/v1/chat/completions', {
        model,
        messages: [{ role: 'user', content: 'go' }],
        tools: [{ type: 'function', function: WEATHER }],
      }),
    fits: ({ choices }, { output }) => {
      const [choice] = itemsIn(choices);
      const message = isJsonObject(choice?.message) ? choice.message : {};
      expect(message.content ?? '').toBe(textsIn(output).join(''));
      expect(itemsIn(message.tool_calls).map(call => call.function)).toEqual(
        itemsIn(output)
          .filter(item => item.type === 'function_call')
          .map(({ name, arguments: written }) => ({ name, arguments: written })),
      );
      expect(itemsIn(message.annotations).map(({ url_citation: cited }) => cited)).toEqual(
        annotationsIn(output),
      );
    },
  },
  Messages: {
    ask: model =>
      post(gateway, '/v1/messages', {
        model,
        max_tokens: 2_000,
        messages: [{ role: 'user', content: 'go' }],
        tools: [{ name: 'weather', input_schema: { type: 'object' } }],
      }),
    fits: ({ content }, { output }) => {
      expect(textsIn(content)).toEqual(textsIn(output));
      expect(count(content, 'tool_use')).toBe(count(output, 'function_call'));
    },
  },
};

function itemsIn(list: unknown): JsonObject[] {
  return Array.isArray(list) ? list.filter(isJsonObject) : [];
}

function annotationsIn(output: unknown): JsonObject[] {
  return itemsIn(output)
    .flatMap(({ content }) => itemsIn(content))
    .flatMap(({ annotations }) => itemsIn(annotations))
    .map(({ type: _, ...cited }) => (isJsonObject(cited.url_citation) ? cited.url_citation : cited));
}

function textsIn(items: unknown): unknown[] {
  return itemsIn(items)
    .flatMap(item => (item.type === 'message' ? itemsIn(item.content) : [item]))
    .flatMap(({ type, text }) => (type === 'text' || type === 'output_text' ? [text] : []));
}

function count(items: unknown, type: string): number {
  return itemsIn(items).filter(item => item.type === type).length;
}

/** The body without what differs between two runs: ids and times. */
function withoutIds(body: JsonObject): unknown {
  const text = JSON.stringify(body, (key, value) =>
    ['id', 'call_id', 'created', 'created_at', 'completed_at', 'signature'].includes(key) ? null : value,
  );
  return JSON.parse(text);
}

function responseIdOf({ id }: JsonObject): string {
  return String(id).replace(/^(chatcmpl-|msg_|resp_)/, 'resp_');
}

describe.each(Object.entries(APIS))('an answer of %s that is not streamed', (_, { ask, fits }) => {
  it.each(Object.entries(TURNS))(
    'has nothing of a failed attempt, wherever the stream of the provider breaks off: %s',
    async (_, { model, frames }) => {
      provider.play(frames);
      const whole = await ask(model);
      expect(whole.status).toBe(200);
      let retried = 0;
      for (let breaksAfter = 0; breaksAfter < frames.length; breaksAfter += 1) {
        provider.play(frames, breaksAfter);
        const { status, body } = await ask(model);
        expect(status).toBe(200);
        expect(withoutIds(body)).toEqual(withoutIds(whole.body));
        fits(body, await gateway.get(responseIdOf(body)));
        if (provider.requests > 1) retried += 1;
      }
      expect(retried).toBeGreaterThan(4);
    },
  );
});

it('a streamed request that is repeated without a stream gets the response that GET returns', async () => {
  const { model, frames } = TURNS['text and calls in Chat Completions'] ?? { model: '', frames: [] };
  provider.play(frames, 2);
  const body = { model, input: 'go', tools: [{ type: 'function', ...WEATHER }] };
  const key = { 'idempotency-key': 'once' };
  const streamed = await gateway.send('POST', '', { ...body, stream: true }, key);
  const response = endOf(parseStream(await streamed.text()));
  expect(response.output.map(({ status }) => status)).toContain('incomplete');
  const again = await (await gateway.send('POST', '', body, key)).json();
  expect(again).toEqual(await gateway.get(response.id));
  expect(again).not.toEqual(response);
});
