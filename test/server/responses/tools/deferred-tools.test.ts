import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { DIALECTS, DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { typesOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

/** Deferred tools in the form of OpenAI: https://developers.openai.com/api/docs/guides/tools-tool-search */

const USER = { role: 'user', content: 'Go.' };
const FIND = {
  type: 'function',
  name: 'find_customer',
  description: 'Finds a customer.',
  parameters: { type: 'object', properties: {} },
  defer_loading: true,
};
const SEARCH = { type: 'tool_search' };
const searchFor = (query: string) => ({ calls: [{ name: 'search_tools', arguments: { query } }] });
const { provider, gateway } = await gatewayOn(DialectProvider, {
  config: folder => ({
    mcp_servers: {
      desk: folder.server({ require_approval: 'never' }),
      late: folder.server({ require_approval: 'never', deferred: true, allowed_tools: ['echo'] }),
    },
  }),
});

/** The tools that a request declares, and those that were appended to its input. */
const namesIn = ({ tools = [], input = [] }: JsonObject) =>
  [tools, ...(input as JsonObject[]).map(item => item.tools ?? [])]
    .flatMap(declared => declared as JsonObject[])
    .map(tool => tool.name ?? (tool.function as JsonObject).name);

describe('a deferred function', () => {
  it.each([DIALECTS.chat, DIALECTS.anthropic, 'openai:gpt-4.1'])(
    'is found by a search that the client of %s does not see, and called by it',
    async model => {
      provider.play(searchFor('customer'), { calls: [{ name: FIND.name, arguments: {} }] }, { text: 'Ada.' });
      const tools = [FIND, SEARCH];
      const first = await gateway.create({ model, input: [USER], tools });
      expect(first.output).toMatchObject([{ type: 'function_call', name: FIND.name }]);
      expect(first.tools).toMatchObject([FIND, SEARCH]);
      expect(provider.requests.map(namesIn)).toEqual([['search_tools'], ['search_tools', FIND.name]]);
      const call_id = String(first.output[0]?.call_id);
      const input = [{ type: 'function_call_output', call_id, output: 'Ada' }];
      const second = await gateway.create({ model, previous_response_id: first.id, input, tools });
      expect(second.output).toMatchObject([{ content: [{ text: 'Ada.' }] }]);
      expect(namesIn(provider.requests[2] ?? {})).toEqual(['search_tools', FIND.name]);
    },
  );

  it('is declared to a model that searches, and the search with it', async () => {
    const calls = [{ name: FIND.name, arguments: {} }];
    provider.play({ calls }, { calls });
    const model = 'openai:gpt-5.4';
    const { output } = await gateway.create({ model, input: [USER], tools: [FIND, SEARCH] });
    expect(output).toMatchObject([{ type: 'function_call', name: FIND.name }]);
    const declared = provider.requests[0]?.tools as JsonObject[];
    expect(declared).toHaveLength(2);
    expect(declared).toEqual(
      expect.arrayContaining([SEARCH, expect.objectContaining({ name: FIND.name, defer_loading: true })]),
    );
    await gateway.create({ model: 'anthropic:claude-opus-5-5', input: [USER], tools: [FIND] });
    expect(provider.requests[1]?.tools).toMatchObject([
      { name: FIND.name, defer_loading: true },
      { name: 'tool_search_tool_bm25' },
    ]);
  });

  it('leaves its name to a function of the client that is called like the search', async () => {
    provider.play({ calls: [{ name: 'client_search_tools', arguments: {} }] });
    const own = { type: 'function', name: 'search_tools', parameters: { type: 'object', properties: {} } };
    const { output } = await gateway.create({ model: DIALECTS.chat, input: [USER], tools: [own, FIND] });
    expect(output).toMatchObject([{ type: 'function_call', name: 'search_tools' }]);
  });

  it('is counted without its definition', async () => {
    const large = { ...FIND, description: 'x'.repeat(40_000) };
    const count = async (tool: JsonObject) => {
      const body = { model: DIALECTS.chat, input: [USER], tools: [tool] };
      const answer: { input_tokens: number } = JSON.parse(
        await (await gateway.send('POST', '/input_tokens', body)).text(),
      );
      return answer.input_tokens;
    };
    expect(await count(large)).toBeLessThan(300);
    expect(await count({ ...large, defer_loading: false })).toBeGreaterThan(9_000);
  });
});

describe('a deferred server', () => {
  it.each([
    ['by the request', { type: 'mcp', server_label: 'desk', defer_loading: true, allowed_tools: ['echo'] }],
    ['by the configuration', { type: 'mcp', server_label: 'late' }],
  ])('%s is listed, searched and called', async (_, server) => {
    provider.play(
      searchFor('echo'),
      { calls: [{ name: 'echo', arguments: { text: 'hi' } }] },
      { text: 'Said.' },
    );
    const { output } = await gateway.create({ model: DIALECTS.chat, input: [USER], tools: [server] });
    expect(typesOf(output)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    expect(provider.requests.map(namesIn)).toEqual([
      ['search_tools'],
      ['search_tools', 'echo'],
      ['search_tools', 'echo'],
    ]);
  });
});
