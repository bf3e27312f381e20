import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { DIALECTS, DialectProvider, type PlayedTurn } from '../../../support/responses/dialect-provider.ts';
import { type Item, type Resource, typesOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

const ECHO = { type: 'function', name: 'echo', parameters: { type: 'object', properties: {} } };
const DESK = { type: 'mcp', server_label: 'desk', require_approval: 'never', allowed_tools: ['echo'] };
const SHOP = { ...DESK, server_label: 'shop' };
const USER = { role: 'user', content: 'Echo all around.' };

const { provider, gateway } = await gatewayOn(DialectProvider, {
  config: folder => ({
    mcp_servers: {
      desk: folder.server(),
      shop: folder.server(),
      vault: folder.server({ hidden: true, allowed_tools: ['echo'] }),
    },
  }),
});

function calls(...names: string[]): PlayedTurn {
  return { calls: names.map(name => ({ name, arguments: { text: name } })) };
}

async function ask(more: JsonObject): Promise<Resource> {
  return await gateway.create({ model: DIALECTS.chat, input: [USER], ...more });
}

/** The names of the tools in the last request to the model. */
function offered(): unknown[] {
  const tools = (provider.requests.at(-1)?.tools ?? []) as { function: { name: string } }[];
  return tools.map(tool => tool.function.name);
}

/** The calls and their results in the last request to the model. */
function history(): [name: string, result: unknown][] {
  const messages = (provider.requests.at(-1)?.messages ?? []) as {
    tool_calls?: { id: string; function: { name: string } }[];
    tool_call_id?: string;
    content: unknown;
  }[];
  const made = messages.flatMap(message => message.tool_calls ?? []);
  return made.map(({ id, function: { name } }) => [
    name,
    messages.find(message => message.tool_call_id === id)?.content,
  ]);
}

function outputFor({ output }: Resource): JsonObject {
  const call = output.find(({ type }) => type === 'function_call');
  return { type: 'function_call_output', call_id: call?.call_id ?? '', output: 'from the client' };
}

function withoutIds(items: readonly Item[]): JsonObject[] {
  return items.map(({ id: _, ...item }) => item);
}

const BOTH = [
  ['mcp_desk_echo', '{"text":"mcp_desk_echo"}'],
  ['echo', 'from the client'],
];

describe('a function of the client and MCP tools with the same name', () => {
  it('are three tools for the model, and each call runs where it belongs', async () => {
    provider.play(calls('mcp_desk_echo', 'mcp_vault_echo'), calls('mcp_shop_echo', 'echo'));
    const before = gateway.folder.calls().length;
    const { output } = await ask({ tools: [ECHO, DESK, SHOP] });
    expect(offered()).toEqual(['echo', 'mcp_desk_echo', 'mcp_shop_echo', 'mcp_vault_echo']);
    expect(output.filter(({ type }) => type !== 'mcp_list_tools')).toMatchObject([
      { type: 'mcp_call', server_label: 'desk', name: 'echo', output: '{"text":"mcp_desk_echo"}' },
      { type: 'mcp_call', server_label: 'shop', name: 'echo', output: '{"text":"mcp_shop_echo"}' },
      { type: 'function_call', name: 'echo', arguments: '{"text":"echo"}' },
    ]);
    expect(gateway.folder.calls().length - before).toBe(3);
  });

  const ways: Record<string, (first: Resource) => JsonObject> = {
    'after the response': first => ({ previous_response_id: first.id, input: [outputFor(first)] }),
    'from its items': first => ({ input: [USER, ...first.output, outputFor(first)] }),
    'from its items without ids': first => ({
      input: [USER, ...withoutIds(first.output), outputFor(first)],
    }),
    'by references': first => ({
      input: [USER, ...first.output.map(({ id }) => ({ type: 'item_reference', id })), outputFor(first)],
    }),
  };
  const unstored = Object.keys(ways).filter(way => way.startsWith('from its items'));

  it.each([
    ...Object.keys(ways).map(way => ({ way, store: true })),
    ...unstored.map(way => ({ way, store: false })),
  ])('stay apart in the history that continues $way, with store: $store', async ({ way, store }) => {
    provider.play(calls('mcp_desk_echo', 'echo'), calls('mcp_desk_echo', 'echo'));
    const first = await ask({ store, tools: [ECHO, DESK] });
    const second = await ask({ store, tools: [ECHO, DESK], ...ways[way]?.(first) });
    expect(history()).toEqual(BOTH);
    expect(second.output).toMatchObject([
      { type: 'mcp_call', server_label: 'desk', name: 'echo' },
      { type: 'function_call', name: 'echo' },
    ]);
  });

  it.each([
    ['from its items', [DESK]],
    ['from its items', [ECHO]],
    ['after the response', [DESK]],
    ['by references', [DESK]],
  ])('stay apart %s in a request with only one of them', async (way, tools) => {
    provider.play(calls('mcp_desk_echo', 'echo'), { text: 'Done.' });
    const first = await ask({ tools: [ECHO, DESK] });
    await ask({ tools, ...ways[way]?.(first) });
    expect(history()).toEqual(BOTH);
    expect(offered()).toContain(tools[0] === DESK ? 'mcp_desk_echo' : 'echo');
  });

  it.each([true, false])('can be approved when only the continuation has the function: %s', async isLate => {
    const gated = { ...DESK, require_approval: 'always' };
    const name = isLate ? 'echo' : 'mcp_desk_echo';
    provider.play(calls(name), { text: 'Done.' });
    const rest = { ...gated, server_label: 'shop', allowed_tools: ['pid'] };
    // The hidden server's tool gives way to both.
    const first = await ask({ tools: isLate ? [gated, rest] : [gated, rest, ECHO] });
    const request = first.output.find(({ type }) => type === 'mcp_approval_request');
    expect(request).toMatchObject({ server_label: 'desk', name: 'echo' });
    const second = await ask({
      tools: isLate ? [gated, rest, ECHO] : [gated, rest],
      previous_response_id: first.id,
      input: [{ type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true }],
    });
    expect(typesOf(second.output)).toEqual(['mcp_call', 'message']);
    expect(history()).toEqual([[name, `{"text":"${name}"}`]]);
    if (isLate) expect(offered()).toContain('client_echo');
  });

  it('are chosen apart: the function by its name, also where the model knows another', async () => {
    provider.play(calls('echo'), calls('client_echo'));
    const first = await ask({ tools: [DESK] });
    expect(typesOf(first.output)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    provider.play(calls('client_echo'));
    const second = await ask({
      tools: [DESK, ECHO],
      previous_response_id: first.id,
      tool_choice: { type: 'function', name: 'echo' },
    });
    expect(provider.requests[0]?.tool_choice).toMatchObject({ function: { name: 'client_echo' } });
    expect(second.output).toMatchObject([{ type: 'function_call', name: 'echo' }]);
  });
});
