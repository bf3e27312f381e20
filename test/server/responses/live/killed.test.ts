import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WireEvent } from '../../../../server/responses/response-writer.ts';
import { Desk } from '../../../support/cli/desk.ts';
import { EventReader, idOf } from '../../../support/responses/event-reader.ts';
import { calling, Folder, typesOf } from '../../../support/responses/gateway.ts';
import { SearchEndpoint } from '../../../support/responses/search-endpoint.ts';
import { ServedDesk } from '../../../support/server/served-desk.ts';

const DESK = { type: 'mcp', server_label: 'desk', server_url: 'http://127.0.0.1:9/' } as const;

let folder: Folder;
let desk: Desk;
let served: ServedDesk;
let search: SearchEndpoint;
let client: OpenAI;
/** The code that a code interpreter runs connects to it, and stays connected until it is killed. */
let listener: Server;
const code = Promise.withResolvers<Socket>();

beforeAll(async () => {
  search = await SearchEndpoint.listen();
  listener = createServer(socket => code.resolve(socket)).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  folder = new Folder({
    searching: [calling('web_search', { query: 'cats' }), { text: 'They purr.' }],
    hanging: [calling('hang'), { text: 'I do not know.' }],
    approving: [calling('echo', { text: 'hi' }), { text: 'Said.' }],
    computing: [
      calling('code_interpreter', { code: `require('node:net').connect(${port}).resume()` }),
      { text: 'Done.' },
    ],
  });
  desk = new Desk([]);
  const config = {
    models: folder.models,
    mcp_servers: {
      desk: folder.server({
        require_approval: { never: { tool_names: ['hang'] }, always: { tool_names: ['echo'] } },
      }),
    },
    builtin_tools: {
      web_search: { url: search.url },
      code_interpreter: { command: [process.execPath, '-'] },
    },
  };
  desk.write('gateway.json', JSON.stringify(config));
  await start();
});
afterAll(async () => {
  await served.stop();
  await search.close();
  listener.close();
  folder.remove();
});

async function start(): Promise<void> {
  served = await ServedDesk.start(desk, { args: ['--config', 'gateway.json'] }, {});
  client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: 'unused' });
}

/** Kills the server when the stream of a request has got so far, and starts the next one. Returns the response's id. */
async function killAt(body: object, isThere: (event: WireEvent) => boolean, ready = async () => {}) {
  const reader = new EventReader(await served.post('/v1/responses', { ...body, stream: true }));
  await reader.until(isThere);
  await ready();
  await served.stop('SIGKILL');
  await start();
  return idOf(reader.events[0]);
}

/** The response once it has ended. A client polls it like this. */
async function ended(id: string): Promise<OpenAI.Responses.Response> {
  await expect.poll(async () => (await client.responses.retrieve(id)).status).not.toBe('in_progress');
  return await client.responses.retrieve(id);
}

describe('a server that is killed in the middle of a tool', () => {
  it('runs a tool without side effects again in the next one', async () => {
    search.answer = null;
    const body = { model: 'searching', input: 'go', tools: [{ type: 'web_search' }] };
    const id = await killAt(
      body,
      ({ type }) => type.endsWith('.searching'),
      async () => {
        await expect.poll(() => search.asked).toHaveLength(1);
        search.answer = { status: 200, body: '{"results":[]}' };
      },
    );
    const { status, output, output_text } = await ended(id);
    expect([status, typesOf(output), output_text]).toEqual([
      ...['completed', ['web_search_call', 'message'], 'They purr.'],
    ]);
    expect(search.asked).toHaveLength(2);
  });

  it('does not run any other tool again: the call is failed, and the conversation continues', async () => {
    const body = { model: 'hanging', input: 'go', tools: [DESK] };
    const id = await killAt(
      body,
      ({ type }) => type === 'response.mcp_call.in_progress',
      async () => {
        await expect.poll(() => folder.calls()).toContain('hang');
      },
    );
    expect(await ended(id)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'tool_outcome_unknown' },
      output: [{ type: 'mcp_list_tools' }, { type: 'mcp_call', status: 'failed' }],
    });
    const next = { model: 'hanging', input: 'And?', previous_response_id: id, tools: [DESK] };
    expect((await client.responses.create(next)).output_text).toBe('I do not know.');
    expect(folder.calls().filter(name => name === 'hang')).toHaveLength(1);
  });
});

it('a server that is killed while a call waits for approval has it approved in the next one', async () => {
  const body = { model: 'approving', input: 'go', tools: [DESK] };
  const id = await killAt(body, ({ type }) => type === 'response.completed');
  const asked = await client.responses.retrieve(id);
  const request = asked.output.find(({ type }) => type === 'mcp_approval_request');
  const done = await client.responses.create({
    model: 'approving',
    tools: [DESK],
    previous_response_id: id,
    input: [{ type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true }],
  });
  expect([typesOf(done.output), done.output_text]).toEqual([['mcp_call', 'message'], 'Said.']);
  expect(folder.calls().filter(name => name === 'echo')).toHaveLength(1);
});

it('a server that has to exit at once still kills the command of a code interpreter', async () => {
  const body = {
    model: 'computing',
    input: 'go',
    stream: true,
    tools: [{ type: 'code_interpreter', container: { type: 'auto' } }],
  };
  const reader = new EventReader(await served.post('/v1/responses', body));
  await reader.until(({ type }) => type.endsWith('.interpreting'));
  const killed = once(await code.promise, 'close');
  served.started.child.kill('SIGTERM');
  expect((await served.stop('SIGINT')).code).not.toBe(0);
  await killed;
  await start();
});
