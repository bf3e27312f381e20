import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Serving, serveRuns } from '../../../../server/serve.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { calling, endOf, Gateway, type Page, type Resource } from '../../../support/responses/gateway.ts';
import { recordBodies } from '../../../support/responses/record-bodies.ts';

/** A gateway whose provider is another one, which receives what goes upstream. */
let upstream: Gateway;
let recorded: ReturnType<typeof recordBodies>;
let serving: Serving;
let gateway: Gateway;
const saved = { url: process.env.OPENAI_BASE_URL, key: process.env.OPENAI_API_KEY };

const PIXEL = 'data:image/png;base64,AAAA';
const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };
const OUTPUT = [
  { type: 'input_text', text: 'Here it is.' },
  { type: 'input_image', image_url: PIXEL, detail: 'original' },
  { type: 'input_file', file_data: 'data:application/pdf;base64,BBBB', filename: 'paper.pdf' },
];

beforeAll(async () => {
  const scripts = {
    plain: [{ text: 'Hello.' }, { text: 'Hello again.' }],
    ask: [calling('ask'), { text: 'Thanks.' }],
  };
  upstream = new Gateway(scripts);
  recorded = recordBodies(upstream.app);
  serving = await serveRuns(recorded.app, { host: '127.0.0.1', port: 0 });
  process.env.OPENAI_BASE_URL = `${serving.url}/v1`;
  process.env.OPENAI_API_KEY = 'sk-upstream';
  gateway = new Gateway({}, {});
});
afterAll(async () => {
  if (saved.url === undefined) delete process.env.OPENAI_BASE_URL;
  else process.env.OPENAI_BASE_URL = saved.url;
  if (saved.key === undefined) delete process.env.OPENAI_API_KEY;
  else process.env.OPENAI_API_KEY = saved.key;
  await gateway.close();
  await serving.close();
  await upstream.close();
});

async function listed(on: Gateway, responseId: string): Promise<JsonObject[]> {
  return (await on.read<Page>(`/${responseId}/input_items?order=asc`)).data;
}

/** The input items of the newest request upstream. */
function received(): JsonObject[] {
  return (recorded.bodies.at(-1)?.input ?? []) as JsonObject[];
}

function outputItem(asked: Resource, output: unknown): JsonObject {
  return { type: 'function_call_output', call_id: asked.output.at(-1)?.call_id, output } as JsonObject;
}

describe('images and files that a function returns', () => {
  it('reach the provider as such, in the waiting run, and are listed as they were sent', async () => {
    const asked = await gateway.create({ model: 'openai:ask', input: 'go', tools: [ASK] });
    const done = await gateway.create({
      model: 'openai:ask',
      tools: [ASK],
      previous_response_id: asked.id,
      input: [outputItem(asked, OUTPUT)],
    });
    expect(done.output).toMatchObject([{ content: [{ text: 'Thanks.' }] }]);
    expect(await listed(gateway, done.id)).toMatchObject([{ output: OUTPUT }]);
    expect(received().at(-1)).toMatchObject({ type: 'function_call_output', output: OUTPUT });
  });

  it('reach the provider as such in a history that the client keeps', async () => {
    const asked = await gateway.create({ model: 'openai:ask', input: 'go', tools: [ASK], store: false });
    const input = [{ role: 'user', content: 'go' }, ...asked.output, outputItem(asked, OUTPUT)];
    await gateway.create({ model: 'openai:ask', tools: [ASK], input, store: false });
    expect(received().at(-1)).toMatchObject({ type: 'function_call_output', output: OUTPUT });
  });

  it('are not cut, however large', async () => {
    const asked = await gateway.create({ model: 'openai:ask', input: 'go', tools: [ASK] });
    const large = [
      { type: 'input_image', image_url: `data:image/png;base64,${'A'.repeat(1_500_000)}`, detail: 'low' },
    ];
    const done = await gateway.create({
      model: 'openai:ask',
      tools: [ASK],
      previous_response_id: asked.id,
      input: [outputItem(asked, large)],
    });
    expect(done.status).toBe('completed');
    expect(received().at(-1)?.output).toEqual(large);
  });

  it('are refused by their path if they are not valid', async () => {
    const asked = await gateway.create({ model: 'openai:ask', input: 'go', tools: [ASK] });
    for (const [part, param] of [
      [{ type: 'input_image', file_id: 'file_1' }, 'input[0].output[0].image_url'],
      [{ type: 'input_image', image_url: PIXEL, detail: 'huge' }, 'input[0].output[0].detail'],
      [{ type: 'input_audio' }, 'input[0].output[0].type'],
      [7, 'input[0].output[0]'],
    ] as const) {
      const refused = await gateway.refused({
        model: 'openai:ask',
        tools: [ASK],
        previous_response_id: asked.id,
        input: [outputItem(asked, [part])],
      });
      expect(refused).toMatchObject({ status: 400, param });
    }
  });
});

