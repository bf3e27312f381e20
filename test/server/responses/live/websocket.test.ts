import { get, type IncomingMessage, request } from 'node:http';
import { Agent, OpenAIResponsesWSModel, Runner, tool } from '@openai/agents';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ANYONE } from '../../../../access/caller.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { Conversations } from '../../../../server/conversations/conversations.ts';
import { Responses } from '../../../../server/responses/responses.ts';
import { type Serving, serveRuns } from '../../../../server/serve.ts';
import { ResponseSocket, type Socket } from '../../../../server/sockets/response-socket.ts';
import { ManualHost } from '../../../../testing/manual-host.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { ClientSocket, errorOf } from '../../../support/responses/client-socket.ts';
import { calling, endOf, fastHost, Gateway, typesOf } from '../../../support/responses/gateway.ts';

let gateway: Gateway;
let serving: Serving;

beforeAll(async () => {
  gateway = new Gateway(
    {
      talk: [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }],
      ask: [calling('ask'), { text: 'Thanks.' }],
      approve: [calling('echo', { text: 'hi' }), { text: 'Said.' }],
      mixed: [
        { toolCalls: [{ name: 'echo', arguments: { text: 'hi' } }, { name: 'ask' }] },
        calling('ask'),
        { text: 'Thanks.' },
      ],
      failing: [{ error: { code: 'server', message: 'out of order', retryable: false } }],
    },
    {
      token: 'secret',
      config: folder => ({
        mcp_servers: { desk: folder.server({ require_approval: 'always' }), open: folder.server() },
        limits: { body_bytes: 1024 * 1024 },
      }),
    },
  );
  serving = await serveRuns(gateway.app, { host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  await serving.close();
  await gateway.close();
});

const AUTHORIZED = { authorization: 'Bearer secret' };
const TALK = { model: 'talk', input: 'go' };

async function open(
  headers: Record<string, string> = AUTHORIZED,
  path = '/v1/responses',
): Promise<ClientSocket> {
  return await ClientSocket.open(serving.url + path, headers);
}

describe('a WebSocket', () => {
  it('of a session is closed when the caller signs out', async () => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ token: 'secret' });
    const signedIn = await fetch(`${serving.url}/session`, { method: 'POST', headers, body });
    const [cookie = ''] = (signedIn.headers.get('set-cookie') ?? '').split(';');
    const [socket, other] = [await open({ cookie }), await open()];
    await fetch(`${serving.url}/session`, { method: 'DELETE', headers: { cookie } });
    expect(await socket.closed).toBe(1001);
    expect(typesOf(await other.create(TALK))).toContain('response.completed');
    other.close();
  });

  it.each([
    ['GET', '/v1/models', '', 200],
    ['GET', '/v1/models?limit=1', '', 200],
    ['POST', '/v1/responses', JSON.stringify(TALK), 200],
    ['GET', '/healthz', '', 200],
    ['GET', '/nothing', '', 404],
  ])('asked for at %s %s, which has none, gets the answer without it', async (method, path, body, status) => {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const headers = {
      ...AUTHORIZED,
      'content-type': 'application/json',
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    };
    request(serving.url + path, { method, headers }, resolve)
      .on('error', reject)
      .end(body);
    const answer = await promise;
    const text = (await answer.toArray()).join('');
    expect(answer.statusCode).toBe(status);
    expect(() => JSON.parse(text)).not.toThrow();
  });

  it('answers one request after the other with their events, and keeps stored responses', async () => {
    const socket = await open();
    socket.send(JSON.stringify({ type: 'response.create', ...TALK }));
    socket.send(JSON.stringify({ type: 'response.create', ...TALK, stream: true }));
    const first = await socket.untilEnd();
    const second = await socket.untilEnd();
    for (const events of [first, second]) expect(addUp(events)).toEqual(endOf(events).output);
    expect(endOf(second).id).not.toBe(endOf(first).id);
    const more = await socket.create({ ...TALK, previous_response_id: endOf(first).id });
    expect(endOf(more).output).toMatchObject([{ content: [{ text: 'Two.' }] }]);
    const found = await fetch(`${serving.url}/v1/responses/${endOf(more).id}`, { headers: AUTHORIZED });
    expect(await found.json()).toEqual(endOf(more));
    socket.close();
  });

  it('continues unstored responses of its own, and no other connection does', async () => {
    const socket = await open();
    const first = endOf(await socket.create({ ...TALK, store: false }));
    const next = { ...TALK, store: false, previous_response_id: first.id };
    const other = await open();
    expect(errorOf(await other.create(next))).toMatchObject({
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    });
    const second = endOf(await socket.create(next));
    expect(second.output).toMatchObject([{ content: [{ text: 'Two.' }] }]);
    const third = endOf(await socket.create({ ...TALK, previous_response_id: second.id }));
    expect(third.output).toMatchObject([{ content: [{ text: 'Three.' }] }]);
    expect((await gateway.store.list({ limit: 1000 })).runs).toSatisfy((runs: { runId: string }[]) =>
      runs.every(({ runId }) => ![first.id, second.id].includes(runId.replace('run_', 'resp_'))),
    );
    socket.close();
    other.close();
  });

  it('takes outputs and approvals of unstored responses', async () => {
    const socket = await open();
    const tools = [{ type: 'function', name: 'ask' }];
    const asked = endOf(await socket.create({ model: 'ask', input: 'go', tools, store: false }));
    const input = [{ type: 'function_call_output', call_id: asked.output[0]?.call_id, output: 'yes' }];
    const done = endOf(
      await socket.create({ model: 'ask', tools, store: false, previous_response_id: asked.id, input }),
    );
    expect(done.output).toMatchObject([{ content: [{ text: 'Thanks.' }] }]);
    const desk = [{ type: 'mcp', server_label: 'desk' }];
    const gated = endOf(await socket.create({ model: 'approve', input: 'go', tools: desk, store: false }));
    const approved = endOf(
      await socket.create({
        model: 'approve',
        tools: desk,
        store: false,
        previous_response_id: gated.id,
        input: [
          { type: 'mcp_approval_response', approval_request_id: gated.output.at(-1)?.id, approve: true },
        ],
      }),
    );
    expect(typesOf(approved.output)).toEqual(['mcp_call', 'message']);
    socket.close();
  });

  it('knows the tool results of earlier unstored responses that wait', async () => {
    const socket = await open();
    const tools = [
      { type: 'mcp', server_label: 'open', require_approval: 'never' },
      { type: 'function', name: 'ask' },
    ];
    const input: JsonObject[] = [{ role: 'user', content: 'go' }];
    const ask = async () => {
      const { output } = endOf(await socket.create({ model: 'mixed', input, tools, store: false }));
      const calls = output.filter(({ type }) => type === 'function_call');
      input.push(
        ...output.map(({ output: _, ...item }) => item),
        ...calls.map(call => ({ type: 'function_call_output', call_id: call.call_id ?? '', output: 'x' })),
      );
      return typesOf(output);
    };
    expect(await ask()).toEqual(['mcp_list_tools', 'mcp_call', 'function_call']);
    expect(await ask()).toEqual(['function_call']);
    expect(await ask()).toEqual(['message']);
    socket.close();
  });

  it('forgets an unstored response when the request that follows it fails', async () => {
    const socket = await open();
    const { id } = endOf(await socket.create({ ...TALK, store: false }));
    const next = { ...TALK, store: false, previous_response_id: id };
    const input = [{ type: 'function_call_output', call_id: 'call_none', output: 'x' }];
    expect((await socket.create({ ...next, input })).at(-1)).toMatchObject({ type: 'error', status: 400 });
    expect(errorOf(await socket.create(next)).code).toBe('previous_response_not_found');
    expect(endOf(await socket.create({ ...TALK, store: false })).status).toBe('completed');
    socket.close();
  });

  it('refuses what it cannot do by name, and continues', async () => {
    const socket = await open();
    for (const [text, code] of [
      ['no json', 'input_invalid'],
      ['[]', 'input_invalid'],
      [`${'['.repeat(100)}${']'.repeat(100)}`, 'input_invalid'],
      [JSON.stringify({ type: 'response.steer', input: [] }), 'unsupported_event'],
      [JSON.stringify({ type: 'session.update' }), 'unknown_event'],
      [JSON.stringify({ type: 'response.create', ...TALK, background: true }), 'unsupported_parameter'],
      [JSON.stringify({ type: 'response.create', model: 'none such', input: 'x' }), 'model_not_found'],
    ]) {
      socket.send(text ?? '');
      const [event] = await socket.untilEnd();
      expect(event).toMatchObject({
        type: 'error',
        status: 400,
        error: { code, message: expect.any(String) },
      });
    }
    const failed = await socket.create({ model: 'failing', input: 'x' });
    expect(failed).toMatchObject([{ type: 'error', status: 502 }]);
    expect(endOf(await socket.create(TALK)).status).toBe('completed');
    socket.close();
  });

  it('bounds the requests that wait', async () => {
    const socket = await open();
    for (let sent = 0; sent < 40; sent += 1)
      socket.send(JSON.stringify({ type: 'response.create', ...TALK }));
    const ends = [];
    for (let ended = 0; ended < 40; ended += 1) ends.push((await socket.untilEnd()).at(-1));
    expect(ends.filter(event => event?.status === 429).length).toBeGreaterThan(10);
    expect(ends.filter(event => event?.type === 'response.completed').length).toBeGreaterThan(15);
    socket.close();
  });

  it('closes a connection whose message is larger than the configured body', async () => {
    const socket = await open();
    socket.send('x'.repeat(1024 * 1024 + 1));
    expect(await socket.closed).toBe(1009);
  });
});

