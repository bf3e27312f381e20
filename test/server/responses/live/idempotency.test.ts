import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { CutProvider } from '../../../support/responses/cut-provider.ts';
import { EventReader, idOf, saying } from '../../../support/responses/event-reader.ts';
import { GATE, GatedProvider } from '../../../support/responses/gated-provider.ts';
import {
  calling,
  type Failure,
  fastHost,
  Gateway,
  type Resource,
} from '../../../support/responses/gateway.ts';

let provider: GatedProvider;
let gateway: Gateway;
let keys = 0;

beforeAll(async () => {
  provider = await GatedProvider.listen();
  gateway = new Gateway(
    {
      ask: [calling('ask'), { text: 'One.' }, { text: 'Two.' }],
      approve: [calling('echo', { text: 'hi' }), { text: 'Said.' }],
      failing: [{ error: { code: 'server', message: 'out of order', retryable: false } }],
    },
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

const ASK = { model: 'any', input: 'go' };

function newKey(): string {
  keys += 1;
  return `key-${keys}`;
}

async function send(key: string, body: object, from = gateway): Promise<Response> {
  return await from.send('POST', '', body, { 'idempotency-key': key });
}

async function create(key: string, body: object, from = gateway): Promise<Resource> {
  const response = await send(key, body, from);
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as Resource;
}

async function refused(key: string, body: object): Promise<Failure & { status: number }> {
  const response = await send(key, body);
  return { ...((await response.json()) as { error: Failure }).error, status: response.status };
}

describe('a request with an Idempotency-Key', () => {
  it('that was answered gets the same response, streamed or not, in every process', async () => {
    provider.play(['one']);
    const key = newKey();
    const first = await create(key, ASK);
    expect(await create(key, ASK)).toEqual(first);
    const stream = new EventReader(await send(key, { ...ASK, stream: true }));
    await stream.untilEnd();
    expect(stream.events.at(-1)?.response).toEqual(first);
    const other = new Gateway({}, { store: gateway.store, model: 'openai-chat:any' });
    expect(await create(key, ASK, other)).toEqual(first);
    await other.close();
    expect(provider.requests).toBe(1);
  });

  it('that is being answered gets the same response', async () => {
    provider.play(['one ', GATE, 'two']);
    const key = newKey();
    const first = new EventReader(await send(key, { ...ASK, stream: true }));
    await first.until(saying('one '));
    const second = new EventReader(await send(key, { ...ASK, stream: true }));
    await second.until(saying('one '));
    const third = create(key, ASK);
    provider.open();
    await Promise.all([first.untilEnd(), second.untilEnd()]);
    expect(second.events).toEqual(first.events);
    expect((await third).id).toBe(idOf(first.events[0]));
    expect(provider.requests).toBe(1);
  });

  it('that comes several times at once runs once, also where two servers share the store', async () => {
    provider.play(['one']);
    const other = new Gateway({}, { store: gateway.store, model: 'openai-chat:any' });
    const key = newKey();
    const both = [gateway, other, gateway, other].map(from => create(key, ASK, from));
    const ids = (await Promise.all(both)).map(({ id }) => id);
    expect(new Set(ids).size).toBe(1);
    expect(provider.requests).toBe(1);
    await other.close();
  });

  it('that is not stored gets the same response from the same process', async () => {
    provider.play(['one']);
    const key = newKey();
    const first = await create(key, { ...ASK, store: false });
    expect(await create(key, { ...ASK, store: false })).toEqual(first);
    expect(provider.requests).toBe(1);
  });

  it('in the background gets the response as it is by then', async () => {
    provider.play(['one ', GATE, 'two']);
    const key = newKey();
    const body = { ...ASK, background: true };
    const { id } = await create(key, body);
    expect(await create(key, body)).toMatchObject({ id, status: 'in_progress' });
    provider.open();
    await expect.poll(async () => (await gateway.get(id)).status).toBe('completed');
    expect(await create(key, body)).toEqual(await gateway.get(id));
    expect(provider.requests).toBe(1);
  });

  it('continues, forks and decides once', async () => {
    const tools = [{ type: 'function', name: 'ask' }];
    const asked = await gateway.create({ model: 'ask', input: 'go', tools });
    const answer = (output: string) => ({
      model: 'ask',
      tools,
      previous_response_id: asked.id,
      input: [{ type: 'function_call_output', call_id: asked.output[0]?.call_id, output }],
    });
    const [one, two] = [newKey(), newKey()];
    const first = await create(one, answer('yes'));
    expect(await create(one, answer('yes'))).toEqual(first);
    const fork = await create(two, answer('no'));
    expect(fork.id).not.toBe(first.id);
    expect(await create(two, answer('no'))).toEqual(fork);
    const next = { model: 'ask', tools, previous_response_id: first.id, input: 'on' };
    const three = newKey();
    const third = await create(three, next);
    expect(await create(three, next)).toEqual(third);
    const desk = [{ type: 'mcp', server_label: 'desk' }];
    const gated = await gateway.create({ model: 'approve', input: 'go', tools: desk });
    const request = gated.output.at(-1);
    const input = [
      { type: 'item_reference', id: request?.id },
      { type: 'mcp_approval_response', approval_request_id: request?.id, approve: true },
    ];
    const four = newKey();
    const approved = await create(four, { model: 'approve', tools: desk, input });
    expect(await create(four, { model: 'approve', tools: desk, input })).toEqual(approved);
    expect(gateway.folder.calls()).toEqual(['echo']);
  });

  it('continues the run of its conversation once', async () => {
    const tools = [{ type: 'function', name: 'ask' }];
    const made = await gateway.send('POST', '/../conversations', {});
    const { id: conversation } = (await made.json()) as { id: string };
    const asked = await gateway.create({ model: 'ask', input: 'go', tools, conversation });
    const output = { type: 'function_call_output', call_id: asked.output[0]?.call_id, output: 'yes' };
    const answer = { model: 'ask', tools, conversation, input: [output] };
    const key = newKey();
    const answered = await create(key, answer);
    await create(newKey(), { model: 'ask', tools, conversation, input: 'on' });
    expect(await create(key, answer)).toEqual(answered);
    expect((await refused(key, { ...answer, input: 'other' })).code).toBe('idempotency_key_reused');
  });

  it('is refused with another body, and after its response was deleted', async () => {
    provider.play(['one']);
    const key = newKey();
    const { id } = await create(key, ASK);
    const reused = { status: 409, code: 'idempotency_key_reused', type: 'invalid_request_error' };
    expect(await refused(key, { ...ASK, input: 'something else' })).toMatchObject(reused);
    expect(await refused(key, { ...ASK, store: false })).toMatchObject(reused);
    await gateway.send('DELETE', `/${id}`);
    expect(await refused(key, ASK)).toMatchObject(reused);
    expect(provider.requests).toBe(1);
  });

  it('that was refused before anything began is not remembered', async () => {
    provider.play(['one']);
    const key = newKey();
    expect(await refused(key, { ...ASK, input: '' })).toMatchObject({ status: 400 });
    expect((await create(key, ASK)).status).toBe('completed');
  });

  it('that failed before anything was done, so that clients may retry it, runs again', async () => {
    const cut = await CutProvider.listen();
    vi.stubEnv('OPENAI_BASE_URL', cut.url);
    const fast = new Gateway({}, { host: fastHost, model: 'openai-chat:any' });
    cut.play({ words: ['alpha'], cuts: [0, 0, 0, 0] });
    const key = newKey();
    expect((await send(key, ASK, fast)).status).toBe(503);
    const done = await create(key, ASK, fast);
    expect(done.status).toBe('completed');
    expect(await create(key, ASK, fast)).toEqual(done);
    await fast.close();
    await cut.close();
  });

  it('that failed for good fails again', async () => {
    const key = newKey();
    const failing = { model: 'failing', input: 'x' };
    const first = await refused(key, failing);
    expect(first.status).toBe(502);
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    expect(await refused(key, failing)).toEqual(first);
    expect((await gateway.store.list({ limit: 1000 })).runs).toHaveLength(before);
  });

  it('has 1 to 255 characters', async () => {
    expect(await refused('', ASK)).toMatchObject({ status: 400, code: 'invalid_idempotency_key' });
    expect(await refused('x'.repeat(256), ASK)).toMatchObject({ status: 400 });
  });

  it('leaves neither itself nor its body in the journal', async () => {
    provider.play(['one']);
    const { id } = await create('a-secret-key', ASK);
    const journal = await gateway.store.read(id.replace('resp_', 'run_'));
    expect(JSON.stringify(journal)).not.toContain('a-secret-key');
  });
});

describe('the openai client', () => {
  it('sends a key as a header', async () => {
    provider.play(['one']);
    const headers = { 'Idempotency-Key': newKey() };
    const client = gateway.client();
    const first = await client.responses.create(ASK, { headers });
    expect((await client.responses.create(ASK, { headers })).id).toBe(first.id);
    const other = client.responses.create({ ...ASK, input: 'else' }, { headers });
    await expect(other).rejects.toBeInstanceOf(OpenAI.ConflictError);
    expect(provider.requests).toBe(1);
  });
});
