import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { BuiltinDesk, DONE, PAGE, SEARCHES } from '../../support/responses/builtin-desk.ts';
import { addUpChunks, complete, streamChat } from '../../support/responses/chat.ts';
import { DIALECTS } from '../../support/responses/dialect-provider.ts';

let desk: BuiltinDesk;

beforeAll(async () => {
  desk = await BuiltinDesk.open();
});
beforeEach(() => {
  for (const [name, value] of Object.entries(desk.provider.environment)) vi.stubEnv(name, value);
  desk.endpoint.find(PAGE);
});
afterAll(() => desk.close());

it('web_search_options let the model search, and the completion has its answer alone', async () => {
  desk.provider.play(SEARCHES, DONE, SEARCHES, DONE);
  const approximate = { country: 'FR' };
  const web_search_options = {
    search_context_size: 'low',
    user_location: { type: 'approximate', approximate },
  };
  const body = { model: DIALECTS.chat, messages: [{ role: 'user', content: 'go' }], web_search_options };
  const [choice] = (await complete(desk.gateway, body)).choices;
  expect(choice).toMatchObject({ finish_reason: 'stop', message: { content: 'Found out.' } });
  expect(choice?.message).not.toHaveProperty('tool_calls');
  expect(desk.sent()).toContain(PAGE.snippet);
  expect(desk.endpoint.asked.at(-1)).toMatchObject({
    body: {
      query: 'cats',
      search_context_size: 'low',
      user_location: { type: 'approximate', country: 'FR' },
    },
  });
  const { message, finishReasons } = addUpChunks(await streamChat(desk.gateway, body));
  expect([message.content, finishReasons]).toEqual(['Found out.', ['stop']]);
});
