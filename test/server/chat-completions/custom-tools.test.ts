import { describe, expect, it } from 'vitest';
import { addUpChunks, complete, streamChat } from '../../support/responses/chat.ts';
import { DIALECTS, DialectProvider, type PlayedTurn } from '../../support/responses/dialect-provider.ts';
import { gatewayOn } from '../../support/responses/gateway-on.ts';

const TEXT = '*** "quoted"\n+ line';
const PATCH = { type: 'custom', custom: { name: 'patch', description: 'Applies a patch.' } };
const GO = { role: 'user', content: 'Patch it.' };

const { provider, gateway } = await gatewayOn(DialectProvider);

/** A call of the tool, as a provider of the dialect makes it. */
function calling(dialect: string): PlayedTurn {
  if (dialect !== 'responses') return { calls: [{ name: 'patch', arguments: { input: TEXT } }] };
  return {
    items: [{ type: 'custom_tool_call', id: 'ctc_1', call_id: 'call_1', name: 'patch', input: TEXT }],
  };
}

describe.each(Object.entries(DIALECTS))(
  'a custom tool, with a provider of the dialect %s',
  (dialect, model) => {
    const body = { model, tools: [PATCH], messages: [GO] };

    it('is called with its text, streamed and not', async () => {
      provider.play(calling(dialect), calling(dialect));
      const [choice] = (await complete(gateway, body)).choices;
      const { message } = addUpChunks(await streamChat(gateway, body));
      expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } });
      for (const { tool_calls } of [choice?.message ?? message, message])
        expect(tool_calls).toEqual([
          { id: expect.any(String), type: 'custom', custom: { name: 'patch', input: TEXT } },
        ]);
    });

    it.each([
      ['of a stored response', {}],
      ['of an unstored response', { store: false }],
    ])('takes the result of its call %s', async (_, more) => {
      provider.play(calling(dialect), { text: 'Patched.' });
      const [asked] = (await complete(gateway, { ...body, ...more })).choices;
      const before = (await gateway.store.list({ limit: 1000 })).runs.length;
      const result = { role: 'tool', tool_call_id: asked?.message.tool_calls?.[0]?.id, content: 'done' };
      const messages = [GO, asked?.message, result];
      const [last] = (await complete(gateway, { ...body, ...more, messages })).choices;
      expect(last?.message.content).toBe('Patched.');
      expect(JSON.stringify(provider.requests[1])).toContain('"done"');
      expect((await gateway.store.list({ limit: 1000 })).runs.length).toBe(before);
    });
  },
);

it('a choice and a grammar reach a provider that has them', async () => {
  provider.play({ text: 'ok' });
  const grammar = { syntax: 'lark', definition: 'start: "a"' };
  const tool = { type: 'custom', custom: { name: 'patch', format: { type: 'grammar', grammar } } };
  const tool_choice = { type: 'custom', custom: { name: 'patch' } };
  await complete(gateway, { model: DIALECTS.responses, messages: [GO], tools: [tool], tool_choice });
  expect(provider.requests[0]).toMatchObject({
    tools: [{ type: 'custom', name: 'patch', format: { type: 'grammar', ...grammar } }],
    tool_choice: { name: 'patch' },
  });
});
