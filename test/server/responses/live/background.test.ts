import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { addUp } from '../../../support/responses/add-up.ts';
import { EventReader, idOf, saying } from '../../../support/responses/event-reader.ts';
import { GATE, GatedProvider, HANG } from '../../../support/responses/gated-provider.ts';
import { calling, endOf, Gateway, type Resource, typesOf } from '../../../support/responses/gateway.ts';

let provider: GatedProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await GatedProvider.listen();
  gateway = new Gateway(
    { approve: [calling('echo', { text: 'hi' }), { text: 'Said.' }] },
    {
      model: 'openai-chat:any',
      config: folder => ({ mcp_servers: { desk: folder.server({ require_approval: 'always' }) } }),
    },
  );
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
});
afterAll(async () => {
  await gateway.close();
  await provider.close();
});

const ASK = { model: 'any', input: 'go', background: true };

async function cancel(id: string): Promise<Resource> {
  const response = await gateway.send('POST', `/${id}/cancel`);
  expect(response.status).toBe(200);
  return (await response.json()) as Resource;
}

/** The response once it is no longer in progress. */
async function settled(id: string): Promise<Resource> {
  await expect.poll(async () => (await gateway.get(id)).status).not.toBe('in_progress');
  return await gateway.get(id);
}

describe('a response in the background', () => {
  it('is returned at once, continues without its client, and is polled', async () => {
    provider.play(['one ', GATE, 'two']);
    const asked = await gateway.create(ASK);
    expect(asked).toMatchObject({ status: 'in_progress', background: true, store: true, output: [] });
    expect(await gateway.get(asked.id)).toMatchObject({ status: 'in_progress', background: true });
    provider.open();
    const done = await settled(asked.id);
    expect(done).toMatchObject({ id: asked.id, status: 'completed', background: true });
    expect(done.output).toMatchObject([{ type: 'message', content: [{ text: 'one two' }] }]);
  });

  it('is queued first when it is streamed, and its events add up', async () => {
    provider.play(['one ', 'two']);
    const events = await gateway.stream(ASK);
    expect(typesOf(events).slice(0, 4)).toEqual([
      'response.created',
      'response.queued',
      'response.in_progress',
      'response.output_item.added',
    ]);
    const statuses = events.slice(0, 3).map(({ response }) => (response as Resource).status);
    expect(statuses).toEqual(['queued', 'queued', 'in_progress']);
    expect(addUp(events)).toEqual(endOf(events).output);
  });

  it('continues when its stream is left', async () => {
    provider.play(['one ', GATE, 'two']);
    const reader = new EventReader(await gateway.send('POST', '', { ...ASK, stream: true }));
    const [created] = await reader.until(saying('one '));
    await reader.leave();
    provider.open();
    const done = await settled(idOf(created));
    expect(done.output).toMatchObject([{ content: [{ text: 'one two' }] }]);
  });

  it('asks for approval, and is continued in the background', async () => {
    const tools = [{ type: 'mcp', server_label: 'desk' }];
    const asked = await settled((await gateway.create({ ...ASK, model: 'approve', tools })).id);
    const request = asked.output.at(-1);
    expect(request?.type).toBe('mcp_approval_request');
    const input = [{ type: 'mcp_approval_response', approval_request_id: request?.id, approve: true }];
    const previous = { previous_response_id: asked.id };
    const begun = await gateway.create({ ...ASK, ...previous, model: 'approve', tools, input });
    expect(begun.status).toBe('in_progress');
    expect(typesOf((await settled(begun.id)).output)).toEqual(['mcp_call', 'message']);
  });

  it('fails when the server cannot use its model, whether anybody reads it or not', async () => {
    vi.stubEnv('OPENAI_API_KEY', '');
    const { id } = await gateway.create(ASK);
    expect(await settled(id)).toMatchObject({ status: 'failed', error: { code: 'server_error' } });
    const events = await gateway.stream(ASK);
    expect(events.at(-1)?.type).toBe('response.failed');
  });

  it('is refused if it is not to be stored', async () => {
    expect(await gateway.refused({ ...ASK, store: false })).toMatchObject({
      status: 400,
      param: 'background',
      code: 'background_requires_store',
    });
  });
});

describe('POST /v1/responses/:id/cancel', () => {
  it('cancels a response in the background, once and for all', async () => {
    provider.play(['one ', HANG]);
    const reader = new EventReader(await gateway.send('POST', '', { ...ASK, stream: true }));
    const [created] = await reader.until(saying('one '));
    const id = idOf(created);
    expect(await cancel(id)).toMatchObject({ id, status: 'cancelled', background: true });
    expect(await cancel(id)).toMatchObject({ id, status: 'cancelled' });
    expect((await gateway.get(id)).status).toBe('cancelled');
    await reader.untilEnd();
    expect(endOf(reader.events).status).toBe('cancelled');
    expect(addUp(reader.events)).toEqual(endOf(reader.events).output);
  });

  it('changes nothing about a response that has ended', async () => {
    provider.play(['one']);
    const done = await settled((await gateway.create(ASK)).id);
    expect(await cancel(done.id)).toEqual(done);
  });

  it('refuses responses that are not in the background, and unknown ones', async () => {
    provider.play(['one']);
    const { id } = await gateway.create({ model: 'any', input: 'go' });
    const response = await gateway.send('POST', `/${id}/cancel`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { type: 'invalid_request_error', message: 'Cannot cancel a synchronous response.' },
    });
    expect((await gateway.send('POST', '/resp_none/cancel')).status).toBe(404);
  });

  it('cancels a response that another process runs', async () => {
    provider.play(['one ', HANG]);
    const { id } = await gateway.create(ASK);
    const other = new Gateway({}, { store: gateway.store, model: 'openai-chat:any' });
    const response = await other.send('POST', `/${id}/cancel`);
    expect(await response.json()).toMatchObject({ id, status: 'cancelled' });
    expect((await gateway.get(id)).status).toBe('cancelled');
    await other.close();
  });
});

describe('the openai client', () => {
  it('polls a response in the background, and cancels one', async () => {
    provider.play(['one'], [HANG]);
    const client = gateway.client();
    const { id } = await client.responses.create({ ...ASK });
    await expect.poll(async () => (await client.responses.retrieve(id)).status).toBe('completed');
    expect((await client.responses.retrieve(id)).output_text).toBe('one');
    const other = await client.responses.create({ ...ASK });
    expect((await client.responses.cancel(other.id)).status).toBe('cancelled');
  });
});
