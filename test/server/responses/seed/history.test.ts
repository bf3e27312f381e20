/** The invariants of history and storage, of the gateway that this one was built after. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { UPSTREAMS, Upstream } from '../../../support/messages/upstream.ts';
import { endOf, Gateway, type Item, type Page, typesOf } from '../../../support/responses/gateway.ts';
import {
  ASK,
  ECHO,
  messageList,
  messagesOf,
  ObedientGateway,
  server,
} from '../../../support/responses/obedient-gateway.ts';

let gateway: ObedientGateway;
beforeAll(async () => {
  gateway = await ObedientGateway.start();
});
afterAll(() => gateway.close());

const model = 'obedient';
const desk = server('desk', { require_approval: 'never' });
const annex = server('annex', { require_approval: 'never' });

/** The messages that the model receives first for a request. */
async function firstMessages(body: object): Promise<{ seen: string[]; messages: JsonObject[] }> {
  const [sent] = await gateway.sentDuring(() => gateway.create({ model, ...body }));
  return { seen: messagesOf(sent), messages: messageList(sent) };
}

describe('items of earlier turns, as the model receives them', () => {
  it('an mcp_call is a function call and its result', async () => {
    const { output } = await gateway.create({ model, input: ECHO, tools: [desk] });
    const input = [{ role: 'user', content: ECHO }, ...output, { role: 'user', content: 'hello' }];
    const { seen } = await firstMessages({ input, tools: [desk] });
    expect(seen).toEqual(['user', 'assistant(echo)', 'tool', 'assistant', 'user']);
  });

  it('a failed mcp_call is a function call and a result with its error', async () => {
    const failed = {
      type: 'mcp_call',
      id: 'mcp_of_another',
      server_label: 'desk',
      name: 'echo',
      arguments: '{}',
      status: 'failed',
      error: 'disk full',
      output: null,
    };
    const input = [{ role: 'user', content: ECHO }, failed, { role: 'user', content: 'hello' }];
    const { seen, messages } = await firstMessages({ input, tools: [desk] });
    expect(seen).toEqual(['user', 'assistant(echo)', 'tool', 'user']);
    expect(messages[2]?.content).toContain('disk full');
  });

  it('mcp_list_tools, mcp_approval_request and mcp_approval_response are left out', async () => {
    const strict = server('desk', { require_approval: 'always' });
    const asked = await gateway.create({ model, input: ECHO, tools: [strict] });
    const approval_request_id = asked.output.at(-1)?.id;
    const response = { type: 'mcp_approval_response', approval_request_id, approve: true };
    const next = { model, tools: [strict], previous_response_id: asked.id, input: [response] };
    const done = await gateway.create(next);
    const input = [
      { role: 'user', content: ECHO },
      ...asked.output,
      response,
      ...done.output,
      { role: 'user', content: 'hello' },
    ];
    const { seen } = await firstMessages({ input, tools: [strict] });
    expect(seen).toEqual(['user', 'assistant(echo)', 'tool', 'assistant', 'user']);
  });

  it('a call of a built-in tool is what it shows, as text', async () => {
    const search = {
      type: 'web_search_call',
      id: 'ws_of_another',
      status: 'completed',
      action: { type: 'search', query: 'tides', sources: [{ type: 'url', url: 'https://tides.example/' }] },
    };
    const input = [{ role: 'user', content: 'hello' }, search, { role: 'user', content: 'hello' }];
    const { messages } = await firstMessages({ input });
    expect(JSON.stringify(messages)).toMatch(/tides.*tides\.example/);
  });

  it('the same history gives the same request again', async () => {
    const { output } = await gateway.create({ model, input: ECHO, tools: [desk] });
    const input = [{ role: 'user', content: ECHO }, ...output, { role: 'user', content: 'hello' }];
    const [one, two] = await gateway.sentDuring(async () => {
      for (const _ of [1, 2]) await gateway.create({ model, input, tools: [desk] });
    });
    expect(two).toEqual(one);
  });

  it('reasoning passes to a model that takes it', async () => {
    const upstream = await Upstream.listen();
    for (const [name, value] of Object.entries(upstream.environment)) vi.stubEnv(name, value);
    const other = new Gateway({});
    upstream.play({ reasoning: 'They greet.', text: 'Hi.' }, { text: 'Bye.' });
    const first = await other.create({ model: UPSTREAMS.responses, input: 'hello' });
    const input = [{ role: 'user', content: 'hello' }, ...first.output, { role: 'user', content: 'bye' }];
    await other.create({ model: UPSTREAMS.responses, input });
    expect(typesOf(first.output)).toEqual(['reasoning', 'message']);
    expect(typesOf(upstream.requests[1]?.input as Item[])).toContain('reasoning');
    vi.unstubAllEnvs();
    await other.close();
    await upstream.close();
  });

  it('messages, function calls and their outputs pass', async () => {
    const input = [
      { role: 'user', content: 'hello' },
      { type: 'function_call', call_id: 'call_1', name: 'ask', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'x' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'y' }] },
      { role: 'user', content: 'hello' },
    ];
    const { seen } = await firstMessages({ input, tools: [ASK] });
    expect(seen).toEqual(['user', 'assistant(ask)', 'tool', 'assistant', 'user']);
  });
});