describe('a client that does not read', () => {
  it('is sent one event at a time, and is disconnected when it does not answer a ping', async () => {
    const host = new ManualHost();
    const socket = new DeafSocket();
    serve(socket, gateway, host);
    await expect.poll(() => socket.sent.length).toBe(1);
    await expect.poll(async () => (await gateway.store.list({ status: 'running' })).runs.length).toBe(0);
    expect(socket.sent).toHaveLength(1);
    await host.advance(20_000);
    expect([socket.pings, socket.isGone]).toEqual([1, false]);
    await host.advance(20_000);
    expect([socket.pings, socket.isGone]).toEqual([1, true]);
  });

  it('slowly is told that the server stops before the connection is closed', async () => {
    const stopping = new Gateway({ talk: [{ text: 'One.', delayMs: 600_000 }] }, { host: fastHost });
    const socket = new DeafSocket();
    serve(socket, stopping, new ManualHost());
    await expect.poll(() => socket.sent.length).toBe(1);
    stopping.service.live.close();
    for (let tick = 0; tick < 3; tick += 1) await new Promise(setImmediate);
    expect(socket.code).toBeNull();
    socket.read();
    await expect.poll(() => socket.code).toBe(1001);
    expect(JSON.parse(socket.sent.at(-1) ?? '')).toMatchObject({ error: { code: 'shutting_down' } });
    await stopping.close();
  });
});

