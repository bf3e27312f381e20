import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Serving, serveRuns } from '../../../../server/serve.ts';
import { ClientSocket, errorOf } from '../../../support/responses/client-socket.ts';
import { DIALECTS, DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { endOf, typesOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

const { provider, gateway } = await gatewayOn(DialectProvider);
const model = DIALECTS.chat;
const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };
const INSTRUCTIONS = { role: 'developer', content: 'Be brief.' };
const USER = { role: 'user', content: 'Hello?' };

let serving: Serving;
let socket: ClientSocket;
const sockets: ClientSocket[] = [];

beforeAll(async () => {
  serving = await serveRuns(gateway.app, { host: '127.0.0.1', port: 0 });
});
afterEach(() => {
  for (const open of sockets.splice(0)) open.close();
});
afterAll(() => serving.close());

async function connect(): Promise<void> {
  socket = await ClientSocket.open(`${serving.url}/v1/responses`);
  sockets.push(socket);
}

/** What the model read, without the tools. */
function read(at: number): JsonObject[] {
  return provider.requests[at]?.messages as JsonObject[];
}

describe('input that is sent ahead', () => {
  it.each([true, false])(
    'is read with the request that follows it, and costs no call of the model (store: %s)',
    async store => {
      await connect();
      provider.play({ text: 'Yes.' });
      const body = { model, store, tools: [ASK] };
      const ahead = await socket.create({ ...body, input: [INSTRUCTIONS], generate: false });
      expect(typesOf(ahead)).toEqual(['response.created', 'response.in_progress', 'response.completed']);
      expect(endOf(ahead)).toMatchObject({ output: [], usage: { total_tokens: 0 } });
      expect(provider.requests).toEqual([]);
      const { id } = endOf(ahead);
      const next = await socket.create({ ...body, input: [USER], previous_response_id: id });
      expect(endOf(next)).toMatchObject({ status: 'completed' });
      expect(read(0)).toMatchObject([{ content: INSTRUCTIONS.content }, USER]);
    },
  );

  it('may itself follow a response, and input that was sent ahead', async () => {
    await connect();
    provider.play({ text: 'Yes.' }, { text: 'Still.' });
    const body = { model, store: false };
    const first = await socket.create({ ...body, input: 'Hello?' });
    let id = endOf(first).id;
    for (const content of ['One.', 'Two.']) {
      const input = [{ role: 'user', content }];
      id = endOf(await socket.create({ ...body, input, generate: false, previous_response_id: id })).id;
    }
    await socket.create({ ...body, input: 'Go.', previous_response_id: id });
    expect(read(1).map(({ content }) => content)).toEqual(['Hello?', 'Yes.', 'One.', 'Two.', 'Go.']);
  });

  it('is refused like other input, and forgotten with its connection', async () => {
    await connect();
    provider.play();
    const wrong = await socket.create({ model, input: [{ type: 'hologram' }], generate: false });
    expect(errorOf(wrong)).toMatchObject({ code: 'unsupported_input_item' });
    expect(errorOf(await socket.create({ model, input: 'x', generate: 'no' }))).toMatchObject({
      param: 'generate',
    });
    const { id } = endOf(await socket.create({ model, input: 'x', generate: false }));
    await connect();
    const late = await socket.create({ model, input: 'y', previous_response_id: id });
    expect(errorOf(late)).toMatchObject({ code: 'previous_response_not_found' });
    expect(provider.requests).toEqual([]);
  });
});

describe('the lanes of a connection', () => {
  it('are told apart by their events, errors included', async () => {
    await connect();
    provider.play({ text: 'One.' }, { text: 'Two.' });
    for (const stream_id of ['a', 'b'])
      socket.send(JSON.stringify({ type: 'response.create', model, input: stream_id, stream_id }));
    const ended = new Set<unknown>();
    while (ended.size < 2) {
      const { type, stream_id } = await socket.next();
      expect(['a', 'b']).toContain(stream_id);
      if (type === 'response.completed') ended.add(stream_id);
    }
    const [refused] = await socket.create({ model, input: [], stream_id: 'a' });
    expect(refused).toMatchObject({ type: 'error', stream_id: 'a' });
    provider.play({ text: 'Three.' });
    const plain = await socket.create({ model, input: 'c' });
    expect(plain.every(event => event.stream_id === undefined)).toBe(true);
  });

  it('each have a last response that can be continued, also by another lane', async () => {
    await connect();
    provider.play({ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }, { text: 'Four.' });
    const ask = async (input: string, stream_id: string, previous_response_id?: string) => {
      const body = {
        model,
        store: false,
        input,
        stream_id,
        ...(previous_response_id && { previous_response_id }),
      };
      return endOf(await socket.create(body)).id;
    };
    const one = await ask('first', 'a');
    const two = await ask('second', 'b');
    await ask('more', 'a', one);
    await ask('fork', 'c', two);
    const said = (at: number) => read(at).map(({ content }) => content);
    expect(said(2)).toEqual(['first', 'One.', 'more']);
    expect(said(3)).toEqual(['second', 'Two.', 'fork']);
  });

  it('are bounded, and their names are', async () => {
    await connect();
    provider.play();
    const [long] = await socket.create({ model, input: 'x', stream_id: 'x'.repeat(200) });
    expect(errorOf(long === undefined ? [] : [long])).toMatchObject({ param: 'stream_id' });
    for (let lane = 0; lane < 64; lane += 1)
      await socket.create({ model, input: [], stream_id: `lane ${lane}` });
    const many = await socket.create({ model, input: 'x', stream_id: 'one more' });
    expect(many).toMatchObject([{ type: 'error', status: 429, stream_id: 'one more' }]);
    expect(provider.requests).toEqual([]);
  });
});