describe('previous_response_id', () => {
  it('gives the model the whole chain: the input and then the output of each response', async () => {
    const one = await gateway.create({ model, input: 'hello one' });
    const two = await gateway.create({ model, input: 'hello two', previous_response_id: one.id });
    const { seen, messages } = await firstMessages({ input: 'hello three', previous_response_id: two.id });
    expect(seen).toEqual(['user', 'assistant', 'user', 'assistant', 'user']);
    expect(JSON.stringify(messages)).toMatch(/hello one.*hello two.*hello three/);
  });

  it('that does not exist is refused', async () => {
    const refused = await gateway.refused({ model, input: 'hello', previous_response_id: 'resp_none' });
    expect(refused).toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
      message: "Previous response with id 'resp_none' not found.",
      param: 'previous_response_id',
    });
  });
});

describe('a stored response', () => {
  it('has the input of its own request only', async () => {
    const one = await gateway.create({ model, input: 'hello one' });
    const two = await gateway.create({ model, input: 'hello two', previous_response_id: one.id });
    const { data } = await gateway.read<Page>(`/${two.id}/input_items`);
    expect(data).toMatchObject([{ role: 'user', content: [{ text: 'hello two' }] }]);
  });

  it("echoes the client's store and previous_response_id, not those of its model calls", async () => {
    const one = await gateway.create({ model, input: ECHO, tools: [desk], store: true });
    const two = await gateway.create({ model, input: 'hello', tools: [desk], previous_response_id: one.id });
    expect(one).toMatchObject({ store: true, previous_response_id: null });
    expect(two).toMatchObject({ store: true, previous_response_id: one.id });
  });

  it('with store: false is not stored: not found, and nothing can follow it', async () => {
    const { id } = await gateway.create({ model, input: 'hello', store: false });
    expect((await gateway.send('GET', `/${id}`)).status).toBe(404);
    expect(await gateway.refused({ model, input: 'hello', previous_response_id: id })).toMatchObject({
      code: 'previous_response_not_found',
    });
  });

  it('that is deleted answers with its id, an object and deleted; then it is not found', async () => {
    const { id } = await gateway.create({ model, input: 'hello' });
    const deleted = await gateway.send('DELETE', `/${id}`);
    expect(await deleted.json()).toEqual({ id, object: 'response.deleted', deleted: true });
    expect((await gateway.send('GET', `/${id}`)).status).toBe(404);
    expect((await gateway.send('DELETE', `/${id}`)).status).toBe(404);
  });

  it('lists its input items as a page', async () => {
    const { id } = await gateway.create({ model, input: 'hello' });
    const page = await gateway.read<Page & { object: string; first_id: string }>(`/${id}/input_items`);
    expect(page).toMatchObject({ object: 'list', has_more: false });
    expect([page.first_id, page.last_id]).toEqual([page.data[0]?.id, page.data[0]?.id]);
  });
});

describe('the list of a server', () => {
  it('is shown once in a conversation; a second server is listed alone when it comes', async () => {
    const one = await gateway.create({ model, input: 'hello', tools: [desk] });
    const two = await gateway.create({ model, input: ECHO, tools: [desk], previous_response_id: one.id });
    const events = await gateway.stream({
      model,
      input: 'hello',
      tools: [desk, annex],
      previous_response_id: two.id,
    });
    expect(typesOf(one.output)).toEqual(['mcp_list_tools', 'message']);
    expect(typesOf(two.output)).toEqual(['mcp_call', 'message']);
    expect(endOf(events).output).toMatchObject([
      { type: 'mcp_list_tools', server_label: 'annex' },
      { type: 'message' },
    ]);
  });

  it('is not shown again if the input has it', async () => {
    const { output } = await gateway.create({ model, input: 'hello', tools: [desk] });
    const input = [{ role: 'user', content: 'hello' }, ...output, { role: 'user', content: 'hello' }];
    expect(typesOf((await gateway.create({ model, input, tools: [desk] })).output)).toEqual(['message']);
  });
});

it('calls without ids at the same place of chained requests keep apart, each with its own result', async () => {
  const call = { type: 'mcp_call', server_label: 'desk', name: 'echo', arguments: '{}' };
  const said = (output: string) => [
    { role: 'user', content: 'hello' },
    { ...call, output },
    { role: 'user', content: 'hello' },
  ];
  const one = await gateway.create({ model, input: said('first') });
  const { messages } = await firstMessages({ input: said('second'), previous_response_id: one.id });
  const results = messages.filter(({ role }) => role === 'tool');
  expect(results.map(({ content }) => content)).toEqual(['first', 'second']);
  expect(new Set(results.map(({ tool_call_id: id }) => id)).size).toBe(2);
});
