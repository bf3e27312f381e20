import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../../../protocol/json.ts';
import { calling, endOf, Gateway, type Item, type Page, runOf } from '../../../support/responses/gateway.ts';

const SUMMARY = 'They agreed on Tuesday.';
const USER = { type: 'message', role: 'user', content: 'We launch on Tuesday.' };
const CONVERSATION = [USER, { type: 'message', role: 'assistant', content: 'Understood.' }];
const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };

type Compacted = { id: string; object: string; output: Item[]; usage: JsonObject; created_at: number };

let gateway: Gateway;

beforeAll(() => {
  const usage = { inputTokens: 30, outputTokens: 5 };
  gateway = new Gateway({
    sum: [{ text: 'First.' }, { text: SUMMARY, usage }],
    talk: [{ text: 'One.' }, { text: 'Two.' }, { text: SUMMARY }],
    ask: [calling('ask'), { text: SUMMARY }],
    cut: [{ text: 'Understood.' }, { text: 'They', finishReason: 'length' }],
    busy: [{ text: 'Understood.' }, { error: { code: 'overloaded', message: 'busy', status: 529 } }],
    failing: [
      { text: 'Understood.' },
      { error: { code: 'invalid-request', message: 'no such thing', status: 400 } },
    ],
  });
});
afterAll(() => gateway.close());

async function compact(body: object, on = gateway): Promise<Compacted> {
  const response = await on.send('POST', '/compact', body);
  if (response.status !== 200) throw new Error(await response.text());
  return (await response.json()) as Compacted;
}

async function refused(body: object) {
  const response = await gateway.send('POST', '/compact', body);
  const { error } = (await response.json()) as { error: JsonObject };
  return { status: response.status, ...error };
}

function runOfItem(item: Item | undefined): string {
  return `run_${String(item?.id).split('_')[1]}`;
}

/** What the model of a response's run read. */
async function read(responseId: string): Promise<string> {
  const [started] = await gateway.store.read(runOf({ id: responseId }));
  return JSON.stringify(started?.event.type === 'run.started' ? started.event.input : []);
}

describe('POST /v1/responses/compact', () => {
  it("returns the user's messages and one item in place of the rest", async () => {
    const compacted = await compact({ model: 'sum', input: CONVERSATION, instructions: 'Be kind.' });
    expect(compacted).toMatchObject({
      object: 'response.compaction',
      output: [
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'We launch on Tuesday.' }] },
        { type: 'compaction', id: expect.stringMatching(/^cmp_/), encrypted_content: expect.any(String) },
      ],
      usage: { input_tokens: 30, output_tokens: 5, total_tokens: 35 },
    });
    expect(compacted.created_at).toBeGreaterThan(1_700_000_000);
    expect(JSON.stringify(compacted)).not.toContain(SUMMARY);
    expect(Buffer.from(String(compacted.output[1]?.encrypted_content), 'base64').toString()).not.toContain(
      'Tuesday',
    );
  });

  it('is a run that only compacts what it was given, with its instructions, and calls no model for an answer', async () => {
    const { output } = await compact({ model: 'sum', input: CONVERSATION, instructions: 'Be kind.' });
    const runId = runOfItem(output.at(-1));
    expect(await gateway.store.get(runId)).toMatchObject({ agent: 'responses', status: 'finished' });
    const events = (await gateway.store.read(runId)).map(({ event }) => event);
    expect(events.map(({ type }) => type)).toEqual(['run.started', 'run.claimed', 'transcript.compacted']);
    expect(events[0]).toMatchObject({
      input: [{ role: 'user' }, { role: 'assistant' }],
      launch: { request: { request: { instructions: 'Be kind.', tools: [] } } },
    });
    expect(events).toContainEqual(expect.objectContaining({ summary: SUMMARY }));
  });

  it('is no response: it cannot be retrieved, continued or deleted', async () => {
    const { id } = await compact({ model: 'sum', input: CONVERSATION });
    expect((await gateway.send('GET', `/${id}`)).status).toBe(404);
    expect((await gateway.send('DELETE', `/${id}`)).status).toBe(404);
    const next = await gateway.refused({ model: 'sum', input: 'x', previous_response_id: id });
    expect(next.code).toBe('previous_response_not_found');
  });

  it('compacts what a response and its chain said, also while a function call is open', async () => {
    const one = await gateway.create({ model: 'talk', input: 'First message.' });
    const two = await gateway.create({
      model: 'talk',
      input: 'Second message.',
      previous_response_id: one.id,
    });
    const { output } = await compact({ model: 'talk', previous_response_id: two.id });
    expect(output).toMatchObject([
      { content: [{ text: 'First message.' }] },
      { content: [{ text: 'Second message.' }] },
      { type: 'compaction' },
    ]);
    const asked = await gateway.create({ model: 'ask', input: 'Ask me.', tools: [ASK] });
    const open = await compact({ model: 'ask', previous_response_id: asked.id });
    expect(open.output).toMatchObject([{ content: [{ text: 'Ask me.' }] }, { type: 'compaction' }]);
  });

  it.each([
    [{ input: CONVERSATION }, { code: 'missing_required_parameter', param: 'model' }],
    [
      { model: null, input: CONVERSATION },
      { code: 'missing_required_parameter', param: 'model' },
    ],
    [{ model: 'sum' }, { code: 'missing_required_parameter', param: 'input' }],
    [
      { model: 'sum', input: [] },
      { code: 'missing_required_parameter', param: 'input' },
    ],
    [
      { model: 'sum', input: [{ type: 'what' }] },
      { code: 'unsupported_input_item', param: 'input[0].type' },
    ],
    [
      { model: 'nobody', input: CONVERSATION },
      { code: 'model_not_found', param: 'model' },
    ],
    [{ model: 'sum', previous_response_id: 'resp_0' }, { code: 'previous_response_not_found' }],
  ])('refuses %j', async (body, error) => {
    expect(await refused(body)).toMatchObject({ status: 400, ...error });
  });

  it('compacts a conversation of which nothing can be left out too', async () => {
    const { output } = await compact({ model: 'sum', input: 'We launch on Tuesday.' });
    expect(output).toMatchObject([{ content: [{ text: 'We launch on Tuesday.' }] }, { type: 'compaction' }]);
  });

  it('refuses a body that is no object', async () => {
    expect(await refused([])).toMatchObject({ status: 400 });
  });

  it('fails where the model fails or does not finish the summary', async () => {
    expect(await refused({ model: 'failing', input: CONVERSATION })).toMatchObject({
      status: 400,
      code: 'invalid_prompt',
    });
    const busy = await gateway.send('POST', '/compact', { model: 'busy', input: CONVERSATION });
    expect(busy.status).toBe(503);
    expect(busy.headers.get('x-should-retry')).not.toBe('false');
    expect(await refused({ model: 'cut', input: CONVERSATION })).toMatchObject({
      status: 502,
      code: 'compaction_incomplete',
      message: 'The summary is empty, or was cut off.',
    });
  });
});

