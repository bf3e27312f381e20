import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { DIALECTS, DialectProvider, type PlayedTurn } from '../../../support/responses/dialect-provider.ts';
import { endOf, type Item, type Page, type Resource } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

const PATCH = { type: 'custom', name: 'patch', description: 'Applies a patch.' };
const GRAMMAR = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' };
const USER = { role: 'user', content: 'Patch it.' };
const TEXT = '*** "quoted"\n+ line';

const { provider, gateway } = await gatewayOn(DialectProvider);

const NATIVE: PlayedTurn = {
  items: [{ type: 'custom_tool_call', id: 'ctc_1', call_id: 'call_1', name: 'patch', input: TEXT }],
};
const AS_FUNCTION: PlayedTurn = { calls: [{ name: 'patch', arguments: { input: TEXT } }] };

type Known = keyof typeof DIALECTS;
const dialects = Object.keys(DIALECTS) as Known[];

function turnOf(dialect: Known): PlayedTurn {
  return dialect === 'responses' ? NATIVE : AS_FUNCTION;
}

function outputFor({ output }: Resource): JsonObject {
  const call = output.find(({ type }) => type === 'custom_tool_call');
  return { type: 'custom_tool_call_output', call_id: call?.call_id ?? '', output: 'patched' };
}

/** The same items without what differs between two responses. */
function alike(items: readonly Item[]): JsonObject[] {
  return items.map(({ id, call_id: _, ...item }) => ({ ...item, kind: id.split('_')[0] ?? '' }));
}

describe.each(dialects)('a custom tool, with a provider of the dialect %s', dialect => {
  const model = DIALECTS[dialect];

  it('is called with its text, streamed and not', async () => {
    provider.play(turnOf(dialect), turnOf(dialect));
    const body = { model, input: [USER], tools: [PATCH] };
    const whole = await gateway.create(body);
    expect(whole.output).toMatchObject([
      { type: 'custom_tool_call', id: expect.stringMatching(/^ctc_/), name: 'patch', input: TEXT },
    ]);
    expect(whole.tools).toEqual([{ ...PATCH, format: { type: 'text' } }]);
    const events = await gateway.stream(body);
    expect(addUp(events)).toEqual(endOf(events).output);
    expect(alike(endOf(events).output)).toEqual(alike(whole.output));
    expect(events.map(({ type }) => type)).toEqual([
      ...['response.created', 'response.in_progress', 'response.output_item.added'],
      ...['response.custom_tool_call_input.delta', 'response.custom_tool_call_input.done'],
      ...['response.output_item.done', 'response.completed'],
    ]);
  });

  it.each(['after the response', 'from its items', 'from its items, not stored', 'by references'])(
    'gets its output back %s',
    async way => {
      provider.play(turnOf(dialect), { text: 'Patched.' });
      const store = !way.endsWith('not stored');
      const first = await gateway.create({ model, store, input: [USER], tools: [PATCH] });
      const items =
        way === 'by references'
          ? first.output.map(({ id }) => ({ id, type: 'item_reference' }))
          : first.output;
      const second = await gateway.create({
        model,
        store,
        tools: [PATCH],
        ...(way === 'after the response'
          ? { previous_response_id: first.id, input: [outputFor(first)] }
          : { input: [USER, ...items, outputFor(first)] }),
      });
      expect(second.output).toMatchObject([{ type: 'message', content: [{ text: 'Patched.' }] }]);
      const sent = JSON.stringify(provider.requests.at(-1));
      expect(sent).toContain('patched');
      expect(sent).toContain(dialect === 'responses' ? '"custom_tool_call_output"' : 'patch');
      if (dialect === 'responses') expect(sent).not.toContain('function_call');
      if (way === 'from its items') {
        const { data } = await gateway.read<Page>(`/${second.id}/input_items?order=asc`);
        expect(data.slice(1)).toMatchObject([
          { type: 'custom_tool_call', name: 'patch', input: TEXT },
          { type: 'custom_tool_call_output', output: 'patched' },
        ]);
      }
    },
  );

  it('can be chosen', async () => {
    provider.play(turnOf(dialect), turnOf(dialect));
    const tools = [PATCH, { ...PATCH, name: 'other' }];
    const chosen = { type: 'custom', name: 'patch' };
    await gateway.create({ model, input: [USER], tools, tool_choice: chosen });
    const allowed = { type: 'allowed_tools', mode: 'auto', tools: [chosen] };
    await gateway.create({ model, input: [USER], tools, tool_choice: allowed });
    const [forced, limited] = provider.requests;
    expect(JSON.stringify(forced?.tool_choice)).toContain('patch');
    expect(limited?.tools).toHaveLength(1);
    expect(JSON.stringify(limited?.tools)).toContain('Applies a patch.');
    const refused = await gateway.refused({
      model,
      input: [USER],
      tools,
      tool_choice: { type: 'custom', name: 'x' },
    });
    expect(refused).toMatchObject({ status: 400, code: 'tool_choice_function_not_found' });
  });
});

describe('the format of a custom tool', () => {
  it('reaches a provider that has custom tools', async () => {
    provider.play(NATIVE);
    await gateway.create({
      model: DIALECTS.responses,
      input: [USER],
      tools: [{ ...PATCH, format: GRAMMAR }],
    });
    expect(provider.requests[0]?.tools).toEqual([{ ...PATCH, format: GRAMMAR }]);
  });

  it.each(['chat', 'anthropic'] as const)('is told to models of the dialect %s', async dialect => {
    provider.play({ text: 'Done.' });
    const tools = [{ ...PATCH, format: GRAMMAR }];
    await gateway.create({ model: DIALECTS[dialect], input: [USER], tools });
    const sent = JSON.stringify(provider.requests[0]?.tools);
    expect(sent).toContain(JSON.stringify(GRAMMAR.definition).slice(1, -1));
  });
});

it('a call without a text is answered to the model, not handed to the client', async () => {
  provider.play({ calls: [{ name: 'patch', arguments: { text: 'x' } }] }, { text: 'Sorry.' });
  const { output } = await gateway.create({ model: DIALECTS.chat, input: [USER], tools: [PATCH] });
  expect(output).toMatchObject([{ type: 'message', content: [{ text: 'Sorry.' }] }]);
});
