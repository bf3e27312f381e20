import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { CutProvider } from '../../support/responses/cut-provider.ts';
import { endOf, Gateway, type Item, type Resource, typesOf } from '../../support/responses/gateway.ts';

const DESK = { type: 'mcp', server_label: 'desk', require_approval: 'never' };
const WEATHER = { type: 'function', name: 'weather', parameters: { type: 'object', properties: {} } };
const USER = { role: 'user', content: 'Say hi, and look at the weather.' };

let provider: CutProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await CutProvider.listen();
  provider.play({
    calls: [
      { name: 'echo', arguments: { text: 'hi' } },
      { name: 'weather', arguments: { city: 'Rome' } },
    ],
    words: ['Hi', 'from', 'Rome.'],
    cuts: [],
  });
  gateway = new Gateway({}, { config: folder => ({ mcp_servers: { desk: folder.server() } }) });
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await gateway.close();
  await provider.close();
});

async function ask(more: JsonObject = {}): Promise<Resource> {
  const body = { model: 'openai-chat:any', input: [USER], tools: [DESK, WEATHER], ...more };
  return endOf(await gateway.stream(body));
}

function outputFor({ output }: Resource): JsonObject {
  const call = output.find(({ type }) => type === 'function_call');
  return { type: 'function_call_output', call_id: call?.call_id ?? '', output: 'sunny' };
}

/** The items as returned by a client that drops the results of MCP calls. */
function withoutResults(items: readonly Item[]): JsonObject[] {
  return items.map(item => (item.type === 'mcp_call' ? { ...item, output: null } : item));
}

/** The items as returned by a client that drops their ids. */
function withoutIds(items: readonly Item[]): JsonObject[] {
  return items.map(({ id: _, ...item }) => item);
}

const ways: Record<string, (first: Resource) => JsonObject> = {
  'from its items': first => ({ input: [USER, ...first.output, outputFor(first)] }),
  'from its items, without the tool result': first => ({
    input: [USER, ...withoutResults(first.output), outputFor(first)],
  }),
  'from its items, without their ids': first => ({
    input: [USER, ...withoutIds(first.output), outputFor(first)],
  }),
  'by references': first => ({
    input: [USER, ...first.output.map(({ id }) => ({ type: 'item_reference', id })), outputFor(first)],
  }),
  'after its response': first => ({ previous_response_id: first.id, input: [outputFor(first)] }),
  'after its response, with its items again': first => ({
    previous_response_id: first.id,
    input: [...first.output, outputFor(first)],
  }),
};
const unstored = Object.keys(ways).filter(way => way.startsWith('from its items'));

describe('a turn that calls an MCP tool and a function of the client continues', () => {
  it.each([
    ...Object.keys(ways).map(way => ({ way, store: true })),
    ...unstored.map(way => ({ way, store: false })),
  ])('$way, with store: $store', async ({ way, store }) => {
    const first = await ask({ store });
    expect(typesOf(first.output)).toEqual(['mcp_list_tools', 'mcp_call', 'function_call']);
    const second = await ask({ store, ...ways[way]?.(first) });
    expect(second.output).toMatchObject([{ type: 'message', content: [{ text: 'Hi from Rome. ' }] }]);
    expect(provider.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ function: { name: 'echo' } }, { function: { name: 'weather' } }] },
      { role: 'tool', content: '{"text":"hi"}' },
      { role: 'tool', content: 'sunny' },
    ]);
  });

  it.each([
    ['that kept its id only', { id: 'mcp_nowhere', output: null, error: null }],
    ['that lost its id too', {}],
  ])('with an MCP call %s: the model reads that the output was not kept', async (_, rest) => {
    const call = { type: 'mcp_call', server_label: 'desk', name: 'echo', arguments: '{}', ...rest };
    const { status } = await ask({ store: false, input: [USER, call, { role: 'user', content: 'Go on.' }] });
    expect(status).toBe('completed');
    expect(provider.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ function: { name: 'echo' } }] },
      { role: 'tool', content: 'The output of this tool call is not available.' },
      { role: 'user' },
    ]);
  });
});