describe('a compaction item in a request', () => {
  it('is the summary for the model, and the item itself in the list of input items', async () => {
    const { output } = await compact({ model: 'sum', input: CONVERSATION });
    const next = await gateway.create({
      model: 'sum',
      input: [...output, { role: 'user', content: 'When?' }],
    });
    expect(next.output).toMatchObject([{ content: [{ text: 'First.' }] }]);
    expect(await read(next.id)).toContain(SUMMARY);
    const listed = await gateway.read<Page>(`/${next.id}/input_items?order=asc`);
    expect(listed.data).toMatchObject([{ type: 'message' }, output[1], { content: [{ text: 'When?' }] }]);
    expect(JSON.stringify(listed)).not.toContain(SUMMARY);
  });

  it('needs no id, and is compacted again with what followed it', async () => {
    const first = await compact({ model: 'sum', input: CONVERSATION });
    const { id: _, ...item } = first.output.at(-1) as Item;
    const input = [item, { role: 'user', content: 'When?' }, { role: 'assistant', content: 'Soon.' }];
    const again = await compact({ model: 'talk', input });
    expect(again.output).toMatchObject([{ content: [{ text: 'When?' }] }, { type: 'compaction' }]);
    expect(JSON.stringify(await gateway.store.read(runOfItem(again.output.at(-1))))).toContain(SUMMARY);
  });

  it('is read by another server over the same store', async () => {
    const { output } = await compact({ model: 'sum', input: CONVERSATION });
    const other = new Gateway({ sum: [{ text: 'Elsewhere.' }] }, { store: gateway.store });
    const next = await other.create({ model: 'sum', input: [...output, { role: 'user', content: 'When?' }] });
    await other.close();
    expect(await read(next.id)).toContain(SUMMARY);
  });

  it.each([
    'agentchart.compaction.0123',
    'agentchart.compaction.0123.1',
    'agentchart.compaction.',
    'agentchart.compaction../../x',
  ])('that this server did not make (%s) is refused by its path', async encrypted_content => {
    const input = [{ type: 'compaction', encrypted_content }];
    expect(await gateway.refused({ model: 'sum', input })).toMatchObject({
      status: 400,
      code: 'compaction_not_found',
      param: 'input[0].encrypted_content',
    });
  });

  it('cannot name the run of a response', async () => {
    const { id } = await gateway.create({ model: 'talk', input: 'Secret.' });
    const encrypted_content = `agentchart.compaction.${id.slice('resp_'.length)}.1`;
    const input = [{ type: 'compaction', encrypted_content }];
    expect((await gateway.refused({ model: 'sum', input })).code).toBe('compaction_not_found');
  });
});

