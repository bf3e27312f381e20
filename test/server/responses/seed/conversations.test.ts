/**
 * The invariants of conversations and repeated approvals, of the gateway that this one was built after. A title that
 * begins with "differs" names a deliberate difference.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Item, type Resource, typesOf } from '../../../support/responses/gateway.ts';
import { ECHO, messageList, ObedientGateway, server } from '../../../support/responses/obedient-gateway.ts';

let gateway: ObedientGateway;
beforeAll(async () => {
  gateway = await ObedientGateway.start();
});
afterAll(() => gateway.close());

const model = 'obedient';
const desk = server('desk', { require_approval: 'never' });
const tools = [server('desk', { require_approval: 'always' })];
const NEXT = { role: 'user', content: 'hello' };

async function post<Body>(path: string, body: object): Promise<Body> {
  return (await (await gateway.send('POST', `/../conversations${path}`, body)).json()) as Body;
}

async function converse(items: readonly JsonObject[] = []): Promise<string> {
  const { id } = await post<{ id: string }>('', items.length === 0 ? {} : { items });
  return id;
}

async function itemsOf(conversation: string): Promise<Item[]> {
  const { data } = await gateway.read<{ data: Item[] }>(`/../conversations/${conversation}/items?limit=100`);
  return data;
}

function approvalOf({ output }: Resource): JsonObject {
  const { id } = output.find(({ type }) => type === 'mcp_approval_request') ?? {};
  return { type: 'mcp_approval_response', approval_request_id: id ?? '', approve: true };
}

function calls({ output }: Resource): Item[] {
  return output.filter(({ type }) => type === 'mcp_call');
}

describe('a conversation', () => {
  it('excludes previous_response_id: mutually_exclusive_parameters', async () => {
    const refused = await gateway.refused({
      model,
      input: 'hello',
      conversation: await converse(),
      previous_response_id: 'resp_1',
    });
    expect(refused).toMatchObject({
      status: 400,
      code: 'mutually_exclusive_parameters',
      message:
        "Mutually exclusive parameters. Ensure you are only providing one of: 'previous_response_id' or 'conversation'.",
    });
  });

  it('that does not exist is a 404: conversation_not_found', async () => {
    expect(await gateway.refused({ model, input: 'hello', conversation: 'conv_none' })).toMatchObject({
      status: 404,
      code: 'conversation_not_found',
    });
  });

  it('is echoed by its responses as the client sent it', async () => {
    const conversation = await converse();
    expect(await gateway.create({ model, input: 'hello', conversation })).toMatchObject({
      conversation: { id: conversation },
      previous_response_id: null,
    });
  });

  it('gets no items of a response with store: false', async () => {
    const conversation = await converse();
    await gateway.create({ model, input: 'hello', conversation, store: false });
    expect(await itemsOf(conversation)).toEqual([]);
  });

  it('differs: is not cut to its last 100 items, because a model must not lose calls or instructions unnoticed', async () => {
    const say = (part: number) =>
      Array.from({ length: 20 }, (_, at) => ({ role: 'user', content: `${part}-${at}.` }));
    const conversation = await converse(say(0));
    for (const part of [1, 2, 3, 4, 5]) await post(`/${conversation}/items`, { items: say(part) });
    const [sent] = await gateway.sentDuring(() => gateway.create({ model, input: 'hello', conversation }));
    expect(messageList(sent)).toHaveLength(121);
    expect(messageList(sent)[0]?.content).toBe('0-0.');
  });

  it('lists a server once', async () => {
    const conversation = await converse();
    const one = await gateway.create({ model, input: 'hello', tools: [desk], conversation });
    const two = await gateway.create({ model, input: ECHO, tools: [desk], conversation });
    expect([typesOf(one.output), typesOf(two.output)]).toEqual([
      ['mcp_list_tools', 'message'],
      ['mcp_call', 'message'],
    ]);
  });

  it('has the approval request that a continuation names', async () => {
    const conversation = await converse();
    const asked = await gateway.create({ model, input: ECHO, tools, conversation });
    const done = await gateway.create({ model, tools, conversation, input: [approvalOf(asked)] });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
  });
});

describe('a settled approval', () => {
  it('does not run again in later turns of its conversation', async () => {
    const conversation = await converse();
    const asked = await gateway.create({ model, input: ECHO, tools, conversation });
    await gateway.create({ model, tools, conversation, input: [approvalOf(asked)] });
    for (const _ of [3, 4]) {
      const later = await gateway.create({ model, tools, conversation, input: [NEXT] });
      expect(typesOf(later.output)).toEqual(['message']);
    }
  });

  it('that is sent again does not run again, whatever follows it', async () => {
    const asked = await gateway.create({ model, input: ECHO, tools });
    const approval = approvalOf(asked);
    const done = await gateway.create({ model, tools, previous_response_id: asked.id, input: [approval] });
    expect(calls(done)).toHaveLength(1);
    const before = gateway.folder.calls().length;
    for (const input of [[approval, NEXT], [NEXT, approval], [approval]]) {
      const sent = await gateway.send('POST', '', { model, tools, previous_response_id: done.id, input });
      expect(sent.status).toBeLessThan(500);
    }
    expect(gateway.folder.calls()).toHaveLength(before);
  });
});
