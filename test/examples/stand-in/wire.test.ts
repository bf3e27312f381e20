import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type StandIn, startStandIn } from '../../../examples/stand-in/wire/provider.ts';
import { memoryFolder, openSession, TOOLS } from '../../support/examples/steward-session.ts';

const ROOT = '/folder';

let standIn: StandIn;
let client: OpenAI;

beforeAll(async () => {
  standIn = await startStandIn();
  client = new OpenAI({ apiKey: 'anything', baseURL: `${standIn.root}/openai/v1`, maxRetries: 0 });
});

afterAll(() => standIn[Symbol.asyncDispose]());

const FILES = { 'a.md': '# A\n\n[b](b.md)\n', 'c.md': '# C 😀\n' };

function post(body: unknown, headers: Record<string, string> = { authorization: 'Bearer x' }) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return fetch(`${standIn.root}/openai/v1/responses`, { method: 'POST', headers, body: text });
}

async function readStreams() {
  const execute = memoryFolder(ROOT, new Map(Object.entries(FILES)));
  return openSession({ client, root: ROOT, execute, stream: true, chained: true }).say('Check them.');
}

describe('a stream', () => {
  test('has events in OpenAI’s order, numbered from 0', async () => {
    const [, reads] = await readStreams();
    const events = reads?.events ?? [];
    expect(events.map(event => event.sequence_number)).toEqual(events.map((_, index) => index));
    const types = events.map(event => event.type);
    const runs = types.filter((type, index) => !(type.endsWith('.delta') && types[index - 1] === type));
    const call = [
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
    ];
    expect(runs).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      ...call,
      ...call,
      'response.completed',
    ]);
  });

  test('has deltas that add up exactly to the completed response', async () => {
    for (const turn of await readStreams()) {
      const given = turn.response.output.map(() => '');
      for (const event of turn.events) {
        if (
          event.type !== 'response.output_text.delta' &&
          event.type !== 'response.function_call_arguments.delta'
        )
          continue;
        given[event.output_index] += event.delta;
        expect(turn.response.output[event.output_index]?.id).toBe(event.item_id);
      }
      const whole = turn.response.output.map(item =>
        item.type === 'function_call' ? item.arguments : turn.text,
      );
      expect(given).toEqual(whole);
    }
  });

  test('is accepted by the OpenAI client’s own accumulator', async () => {
    const stream = client.responses.stream({ model: 'any', tools: TOOLS, input: 'The folder is /x.' });
    const final = await stream.finalResponse();
    expect(final).toMatchObject({ model: 'stand-in', status: 'completed' });
    expect(final.output.map(item => item.type)).toEqual(['message', 'function_call']);
  });

  test('yields the same response as the request without streaming, except for ids', async () => {
    const request = { model: 'any', tools: TOOLS, input: 'The folder is /x.', instructions: 'None.' };
    const plain = await client.responses.create(request);
    const streamed = await client.responses.stream(request).finalResponse();
    const withoutIds = (value: unknown) =>
      JSON.parse(
        JSON.stringify(value, (key, field) =>
          /^(?:(?:call_)?id|parsed.*|output_parsed|output_text)$/.test(key) ? undefined : field,
        ),
      );
    expect(withoutIds(streamed)).toEqual(withoutIds(plain));
  });
});

describe('a continued response', () => {
  test('must exist', async () => {
    const unknown = client.responses.create({
      model: 'any',
      input: 'Hello',
      previous_response_id: 'resp_gone',
    });
    await expect(unknown).rejects.toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
      type: 'invalid_request_error',
      param: 'previous_response_id',
      message: "400 Previous response with id 'resp_gone' not found.",
    });
  });

  test('does not exist after store: false', async () => {
    const { id } = await client.responses.create({ model: 'any', input: 'Hello', store: false });
    const next = client.responses.create({ model: 'any', input: 'Hello', previous_response_id: id });
    await expect(next).rejects.toMatchObject({ code: 'previous_response_not_found' });
  });
});

describe('a request is refused in OpenAI’s envelope when', () => {
  const call = { type: 'function_call', call_id: 'c1', name: 'directory_tree', arguments: '{}' };
  test.each([
    ['it is not JSON', '{', null],
    ['it is not an object', '[]', null],
    ['it has no model', { input: 'x' }, 'model'],
    ['it has no input', { model: 'm' }, 'input'],
    ['a message has no role', { model: 'm', input: [{ type: 'message', content: 'x' }] }, 'input[0].role'],
    [
      'a call has no id',
      { model: 'm', input: ['role', { ...call, call_id: undefined }].slice(1) },
      'input[0].call_id',
    ],
    ['an item has no type', { model: 'm', input: [{}] }, 'input[0].type'],
    ['an item is no object', { model: 'm', input: ['x'] }, 'input[0]'],
    ['a call has no output', { model: 'm', input: [call] }, 'input'],
    [
      'an output has no call',
      { model: 'm', input: [{ type: 'function_call_output', call_id: 'c', output: '' }] },
      'input',
    ],
    ['a function has no name', { model: 'm', input: 'x', tools: [{ type: 'function' }] }, 'tools'],
    ['stream is no boolean', { model: 'm', input: 'x', stream: 'yes' }, 'stream'],
    [
      'a JSON schema is required',
      { model: 'm', input: 'x', text: { format: { type: 'json_schema' } } },
      'text.format.type',
    ],
  ])('%s', async (_, body, param) => {
    const response = await post(body);
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: object };
    expect(error).toMatchObject({ type: 'invalid_request_error', param, message: expect.any(String) });
    expect(Object.keys(error).sort()).toEqual(['code', 'message', 'param', 'type']);
  });

  test('the API key is missing', async () => {
    const response = await post({ model: 'm', input: 'x' }, {});
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_api_key' } });
  });

  test('the path is unknown', async () => {
    await expect(client.models.list()).rejects.toMatchObject({ status: 404 });
  });
});

test('closing the server ends a stream in progress', async () => {
  const slow = await startStandIn({ paceMs: 60_000 });
  const response = await fetch(`${slow.root}/openai/v1/responses`, {
    method: 'POST',
    headers: { authorization: 'Bearer x' },
    body: JSON.stringify({ model: 'm', input: 'Hello', stream: true }),
  });
  const body = response.text();
  await slow[Symbol.asyncDispose]();
  await expect(body).rejects.toThrow();
});
