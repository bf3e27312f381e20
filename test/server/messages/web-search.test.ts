import { createAnthropic } from '@ai-sdk/anthropic';
import type Anthropic from '@anthropic-ai/sdk';
import { generateText } from 'ai';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { addUp, anthropicOn, fetchFrom, post, streamed } from '../../support/messages/client.ts';
import { BuiltinDesk, DONE, OTHER, PAGE, SEARCHES } from '../../support/responses/builtin-desk.ts';
import { DIALECTS } from '../../support/responses/dialect-provider.ts';

let desk: BuiltinDesk;
let client: Anthropic;

beforeAll(async () => {
  desk = await BuiltinDesk.open();
  client = anthropicOn(desk.gateway);
});
beforeEach(() => {
  for (const [name, value] of Object.entries(desk.provider.environment)) vi.stubEnv(name, value);
  desk.endpoint.find(PAGE, OTHER);
});
afterAll(() => desk.close());

const search = { type: 'web_search_20250305' as const, name: 'web_search' as const };
const user = { role: 'user' as const, content: 'Find out.' };
const base = { max_tokens: 100, messages: [user], tools: [search] };

describe.each(Object.entries(DIALECTS))('web search on an upstream of the dialect %s', (_, model) => {
  it('runs here, and the message shows the call and the pages that it found', async () => {
    desk.provider.play(SEARCHES, DONE, SEARCHES, DONE);
    const message = await client.messages.create({ ...base, model });
    const [call, result, text] = message.content;
    expect(call).toMatchObject({ type: 'server_tool_use', name: 'web_search', input: { query: 'cats' } });
    expect(result).toMatchObject({
      type: 'web_search_tool_result',
      tool_use_id: call?.type === 'server_tool_use' && call.id,
      content: [PAGE.url, OTHER.url].map(url => ({ type: 'web_search_result', url })),
    });
    expect(text).toMatchObject({ type: 'text', text: 'Found out.' });
    expect(message).toMatchObject({
      stop_reason: 'end_turn',
      usage: { server_tool_use: { web_search_requests: 1 } },
    });
    expect(desk.sent()).toContain(PAGE.snippet);
    const whole = addUp(await streamed(desk.gateway, { ...base, model }));
    expect(withoutIds(whole)).toEqual(withoutIds(message));
  });
});

const model = DIALECTS.chat;

it('a message with a search can be sent back', async () => {
  desk.provider.play(SEARCHES, DONE, { text: 'Yes.' });
  const { content } = await client.messages.create({ ...base, model });
  const messages = [user, { role: 'assistant' as const, content }, { ...user, content: 'Sure?' }];
  const { content: last } = await client.messages.create({ ...base, model, messages });
  expect(last).toMatchObject([{ text: 'Yes.' }]);
  expect(desk.sent()).toContain(PAGE.url);
});

it('the options reach the search, and max_uses ends it', async () => {
  desk.provider.play(SEARCHES, SEARCHES, DONE);
  const place = { type: 'approximate' as const, country: 'FR' };
  const tools = [{ ...search, allowed_domains: ['dogs.example'], user_location: place, max_uses: 1 }];
  const { content, stop_reason } = await client.messages.create({
    ...base,
    model,
    tools,
    tool_choice: { type: 'tool', name: 'web_search' },
  });
  expect(desk.endpoint.asked.map(({ body }) => body)).toEqual([
    { query: 'cats', allowed_domains: ['dogs.example'], user_location: place },
  ]);
  expect(desk.provider.requests[0]?.tool_choice).toMatchObject({ function: { name: 'web_search' } });
  expect(content).toMatchObject([
    { type: 'server_tool_use' },
    { content: [{ url: OTHER.url }] },
    { type: 'server_tool_use' },
    { content: { type: 'web_search_tool_result_error' } },
    { type: 'text' },
  ]);
  expect(stop_reason).toBe('end_turn');
});

it('blocked_domains are refused by name', async () => {
  const tools = [{ ...search, blocked_domains: ['dogs.example'] }];
  const { status, body } = await post(desk.gateway, '/v1/messages', { ...base, model, tools });
  expect(status).toBe(400);
  expect(JSON.stringify(body)).toContain('tools.0.blocked_domains: ');
});

it('the AI SDK reads the search and its sources', async () => {
  desk.provider.play(SEARCHES, DONE);
  const provider = createAnthropic({
    baseURL: 'http://127.0.0.1:4100/v1',
    apiKey: 'unused',
    fetch: fetchFrom(desk.gateway),
  });
  const { text, sources } = await generateText({
    model: provider(model),
    prompt: 'Find out.',
    tools: { web_search: provider.tools.webSearch_20250305({ maxUses: 3 }) },
    maxRetries: 0,
  });
  expect(text).toBe('Found out.');
  expect(sources).toMatchObject([{ url: PAGE.url }, { url: OTHER.url }]);
});

function withoutIds(message: object): unknown {
  return JSON.parse(JSON.stringify(message).replaceAll(/"(id|tool_use_id)":"[^"]+"/g, '"$1":""'));
}
