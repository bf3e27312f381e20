import { expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { DIALECTS, DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { Gateway, typesOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

/** Coding agents declare a web search in every request: a hint, unless the choice of tools demands it. */

const USER = { role: 'user', content: 'Go.' };
const WEB = { type: 'web_search' };
const FIND = { type: 'function', name: 'find', parameters: { type: 'object', properties: {} } };
const model = DIALECTS.chat;
const { provider, gateway: without } = await gatewayOn(DialectProvider);
const configured = () =>
  new Gateway(
    {},
    { config: () => ({ builtin_tools: { web_search: { url: 'http://127.0.0.1:1/search' } } }) },
  );

it('a web search that is not configured is left out, and logged once', async () => {
  provider.play({ text: 'Done.' }, { text: 'Done.' });
  for (let asked = 0; asked < 2; asked += 1) {
    const { tools } = await without.create({ model, input: [USER], tools: [WEB, FIND] });
    expect(tools).toMatchObject([FIND]);
  }
  expect(provider.requests).toMatchObject(Array(2).fill({ tools: [{ function: { name: 'find' } }] }));
  expect(without.log).toEqual([expect.stringMatching(/^A tool was left out of a request\. .*"web_search"/)]);
});

it('the response names a web search that was left out beside the other fields without effect', async () => {
  provider.play({ text: 'Done.' });
  const body = { model, input: 'Go.', tools: [WEB], client_metadata: { id: '1' } };
  const response = await without.send('POST', '', body);
  expect(response.headers.get('agentchart-ignored')).toBe('client_metadata, tools[web_search]');
});

it('a web search without the live web is left out where the one that is configured reads it', async () => {
  const gateway = configured();
  provider.play({ text: 'Done.' });
  const tools = [{ ...WEB, external_web_access: false }];
  expect(await gateway.create({ model, input: [USER], tools })).toMatchObject({ tools: [] });
  expect(provider.requests[0]?.tools).toBeUndefined();
  await gateway.close();
});

it('a web search may offer images beside texts', async () => {
  const gateway = configured();
  provider.play({ calls: [{ name: 'web_search', arguments: { query: 'x' } }] }, { text: 'Done.' });
  const tools = [{ ...WEB, search_content_types: ['text', 'image'] }];
  const { output } = await gateway.create({ model, input: [USER], tools });
  expect(typesOf(output)).toEqual(['web_search_call', 'message']);
  await gateway.close();
});

it.each<[string, JsonObject]>([
  ['chooses it', { tool_choice: WEB }],
  ['chooses among it alone', { tool_choice: { type: 'allowed_tools', mode: 'required', tools: [WEB] } }],
  ['needs a call, and has no other tool', { tools: [WEB], tool_choice: 'required' }],
])('a web search that is not configured is refused where the request %s', async (_, more) => {
  provider.play();
  const refused = await without.refused({ model, input: [USER], tools: [FIND, WEB], ...more });
  expect(refused).toMatchObject({ status: 400, code: 'unsupported_tool' });
  expect(provider.requests).toEqual([]);
});

it('another built-in tool that is not configured is refused', async () => {
  const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }];
  const refused = await without.refused({ model, input: [USER], tools });
  expect(refused).toMatchObject({ code: 'unsupported_tool', param: 'tools[0].type' });
});
