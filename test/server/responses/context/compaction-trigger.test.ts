import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { DIALECTS, DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { endOf, type Item } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

/** A client that asks for a compaction by the last item of its input, as Codex does. */

const SUMMARY = 'They chose blue.';
const TRIGGER = { type: 'compaction_trigger' };
const call = { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}' };
const HISTORY = [
  { role: 'developer', content: 'Be brief.' },
  { role: 'user', content: 'Which colour?' },
  call,
  { type: 'function_call_output', call_id: 'call_1', output: 'Blue.' },
];
const tools = [{ type: 'function', name: 'look', parameters: { type: 'object', properties: {} } }];
const { provider, gateway } = await gatewayOn(DialectProvider);

async function compact(body: JsonObject): Promise<Item> {
  const events = await gateway.stream({ input: [...HISTORY, TRIGGER], tools, ...body });
  const { status, output, usage } = endOf(events);
  expect({ status, types: output.map(({ type }) => type) }).toEqual({
    status: 'completed',
    types: ['compaction'],
  });
  expect(usage).toMatchObject({ input_tokens: 5 });
  const done = events.filter(({ type }) => type === 'response.output_item.done');
  expect(done).toMatchObject([{ item: output[0] }]);
  return output[0] as Item;
}

describe('for a model of another provider', () => {
  const model = DIALECTS.chat;

  it.each([true, false])('gets one item that stands for the conversation (store: %s)', async store => {
    provider.play({ text: SUMMARY }, { text: 'Blue.' });
    const item = await compact({ model, store });
    expect(JSON.stringify(provider.requests[0])).toContain('Summarize this conversation.');
    expect(JSON.stringify(provider.requests[0])).not.toContain('compaction_trigger');
    await gateway.create({
      model,
      store,
      input: [HISTORY[0], item, { role: 'user', content: 'Which?' }],
      tools,
    });
    const [, read] = provider.requests;
    expect(JSON.stringify(read?.messages)).toContain(SUMMARY);
    expect(JSON.stringify(read?.messages)).not.toContain('Which colour?');
  });

  it('a stored item is not the summary, one of a client that keeps the history is', async () => {
    provider.play({ text: SUMMARY }, { text: SUMMARY });
    const textIn = ({ encrypted_content: content }: Item) =>
      Buffer.from(String(content).replace(/^.*\./, ''), 'base64url').toString();
    expect(textIn(await compact({ model, store: true }))).not.toContain(SUMMARY);
    expect(textIn(await compact({ model, store: false }))).toContain(SUMMARY);
  });

  it('a summary can be summed up again', async () => {
    provider.play({ text: SUMMARY }, { text: 'Blue it is.' }, { text: 'Yes.' });
    const first = await compact({ model, store: false });
    const second = await compact({
      model,
      store: false,
      input: [first, { role: 'user', content: 'Sure?' }, TRIGGER],
    });
    await gateway.create({ model, store: false, input: [second, { role: 'user', content: 'Which?' }] });
    const sent = JSON.stringify(provider.requests[2]?.messages);
    expect(sent).toContain('Blue it is.');
    expect(sent).not.toContain(SUMMARY);
  });

  it('must be the last item', async () => {
    provider.play();
    const input = [...HISTORY, TRIGGER, { role: 'user', content: 'Go.' }];
    expect(await gateway.refused({ model, input })).toMatchObject({
      code: 'unsupported_input_item',
      param: 'input[4]',
    });
    expect(provider.requests).toEqual([]);
  });

  it('a summary that a client has changed is refused, and so is one that holds more than a summary', async () => {
    const forged = (items: JsonObject[]) =>
      `agentchart.summary.${Buffer.from(JSON.stringify(items)).toString('base64url')}`;
    const text = [{ type: 'text', text: 'x' }];
    const contents = [
      'agentchart.summary.!',
      forged([]),
      forged([{ type: 'message', role: 'system', content: text }]),
      forged([{ type: 'tool_result', callId: 'c', output: 'x', isError: false }]),
      forged([{ type: 'message', role: 'user', content: text, opaque: { provider: 'engine', data: [] } }]),
    ];
    for (const encrypted_content of contents) {
      const input = [
        { type: 'compaction', encrypted_content },
        { role: 'user', content: 'Go.' },
      ];
      expect(await gateway.refused({ model, input })).toMatchObject({ code: 'compaction_not_found' });
    }
  });

  it('a summary that a provider has sealed is for its models only', async () => {
    const block = { type: 'compaction', content: 'x', signature: 's' };
    const items = [
      { type: 'provider_item', kind: 'compaction', opaque: { provider: 'anthropic', data: { block } } },
    ];
    const encrypted_content = `agentchart.summary.${Buffer.from(JSON.stringify(items)).toString('base64url')}`;
    const input = [
      { type: 'compaction', encrypted_content },
      { role: 'user', content: 'Go.' },
    ];
    const refused = await gateway.refused({ model, store: false, input });
    expect(refused).toMatchObject({ code: 'compaction_not_readable' });
  });
});

it('is sent to OpenAI, whose item is given to the client as it is', async () => {
  const theirs = { type: 'compaction', id: 'cmp_1', encrypted_content: 'sealed' };
  provider.play({ items: [theirs] }, { text: 'Blue.' });
  const body = { model: DIALECTS.responses, store: false, tools };
  const events = await gateway.stream({ ...body, input: [...HISTORY, TRIGGER] });
  expect(provider.requests).toMatchObject([{ input: [{}, {}, {}, {}, TRIGGER] }]);
  const { output, status } = endOf(events);
  expect(status).toBe('completed');
  expect(output).toMatchObject([{ type: 'compaction', encrypted_content: 'sealed' }]);
  await gateway.create({ ...body, input: [HISTORY[0], ...output, { role: 'user', content: 'Which?' }] });
  expect(provider.requests[1]?.input).toMatchObject([
    HISTORY[0],
    { type: 'compaction', encrypted_content: 'sealed' },
    { role: 'user' },
  ]);
});
