import { expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, ToolDefinition } from '../../../protocol/turn.ts';
import {
  answering,
  bodyFor,
  jsonReply,
  message,
  toolUse,
} from '../../support/adapters/anthropic-exchange.ts';
import { calling, request, result } from '../../support/adapters/requests.ts';

/* In the documented form: https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool */

const tool = (name: string, deferred?: true): ToolDefinition => ({
  name,
  description: name,
  inputSchema: { type: 'object' },
  ...(deferred && { deferred, server: 'crm' }),
});
const tools = [tool('read'), tool('pay', true), tool('look', true)];
const SEARCH = { type: 'tool_search_tool_bm25_20251119', name: 'tool_search_tool_bm25' };
const found = (...names: string[]): JsonObject[] => [
  { type: 'server_tool_use', id: 'srvtoolu_1', name: SEARCH.name, input: { query: 'pay' } },
  {
    type: 'tool_search_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: {
      type: 'tool_search_tool_search_result',
      tool_references: names.map(tool_name => ({ type: 'tool_reference', tool_name })),
    },
  },
];

async function secondBody(
  content: JsonObject[],
  more: Partial<ModelRequest>,
  model = 'claude-sonnet-4-5',
): Promise<JsonObject> {
  const first = answering([jsonReply(message(content, 'tool_use'))]);
  const { items } = await first.adapter.generate(request('go', { tools }), calling());
  const transcript = [userMessage('go'), ...items, result('toolu_1', 'ok')];
  return await bodyFor(request(JSON.parse(JSON.stringify(transcript)), more), { model });
}

test('deferred tools are declared as such, and the search with them', async () => {
  const body = await bodyFor(request('go', { tools }));
  expect(body.tools).toEqual([
    { name: 'read', description: 'read', input_schema: { type: 'object' } },
    { name: 'pay', description: 'pay', input_schema: { type: 'object' }, defer_loading: true },
    { name: 'look', description: 'look', input_schema: { type: 'object' }, defer_loading: true },
    SEARCH,
  ]);
  const plain = await bodyFor(request('go', { tools: [tool('read')] }));
  expect(plain.tools).toHaveLength(1);
});

test('a search that the caller declares stays the only one', async () => {
  const own = { type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' };
  const body = await bodyFor(request('go', { tools, providerOptions: { tools: [own] } }));
  expect((body.tools as JsonObject[]).map(({ name }) => name)).toEqual(['read', 'pay', 'look', own.name]);
});

test('a tool that the caller declares by its type is declared once, and its calls are those of the tool of its name', async () => {
  const own = { type: 'memory_20250818', name: 'memory' };
  const given = { tools: [tool('read'), tool('memory')], providerOptions: { tools: [own] } };
  expect((await bodyFor(request('go', given))).tools).toEqual([
    { name: 'read', description: 'read', input_schema: { type: 'object' } },
    own,
  ]);
  expect((await bodyFor(request('go', { ...given, tools: [tool('memory')] }))).tools).toEqual([own]);
  const { adapter } = answering([jsonReply(message([toolUse('toolu_1', 'memory')], 'tool_use'))]);
  const { toolCalls } = await adapter.generate(request('go', given), calling());
  expect(toolCalls).toMatchObject([{ name: 'memory' }]);
});

test('what the search has found goes back as it came, with the same tools', async () => {
  const content = [...found('pay', 'look'), toolUse('toolu_1', 'pay')];
  const body = await secondBody(content, { tools });
  expect(body.messages).toMatchObject([
    { role: 'user' },
    { role: 'assistant', content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] },
  ]);
  expect(body.tools).toHaveLength(4);
});

test('a reference to a tool that is no longer declared is left out', async () => {
  const content = [...found('pay', 'look'), toolUse('toolu_1', 'pay')];
  const body = await secondBody(content, { tools: [tool('read'), tool('pay', true)] });
  const [, sent] = body.messages as [unknown, JsonObject];
  expect(sent.content).toEqual([...found('pay'), toolUse('toolu_1', 'pay')]);
});

test('a model that does not search gets no searches of another one', async () => {
  const content = [...found('pay'), toolUse('toolu_1', 'pay')];
  const body = await secondBody(content, { tools: [tool('pay')] }, 'claude-opus-4-1');
  expect(body.messages).toMatchObject([
    { role: 'user' },
    { role: 'assistant', content: [toolUse('toolu_1', 'pay')] },
    { role: 'user' },
  ]);
});

test.each([
  ['claude-haiku-4-5', true],
  ['claude-sonnet-4-5-20250929', true],
  ['claude-opus-5-5', true],
  ['claude-fable-5-1', true],
  ['claude-opus-4-1', false],
  ['claude-3-7-sonnet-latest', false],
  ['glm-5', false],
])('%s searches tools: %s', (model, toolSearch) => {
  expect(anthropic({ model, apiKey: 'k' }).capabilities.toolSearch).toBe(toolSearch);
});
