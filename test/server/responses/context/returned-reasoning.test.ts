import { expect, it } from 'vitest';
import { objectOf, objectsOf } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

const { provider, gateway } = await gatewayOn(DialectProvider);

const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };
const GO = { role: 'user', content: 'go' };

function reasoning(place: number): JsonObject {
  return { type: 'reasoning', id: `rs_${place}`, summary: [], encrypted_content: btoa(`seal ${place}`) };
}

function withoutId({ id: _, status: __, ...item }: JsonObject): JsonObject {
  return item;
}

/** What the provider got: the types of the items, and the contents of reasoning. */
function sent(request: JsonObject | undefined): unknown[] {
  return objectsOf(request?.input).map(item => item.encrypted_content ?? item.type ?? item.role);
}

it.each([
  ['as it came', (item: JsonObject) => item],
  ['without ids', withoutId],
])('sealed reasoning that a client returns %s goes back before what it came before', async (_, change) => {
  provider.play(
    { items: [reasoning(1)], text: 'I ask.', calls: [{ name: 'ask', arguments: {} }] },
    { items: [reasoning(2)], calls: [{ name: 'ask', arguments: { n: 2 } }] },
    { text: 'Done.' },
  );
  const include = ['reasoning.encrypted_content'];
  const input: JsonObject[] = [GO];
  for (const _turn of [1, 2, 3]) {
    const { output } = await gateway.create({
      model: 'openai:any',
      store: false,
      include,
      tools: [ASK],
      input,
    });
    for (const item of objectsOf(output)) {
      input.push(change(item));
      if (item.type === 'function_call')
        input.push({ type: 'function_call_output', call_id: item.call_id ?? '', output: 'yes' });
    }
  }
  expect(sent(provider.requests[2])).toEqual([
    'user',
    btoa('seal 1'),
    'assistant',
    'function_call',
    'function_call_output',
    btoa('seal 2'),
    'function_call',
    'function_call_output',
  ]);
});

it.each([
  ['without text', []],
  ['with a summary', [{ type: 'summary_text', text: 'Hm.' }]],
])('sealed reasoning %s ends in a stream before the text that follows it', async (_, summary) => {
  provider.play({ items: [{ ...reasoning(1), summary }], text: 'Hello there.' });
  const body = { model: 'openai:any', input: [GO], include: ['reasoning.encrypted_content'] };
  const events = await gateway.stream(body);
  const ended = events.filter(({ type }) => type === 'response.output_item.done');
  expect(ended.map(event => objectOf(event.item).type)).toEqual(['reasoning', 'message']);
  const response = objectOf(events.at(-1)?.response);
  expect(ended.map(({ item }) => item)).toEqual(response.output);
  expect((await gateway.get(String(response.id))).output).toEqual(response.output);
});
