import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scripted } from '../../../../adapters/scripted.ts';
import { createAgent } from '../../../../agent/index.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import * as message from '../../../../protocol/message.ts';
import {
  calling,
  Gateway,
  type Item,
  type Page,
  type Resource,
  runOf,
  typesOf,
} from '../../../support/responses/gateway.ts';

const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };
const DESK = { type: 'mcp', server_label: 'desk' };

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway(
    {
      talk: [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }, { text: 'Four.' }],
      ask: [calling('ask'), { text: 'Thanks.' }, { text: 'Bye.' }],
      desk: [calling('echo', { text: 'hi' }), { text: 'Echoed.' }, { text: 'Later.' }],
      slow: [{ text: 'Word after word it comes.', delayMs: 200 }],
      failing: [{ error: { code: 'invalid-request', message: 'no such thing', status: 400 } }],
    },
    { config: folder => ({ mcp_servers: { desk: folder.server({ require_approval: 'always' }) } }) },
  );
});
afterAll(() => gateway.close());

type Conversation = { id: string; object: string; created_at: number; metadata: JsonObject };

async function call<Body>(method: string, path: string, body?: object, on = gateway): Promise<Body> {
  const response = await on.send(method, `/../conversations${path}`, body);
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as Body;
}

async function refused(method: string, path: string, body?: object) {
  const response = await gateway.send(method, `/../conversations${path}`, body);
  const { error } = (await response.json()) as { error: JsonObject };
  return { status: response.status, code: error.code, param: error.param };
}

async function begin(body: object = {}, on = gateway): Promise<string> {
  return (await call<Conversation>('POST', '', body, on)).id;
}

async function items(id: string, on = gateway): Promise<Item[]> {
  return (await call<Page>('GET', `/${id}/items?order=asc&limit=100`, undefined, on)).data;
}

function say(text: string): object {
  return { type: 'message', role: 'user', content: text };
}

function textsOf(list: readonly JsonObject[]): unknown[] {
  return list.map(({ content, type }) => (content as JsonObject[] | undefined)?.[0]?.text ?? type);
}

it('is a thread: its responses are the runs of one order, and it is deleted with them', async () => {
  const id = await begin({ items: [say('Before.')] });
  const created: string[] = [];
  for (const input of ['One', 'Two']) {
    const response = await gateway.create({ model: 'talk', input, conversation: id });
    created.push(runOf(response));
  }
  const { runs } = await gateway.store.list({ thread: { id, labels: {} }, order: 'asc' });
  const [journal, ...others] = runs.map(({ runId, place }) => [runId, place]);
  expect(journal?.[1]).toBeUndefined();
  expect(others).toEqual(created.map((runId, index) => [runId, index + 1]));
  const agent = createAgent({
    name: runs.at(-1)?.agent ?? '',
    model: scripted([]),
    store: gateway.store,
  });
  const said = await agent.thread(id).messages();
  expect(said.map(message.textOf)).toEqual(['Before.', 'One', 'One.', 'Two', 'Two.']);
  expect(await agent.thread(id).delete()).toHaveLength(3);
  expect(await refused('GET', `/${id}`)).toMatchObject({ status: 404 });
});

function textOf(response: Resource): unknown {
  return textsOf(response.output).at(-1);
}

