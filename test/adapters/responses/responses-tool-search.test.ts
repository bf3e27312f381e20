import { expect, test } from 'vitest';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { responsesBody } from '../../../adapters/responses/request.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ToolDefinition } from '../../../protocol/turn.ts';
import { calling, request, result } from '../../support/adapters/requests.ts';
import { body, DIALECT } from '../../support/adapters/wire/responses-request.ts';

/* In the documented form: https://developers.openai.com/api/docs/guides/tools-tool-search */

const tool = (name: string, more: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name,
  description: name,
  inputSchema: { type: 'object', properties: {} },
  ...more,
});
const tools = [
  tool('read'),
  tool('pay', { deferred: true, server: 'crm' }),
  tool('note', { deferred: true }),
  tool('look', { deferred: true, server: 'crm' }),
];
const SEARCH = { type: 'tool_search' };
const DEFERRED = { type: 'function', defer_loading: true };

test('deferred tools of a server are in a namespace, others are functions, and the search is declared', () => {
  expect(body(request('go', { tools })).tools).toMatchObject([
    { type: 'function', name: 'read' },
    { ...DEFERRED, name: 'note' },
    {
      type: 'namespace',
      name: 'crm',
      description: '2 tools: pay, look',
      tools: [
        { ...DEFERRED, name: 'pay' },
        { ...DEFERRED, name: 'look' },
      ],
    },
    SEARCH,
  ]);
});

test('tools of 50 servers take as few tokens as those of one', () => {
  const many = Array.from({ length: 500 }, (_, at) =>
    tool(`task_${at}`, { deferred: true, server: `${at % 50} ${'server'.repeat(20)}` }),
  );
  const declared = body(request('go', { tools: many })).tools as JsonObject[];
  const seen = declared.map(({ name = '', description = '' }) => `${name}${description}`).join('');
  expect(seen.length / 4).toBeLessThan(450);
  expect(new Set(declared.map(({ name }) => name)).size).toBe(declared.length);
  expect(declared.at(-2)).toMatchObject({ name: 'other_servers', tools: { length: 400 } });
});

test('a namespace has the name of no tool', () => {
  const [space] = body(request('go', { tools: [tool('pay', { deferred: true, server: 'pay' })] }))
    .tools as JsonObject[];
  expect(space).toMatchObject({ type: 'namespace', name: 'pay_', tools: [{ name: 'pay' }] });
});

test('a search that the caller declares stays the only one', () => {
  const sent = body(request('go', { tools, providerOptions: { tools: [SEARCH] } })).tools as JsonObject[];
  expect(sent.filter(({ type }) => type === 'tool_search')).toHaveLength(1);
});

test('what the search has found goes back as it came, with the same tools, and a call with its namespace', async () => {
  const output = [
    {
      type: 'tool_search_call',
      id: 'tsc_1',
      execution: 'server',
      call_id: null,
      status: 'completed',
      arguments: { paths: ['crm'] },
    },
    {
      type: 'tool_search_output',
      id: 'tso_1',
      execution: 'server',
      call_id: null,
      status: 'completed',
      tools: [{ type: 'namespace', name: 'crm', description: 'x', tools: [{ ...DEFERRED, name: 'pay' }] }],
    },
    {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_1',
      name: 'pay',
      namespace: 'crm',
      arguments: '{}',
      status: 'completed',
    },
  ];
  const sent: JsonObject[] = [];
  const adapter = openaiResponses({
    model: 'gpt-5.4',
    apiKey: 'k',
    store: false,
    fetch: async (_, init) => {
      sent.push(JSON.parse(String(init?.body)));
      return Response.json({ id: 'resp_1', object: 'response', status: 'completed', output });
    },
  });
  const { items, toolCalls } = await adapter.generate(request('go', { tools }), calling());
  expect(toolCalls).toMatchObject([{ callId: 'call_1', name: 'pay', executedBy: 'engine' }]);
  const transcript = [userMessage('go'), ...items, result('call_1', 'paid')];
  await adapter.generate(request(JSON.parse(JSON.stringify(transcript)), { tools }), calling());
  const [first, second] = sent as [JsonObject, JsonObject];
  expect(second.tools).toEqual(first.tools);
  expect(second.input).toMatchObject([
    { role: 'user' },
    output[0],
    output[1],
    { type: 'function_call', call_id: 'call_1', name: 'pay', namespace: 'crm' },
    { type: 'function_call_output', call_id: 'call_1', output: 'paid' },
  ]);
});

test('a model that does not search gets no searches of another, but the tools that they found', () => {
  const found = { type: 'tool_search_output', tools: [{ type: 'function', name: 'pay' }] };
  const kept = (data: JsonObject) => ({ opaque: { provider: 'openai', data } });
  const transcript: Item[] = [
    userMessage('go'),
    { type: 'provider_item', kind: 'tool_search_call', ...kept({ item: { type: 'tool_search_call' } }) },
    { type: 'provider_item', kind: 'tool_search_output', ...kept({ item: found }) },
    { type: 'tool_call', callId: 'call_1', name: 'pay', arguments: '{}', ...kept({ namespace: 'crm' }) },
    result('call_1', 'paid'),
  ];
  const bodyFor = (searches: boolean) =>
    responsesBody(
      { ...DIALECT, provider: 'openai', searchesTools: () => searches },
      { model: 'm', store: false, encryptedReasoning: false, providerOptions: undefined },
    )(request(transcript, { tools: [tool('read'), tool('pay')] }), { stream: false });
  expect(bodyFor(false)).toMatchObject({
    tools: [{ name: 'read' }, { name: 'pay' }],
    input: [
      { role: 'user' },
      { type: 'function_call', name: 'pay' },
      { type: 'function_call_output', call_id: 'call_1' },
    ],
  });
  expect(JSON.stringify(bodyFor(false))).not.toContain('namespace');
  expect(bodyFor(true).input).toMatchObject([
    {},
    { type: 'tool_search_call' },
    found,
    { namespace: 'crm' },
    {},
  ]);
});

test.each([
  ['gpt-5.4', true],
  ['gpt-5.4-mini', true],
  ['gpt-5.12', true],
  ['gpt-6.1-sol', true],
  ['gpt-5.4-nano', false],
  ['gpt-5', false],
  ['gpt-5.3-codex', false],
  ['gpt-4.1', false],
])('%s searches tools: %s', (model, toolSearch) => {
  expect(openaiResponses({ model, apiKey: 'k' }).capabilities.toolSearch).toBe(toolSearch);
});