/** Serves a connection that has sent one request. */
function serve(socket: Socket, { service, store }: Gateway, host: ManualHost): void {
  const conversations = new Conversations({ store, host, library: service.library });
  const responses = new Responses(service, (id, caller) => conversations.open(id, caller));
  const inRequest = async (work: () => Promise<number>) => void (await work());
  const { closing } = service.live;
  const headers = new Headers();
  const options = { responses, caller: ANYONE, headers, host, inRequest, closing, log: () => {} };
  new ResponseSocket(socket, options).receive(JSON.stringify({ type: 'response.create', ...TALK }));
}

/** A socket whose client neither answers nor reads before `read`. */
class DeafSocket implements Socket {
  readonly sent: string[] = [];
  pings = 0;
  isGone = false;
  code: number | null = null;
  #reads = false;
  #written = () => {};
  #onClose = () => {};

  on(event: 'pong' | 'close', listener: () => void): void {
    if (event === 'close') this.#onClose = listener;
  }

  send(text: string, written: () => void): void {
    this.sent.push(text);
    if (this.#reads) written();
    else this.#written = written;
  }

  read(): void {
    this.#reads = true;
    this.#written();
  }

  ping(): void {
    this.pings += 1;
  }

  terminate(): void {
    this.isGone = true;
    this.#onClose();
  }

  close(code?: number): void {
    this.code = code ?? null;
  }
}

describe('an upgrade', () => {
  it('passes the same checks as every request', async () => {
    await expect(open({})).rejects.toThrow('status 401');
    await expect(open({ authorization: 'Bearer wrong' })).rejects.toThrow('status 401');
    await expect(open({ ...AUTHORIZED, origin: 'https://elsewhere.example' })).rejects.toThrow('status 403');
    await expect(open({ ...AUTHORIZED, host: 'elsewhere.example' })).rejects.toThrow('status 403');
    await expect(open(AUTHORIZED, '/v1/nothing')).rejects.toThrow('status 404');
  });

  it('to another protocol is ignored', async () => {
    const headers = { ...AUTHORIZED, upgrade: 'h2c', connection: 'Upgrade, HTTP2-Settings' };
    const status = new Promise(resolve =>
      get(`${serving.url}/healthz`, { headers }, response => resolve(response.resume().statusCode)),
    );
    expect(await status).toBe(200);
  });
});

describe('ResponsesWS of the openai package', () => {
  it('creates responses and continues them', async () => {
    const client = new OpenAI({ baseURL: `${serving.url}/v1`, apiKey: 'secret' });
    const socket = new ResponsesWS(client);
    const ask = (body: object) =>
      new Promise<OpenAI.Responses.Response>((resolve, reject) => {
        socket.once('response.completed', ({ response }) => resolve(response));
        socket.once('error', reject);
        socket.send({ type: 'response.create', ...TALK, store: false, ...body } as never);
      });
    const first = await ask({});
    const second = await ask({ previous_response_id: first.id });
    expect(second.output).toMatchObject([{ content: [{ text: 'Two.' }] }]);
    await expect(ask({ previous_response_id: 'resp_none' })).rejects.toThrow('not found');
    socket.close();
  });
});

describe('the WebSocket model of @openai/agents', () => {
  it('runs a tool of the client', async () => {
    const client = new OpenAI({ baseURL: `${serving.url}/v1`, apiKey: 'secret' });
    const model = new OpenAIResponsesWSModel(client, 'ask');
    const ask = tool({ name: 'ask', description: 'Asks.', parameters: z.object({}), execute: () => 'yes' });
    const agent = new Agent({ name: 'one', model, tools: [ask] });
    const runner = new Runner({ tracingDisabled: true });
    expect((await runner.run(agent, 'go')).finalOutput).toBe('Thanks.');
    await model.close();
  });
});