describe('a conversation', () => {
  it('is created with items and metadata, retrieved, updated and deleted', async () => {
    const made = await call<Conversation>('POST', '', { items: [say('Hello.')], metadata: { topic: 'a' } });
    expect(made).toEqual({
      id: expect.stringMatching(/^conv_/),
      object: 'conversation',
      metadata: { topic: 'a' },
      created_at: expect.any(Number),
    });
    expect(await call('GET', `/${made.id}`)).toEqual(made);
    const updated = await call<Conversation>('POST', `/${made.id}`, { metadata: { topic: 'b' } });
    expect(updated).toEqual({ ...made, metadata: { topic: 'b' } });
    const deleted = await call('DELETE', `/${made.id}`);
    expect(deleted).toEqual({ id: made.id, object: 'conversation.deleted', deleted: true });
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/items'],
    ] as const)
      expect(await refused(method, `/${made.id}${path}`)).toMatchObject({
        status: 404,
        code: 'conversation_not_found',
      });
  });

  it('can be created without a body', async () => {
    expect(await items(await begin())).toEqual([]);
    expect(await call('POST', '')).toMatchObject({ object: 'conversation', metadata: {} });
  });

  it.each([
    [{ metadata: { a: 7 } }, 'metadata.a'],
    [{ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, 'v'])) }, 'metadata'],
    [{ items: Array.from({ length: 21 }, () => say('x')) }, 'items'],
    [{ items: [7] }, 'items[0]'],
    [{ items: [say('x'), { type: 'what' }] }, 'items[1].type'],
    [{ items: [{ type: 'message', role: 'user', content: '' }] }, 'items[0].content'],
    [{ items: [{ type: 'item_reference', id: 'msg_1' }] }, 'items[0].type'],
  ])('is not created from %j', async (body, param) => {
    expect(await refused('POST', '', body)).toMatchObject({ status: 400, param });
  });

  it('has items that are added, listed in pages, retrieved and deleted', async () => {
    const id = await begin({ items: [say('a')] });
    const added = await call<Page>('POST', `/${id}/items`, {
      items: [say('b'), { type: 'message', role: 'assistant', content: 'c' }],
    });
    expect(added).toMatchObject({ object: 'list', has_more: false });
    expect(added.data).toMatchObject([
      { type: 'message', status: 'completed', role: 'user', content: [{ type: 'input_text', text: 'b' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'c' }] },
    ]);
    const first = await call<Page>('GET', `/${id}/items?limit=2`);
    expect([textsOf(first.data), first.has_more]).toEqual([['c', 'b'], true]);
    const rest = await call<Page>('GET', `/${id}/items?limit=2&after=${first.last_id}`);
    expect([textsOf(rest.data), rest.has_more]).toEqual([['a'], false]);
    expect(await refused('GET', `/${id}/items?after=msg_none`)).toMatchObject({
      status: 404,
      code: 'item_not_found',
      param: 'after',
    });
    const [, b] = first.data;
    expect(await call('GET', `/${id}/items/${b?.id}`)).toEqual(b);
    expect(await call('DELETE', `/${id}/items/${b?.id}`)).toMatchObject({ id, object: 'conversation' });
    expect(textsOf(await items(id))).toEqual(['a', 'c']);
    expect(await refused('GET', `/${id}/items/${b?.id}`)).toMatchObject({
      status: 404,
      code: 'item_not_found',
    });
    expect(await refused('GET', `/${id}/items?limit=0`)).toMatchObject({ status: 400 });
  });

  it('keeps calls, outputs and compactions as they were sent, each with an id of its own', async () => {
    const sent = [
      { type: 'function_call', call_id: 'c1', name: 'ask', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: 'yes' },
      { type: 'compaction', encrypted_content: 'gAAAA' },
      { ...say('x'), id: 'msg_same' },
      { ...say('y'), id: 'msg_same' },
    ];
    const id = await begin({ items: sent });
    const kept = await items(id);
    expect(kept.slice(0, 3)).toMatchObject(sent.slice(0, 3));
    expect(kept[3]?.id).toBe('msg_same');
    expect(new Set(kept.map(item => item.id)).size).toBe(5);
  });
});