describe("compaction by OpenAI's API", () => {
  const COMPACTION = { type: 'compaction', id: 'cmp_theirs', encrypted_content: 'gAAAA-theirs' };
  const TRIGGERED = [{ role: 'user', content: 'go' }, { type: 'compaction_trigger' }];
  const received: JsonObject[] = [];
  const provider = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', chunk => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as JsonObject;
      received.push(body);
      const message = { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed' };
      const content = [{ type: 'output_text', text: 'Hello.', annotations: [] }];
      const isAsked = JSON.stringify(body.input).includes('compaction_trigger');
      const output = body.context_management !== undefined || isAsked ? [COMPACTION] : [];
      const answer = {
        id: `resp_${received.length}`,
        object: 'response',
        status: 'completed',
        model: 'gpt-5',
        output: [...output, { ...message, content }],
      };
      if (body.stream !== true)
        return response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
      response.setHeader('content-type', 'text/event-stream');
      const delta = {
        type: 'response.output_text.delta',
        item_id: 'msg_1',
        output_index: 1,
        content_index: 0,
        delta: 'Hello.',
      };
      for (const event of [delta, { type: 'response.completed', response: answer }])
        response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      return response.end();
    });
  });
  const saved = { url: process.env.OPENAI_BASE_URL, key: process.env.OPENAI_API_KEY };
  const management = [{ type: 'compaction', compact_threshold: 1_000 }];
  let openai: Gateway;

  beforeAll(async () => {
    await new Promise<void>(done => provider.listen(0, '127.0.0.1', done));
    process.env.OPENAI_BASE_URL = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`;
    process.env.OPENAI_API_KEY = 'sk-upstream';
    openai = new Gateway(
      { sum: [{ text: 'First.' }, { text: SUMMARY }] },
      { config: ({ models }) => ({ models: { ...models, gpt: 'openai:gpt-5' } }) },
    );
  });
  afterAll(async () => {
    for (const [name, value] of [
      ['OPENAI_BASE_URL', saved.url],
      ['OPENAI_API_KEY', saved.key],
    ] as const)
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    await openai.close();
    provider.closeAllConnections();
    provider.close();
  });

  it('is asked for with context_management where this server keeps nothing: its item comes first, streamed or not', async () => {
    const request = { model: 'gpt', input: 'go', context_management: management, store: false };
    const response = await openai.create(request);
    expect(received.at(-1)?.context_management).toEqual(management);
    expect(response.output).toMatchObject([
      { type: 'compaction', encrypted_content: 'gAAAA-theirs' },
      { content: [{ text: 'Hello.' }] },
    ]);
    const events = await openai.stream(request);
    expect(endOf(events).output).toMatchObject([{ type: 'compaction' }, { type: 'message' }]);
  });

  it('goes back to it unchanged: by value, by reference, and in its chain', async () => {
    const one = await openai.create({ model: 'gpt', input: TRIGGERED });
    const say = { role: 'user', content: 'on' };
    const reference = { type: 'item_reference', id: one.output[0]?.id };
    for (const input of [
      [one.output[0], say],
      [reference, say],
    ]) {
      await openai.create({ model: 'gpt', input });
      const sent = received.at(-1)?.input as JsonObject[];
      expect(sent.find(({ type }) => type === 'compaction')).toMatchObject({
        encrypted_content: 'gAAAA-theirs',
      });
    }
    await openai.create({ model: 'gpt', input: 'on', previous_response_id: one.id });
    expect(JSON.stringify(received.at(-1)?.input)).toContain('gAAAA-theirs');
  });

  it('is refused by name for models of others, in the input and in the chain', async () => {
    const unstored = { context_management: management, store: false };
    const one = await openai.create({ model: 'gpt', input: TRIGGERED });
    const say = { role: 'user', content: 'on' };
    const given = await openai.refused({ model: 'sum', input: [one.output[0], say] });
    const chained = await openai.refused({ model: 'sum', input: 'on', previous_response_id: one.id });
    expect(given).toMatchObject({ status: 400, code: 'compaction_not_readable' });
    expect(chained).toMatchObject({ status: 400, code: 'compaction_not_readable' });
    const asked = await openai.refused({ model: 'sum', input: 'go', ...unstored });
    expect(asked).toMatchObject({ code: 'context_management_requires_store', param: 'context_management' });
  });

  it('is asked for in a valid form', async () => {
    for (const context_management of [
      7,
      [{ type: 'other' }],
      [{ type: 'compaction', compact_threshold: 'x' }],
    ]) {
      const refused = await openai.refused({ model: 'gpt', input: 'go', context_management });
      expect(refused.param).toMatch(/^context_management/);
    }
  });

  it("reads this server's own compaction as a summary", async () => {
    const { output } = await compact({ model: 'sum', input: CONVERSATION }, openai);
    await openai.create({ model: 'gpt', input: [...output, { role: 'user', content: 'When?' }] });
    const sent = received.at(-1)?.input;
    expect(JSON.stringify(sent)).toContain(SUMMARY);
    expect(Array.isArray(sent) && sent.filter(isJsonObject).map(({ role }) => role)).toEqual([
      'user',
      'user',
      'user',
    ]);
  });
});