describe('an input item survives the journal, the provider and the listing', () => {
  it.each(['low', 'high', 'auto', 'original'])('with the detail "%s" of its image', async detail => {
    const image = { type: 'input_image', image_url: PIXEL, detail };
    const response = await gateway.create({
      model: 'openai:plain',
      input: [{ role: 'user', content: [image] }],
    });
    expect(await listed(gateway, response.id)).toMatchObject([{ content: [image] }]);
    expect(received()).toMatchObject([{ content: [image] }]);
  });

  it('with its phase and the id that the client chose', async () => {
    const input = [
      { id: 'msg_mine', role: 'user', content: 'a' },
      { id: 'msg_theirs', type: 'message', role: 'assistant', content: 'b', phase: 'commentary' },
      { id: 'msg_last', type: 'message', role: 'assistant', content: 'c', phase: 'final_answer' },
      { role: 'user', content: 'd' },
    ];
    const response = await gateway.create({ model: 'openai:plain', input });
    const kept = await listed(gateway, response.id);
    expect(kept).toMatchObject([
      { id: 'msg_mine' },
      { id: 'msg_theirs', phase: 'commentary' },
      { id: 'msg_last', phase: 'final_answer' },
      { id: expect.any(String) },
    ]);
    expect(received()).toMatchObject([{}, { phase: 'commentary' }, { phase: 'final_answer' }, {}]);
  });

  it('and items without an id get one, so that pages can be turned', async () => {
    const input = ['a', 'b', 'c'].map(content => ({ role: 'user', content }));
    const { id } = await gateway.create({ model: 'openai:plain', input });
    const first = await gateway.read<Page>(`/${id}/input_items?order=asc&limit=2`);
    expect(new Set(first.data.map(item => item.id)).size).toBe(2);
    const next = await gateway.read<Page>(`/${id}/input_items?order=asc&after=${first.last_id}`);
    expect(next.data).toMatchObject([{ content: [{ text: 'c' }] }]);
    const again = await gateway.create({
      model: 'openai:plain',
      previous_response_id: id,
      input: [
        { type: 'item_reference', id: next.data[0]?.id },
        { role: 'user', content: 'd' },
      ],
    });
    expect(await listed(gateway, again.id)).toMatchObject([
      { content: [{ text: 'c' }] },
      { content: [{ text: 'd' }] },
    ]);
  });
});

describe('a response that the provider cut', () => {
  const cut = new Gateway({
    length: [{ reasoning: 'well', text: 'It was a dark and', finishReason: 'length' }],
    filter: [{ text: 'It was a', finishReason: 'content_filter' }],
    thinking: [{ reasoning: 'hm, hm', text: '', finishReason: 'length' }],
  });
  afterAll(() => cut.close());

  it.each([
    ['length', 'max_output_tokens', ['completed', 'incomplete']],
    ['filter', 'content_filter', ['incomplete']],
    ['thinking', 'max_output_tokens', ['incomplete']],
  ])('by %s ends as incomplete (%s), its last item too', async (model, reason, statuses) => {
    const response = await cut.create({ model, input: 'go' });
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason } });
    expect(response.output.map(({ status }) => status)).toEqual(statuses);
    const events = await cut.stream({ model, input: 'go' });
    expect(addUp(events)).toEqual(endOf(events).output);
    expect(endOf(events).output.map(({ status }) => status)).toEqual(statuses);
    expect(events.at(-1)?.type).toBe('response.incomplete');
    expect(await cut.get(response.id)).toEqual(response);
  });
});