describe('a response in a conversation', () => {
  it('reads its items and adds its own input and output, once', async () => {
    const id = await begin({ items: [say('Before.')] });
    const one = await gateway.create({ model: 'talk', input: 'First.', conversation: id });
    expect(one.conversation).toEqual({ id });
    expect(one.previous_response_id).toBeNull();
    const two = await gateway.create({ model: 'talk', input: 'Second.', conversation: { id } });
    expect([textOf(one), textOf(two)]).toEqual(['One.', 'Two.']);
    const all = ['Before.', 'First.', 'One.', 'Second.', 'Two.'];
    expect(textsOf(await items(id))).toEqual(all);
    expect((await items(id))[2]).toEqual(one.output[0]);
    const page = await gateway.read<Page>(`/${one.id}/input_items?order=asc`);
    expect(textsOf(page.data)).toEqual(['Before.', 'First.']);
    expect(await gateway.get(two.id)).toEqual(two);
  });

  it('reads items that are added between responses, and not those that are deleted', async () => {
    const id = await begin();
    await gateway.create({ model: 'talk', input: 'First.', conversation: id });
    await call('POST', `/${id}/items`, { items: [say('Added.'), say('Removed.')] });
    const removed = (await items(id)).at(-1);
    await call('DELETE', `/${id}/items/${removed?.id}`);
    const two = await gateway.create({ model: 'talk', input: 'Second.', conversation: id });
    expect(textsOf((await gateway.read<Page>(`/${two.id}/input_items?order=asc`)).data)).toEqual([
      'Added.',
      'Second.',
    ]);
    expect(textsOf(await items(id))).toEqual(['First.', 'One.', 'Added.', 'Second.', 'Two.']);
  });

  it('forgets what was deleted after a response had read it', async () => {
    const id = await begin();
    await gateway.create({ model: 'talk', input: 'First.', conversation: id });
    const [first] = await items(id);
    await call('DELETE', `/${id}/items/${first?.id}`);
    const two = await gateway.create({ model: 'talk', input: 'Second.', conversation: id });
    expect(textOf(two)).toBe('Two.');
    const [started] = await gateway.store.read(runOf(two));
    expect(JSON.stringify(started?.event)).not.toContain('First.');
    const three = await gateway.create({ model: 'talk', input: 'Third.', conversation: id });
    expect(textOf(three)).toBe('Three.');
    expect(textsOf(await items(id))).toEqual(['One.', 'Second.', 'Two.', 'Third.', 'Three.']);
  });

  it('loses its items from the conversation when it is deleted, and they are read no more', async () => {
    const id = await begin();
    await gateway.create({ model: 'talk', input: 'First.', conversation: id });
    const two = await gateway.create({ model: 'talk', input: 'Second.', conversation: id });
    await gateway.send('DELETE', `/${two.id}`);
    expect(textsOf(await items(id))).toEqual(['First.', 'One.']);
    const again = await gateway.create({ model: 'talk', input: 'Third.', conversation: id });
    expect(textOf(again)).toBe('Two.');
  });

  it('that is not stored adds nothing', async () => {
    const id = await begin({ items: [say('Before.')] });
    const one = await gateway.create({ model: 'talk', input: 'First.', conversation: id, store: false });
    expect([textOf(one), one.conversation]).toEqual(['One.', { id }]);
    expect(textsOf(await items(id))).toEqual(['Before.']);
  });

  it('stays when the conversation is deleted', async () => {
    const id = await begin();
    const one = await gateway.create({ model: 'talk', input: 'First.', conversation: id });
    await call('DELETE', `/${id}`);
    expect(await gateway.get(one.id)).toEqual(one);
    const next = await gateway.create({ model: 'talk', input: 'On.', previous_response_id: one.id });
    expect(textOf(next)).toBe('Two.');
    expect(await gateway.refused({ model: 'talk', input: 'x', conversation: id })).toMatchObject({
      status: 404,
      code: 'conversation_not_found',
      message: `Conversation with id '${id}' not found.`,
    });
  });

  it('that failed leaves its input, and the conversation continues', async () => {
    const id = await begin();
    await expect(gateway.create({ model: 'failing', input: 'First.', conversation: id })).rejects.toThrow(
      '400',
    );
    const next = await gateway.create({ model: 'talk', input: 'Second.', conversation: id });
    expect(textOf(next)).toBe('One.');
    expect(textsOf(await items(id))).toEqual(['First.', 'Second.', 'One.']);
  });

  it('cannot also follow a previous response, nor be in a conversation that does not exist', async () => {
    const both = { model: 'talk', input: 'x', conversation: 'conv_1', previous_response_id: 'resp_1' };
    expect(await gateway.refused(both)).toMatchObject({
      status: 400,
      code: 'mutually_exclusive_parameters',
      message:
        "Mutually exclusive parameters. Ensure you are only providing one of: 'previous_response_id' or 'conversation'.",
    });
    const one = await gateway.create({ model: 'talk', input: 'x' });
    for (const conversation of ['conv_0123', 'nonsense', runOf(one).replace('run_', 'conv_')])
      expect((await gateway.refused({ model: 'talk', input: 'x', conversation })).code).toBe(
        'conversation_not_found',
      );
  });

  it('is refused while another one is in progress', async () => {
    const id = await begin();
    const first = gateway.create({ model: 'slow', input: 'First.', conversation: id });
    const all = await Promise.all(
      [1, 2].map(() => gateway.send('POST', '', { model: 'slow', input: 'Second.', conversation: id })),
    );
    for (const response of all) {
      expect([response.status, response.headers.get('x-should-retry')]).toEqual([409, 'false']);
      expect(await response.json()).toMatchObject({ error: { code: 'conversation_locked' } });
    }
    await first;
    expect(textsOf(await items(id))).toEqual(['First.', 'Word after word it comes.']);
  });

  it('is counted with the items of the conversation', async () => {
    const id = await begin({ items: [say('x'.repeat(4_000))] });
    const counted = await gateway.send('POST', '/input_tokens', {
      model: 'talk',
      input: 'y',
      conversation: id,
    });
    expect(((await counted.json()) as JsonObject).input_tokens).toBeGreaterThan(1_000);
  });
});

