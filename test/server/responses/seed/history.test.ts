/** The invariants of history and storage, of the gateway that this one was built after. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { endOf, type Page, typesOf } from '../../../support/responses/gateway.ts';
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
      ...{ type: 'mcp_call', id: 'mcp_of_another', server_label: 'desk', name: 'echo', arguments: '{}' },
      ...{ status: 'failed', error: 'disk full', output: null },
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
      ...{ model, input: 'hello', tools: [desk, annex], previous_response_id: two.id },
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