describe('what a response in a conversation waits for', () => {
  it('is answered in the next request: the output of a function', async () => {
    const id = await begin();
    const asked = await gateway.create({ model: 'ask', input: 'go', tools: [ASK], conversation: id });
    const unanswered = { model: 'ask', input: 'Well?', conversation: id };
    expect((await gateway.refused(unanswered)).code).toBe('tool_output_missing');
    const output = { type: 'function_call_output', call_id: asked.output[0]?.call_id, output: 'yes' };
    const done = await gateway.create({ model: 'ask', tools: [ASK], input: [output], conversation: id });
    expect(textOf(done)).toBe('Thanks.');
    expect(done.id).toContain(asked.id);
    expect(typesOf(await items(id))).toEqual(['message', 'function_call', 'function_call_output', 'message']);
  });

  it('is answered in the next request: an approval', async () => {
    const id = await begin();
    const asked = await gateway.create({ model: 'desk', input: 'go', tools: [DESK], conversation: id });
    expect(typesOf(asked.output)).toEqual(['mcp_list_tools', 'mcp_approval_request']);
    const approval = {
      type: 'mcp_approval_response',
      approval_request_id: asked.output[1]?.id,
      approve: true,
    };
    const done = await gateway.create({ model: 'desk', tools: [DESK], input: [approval], conversation: id });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    const later = await gateway.create({ model: 'desk', tools: [DESK], input: 'On.', conversation: id });
    expect(typesOf(later.output)).toEqual(['message']);
    expect(typesOf(await items(id))).toEqual([
      ...[
        'message',
        'mcp_list_tools',
        'mcp_approval_request',
        'mcp_approval_response',
        'mcp_call',
        'message',
      ],
      ...['message', 'message'],
    ]);
  });
});

describe('the journal of a conversation', () => {
  it('is a run that has ended: no server resumes it, and no list of waiting runs has it', async () => {
    const id = await begin();
    const record = await gateway.store.get(id.replace('conv_', 'run_'));
    expect(record).toMatchObject({ agent: 'conversations', status: 'cancelled' });
    expect(record?.owner).toBeUndefined();
    expect(await gateway.app.pickUp()).toEqual([]);
  });

  it('is enough for another server over the same store', async () => {
    const id = await begin({ items: [say('Before.')] });
    await gateway.create({ model: 'talk', input: 'First.', conversation: id });
    const other = new Gateway({ talk: [{ text: 'x' }, { text: 'Elsewhere.' }] }, { store: gateway.store });
    const two = await other.create({ model: 'talk', input: 'Second.', conversation: id });
    expect(textsOf(await items(id, other))).toEqual(['Before.', 'First.', 'One.', 'Second.', 'Elsewhere.']);
    expect(textOf(two)).toBe('Elsewhere.');
    await other.close();
  });

  it('names a response before it begins, so a server that stops in between loses and doubles nothing', async () => {
    const id = await begin({ items: [say('Before.')] });
    const { runId } = { runId: id.replace('conv_', 'run_') };
    const seq = (await gateway.store.get(runId))?.seq ?? 0;
    const note = { type: 'response', runId: 'run_never', ticket: 'turn_never' };
    const event = { type: 'run.noted' as const, at: 1, by: 'conversations', note };
    await gateway.store.append(runId, { after: seq, input: true }, [event], { status: 'cancelled' });
    expect(textsOf(await items(id))).toEqual(['Before.']);
    const one = await gateway.create({ model: 'talk', input: 'First.', conversation: id });
    expect(textOf(one)).toBe('One.');
    expect(textsOf(await items(id))).toEqual(['Before.', 'First.', 'One.']);
  });
});
