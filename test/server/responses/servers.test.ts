import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { gatewayConfigSchema } from '../../../server/gateway/config/gateway-config.ts';
import { calling, endOf, Gateway, type Resource, runOf, typesOf } from '../../support/responses/gateway.ts';

const DESK = { type: 'mcp', server_label: 'desk' };
const ECHO = { type: 'function', name: 'echo', parameters: { type: 'object', properties: {} } };

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway(
    {
      say: [calling('echo', { text: 'hi' }), { text: 'Said.' }, { text: 'More.' }, { text: 'Most.' }],
      secret: [calling('mcp_vault_pid'), { text: 'Done.' }],
      vault: [calling('pid'), { text: 'Done.' }],
      broken: [calling('fail'), { text: 'It failed.' }],
      garbled: [{ toolCalls: [{ name: 'echo', arguments: '[1, 2' }] }, { text: 'Sorry.' }],
      lost: [calling('die'), { text: 'It is known now.' }, { text: 'On it goes.' }],
      twin: [calling('mcp_other_echo', { text: 'hi' }), { text: 'Said.' }],
      large: [calling('echo', { text: 'x'.repeat(1_200_000) }), { text: 'Done.' }],
      unknown: [calling('nothing_of_that_name'), { text: 'No.' }],
      both: [{ toolCalls: [{ name: 'ask' }, { name: 'pid' }] }, { text: 'Both.' }],
    },
    {
      config: folder => ({
        mcp_servers: {
          desk: folder.server({ require_approval: 'never' }),
          other: folder.server({ require_approval: 'never', allowed_tools: ['echo'] }),
          vault: folder.server({ hidden: true, allowed_tools: ['pid'] }),
          gone: { command: '/nonexistent/server', require_approval: 'never' },
        },
        allowed_server_urls: ['http://127.0.0.1:9/mcp'],
      }),
    },
  );
});
afterAll(() => gateway.close());

function toolsIn({ output }: Resource): unknown[] {
  return output.flatMap(({ tools }) =>
    Array.isArray(tools) ? tools.map(tool => (tool as JsonObject).name) : [],
  );
}

describe('a list of tools', () => {
  it('is shown once per label of a conversation; a new server is listed when it is first used', async () => {
    const first = await gateway.create({ model: 'say', input: 'go', tools: [DESK] });
    expect(typesOf(first.output)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    const second = await gateway.create({
      model: 'say',
      input: 'on',
      tools: [DESK],
      previous_response_id: first.id,
    });
    expect(typesOf(second.output)).toEqual(['message']);
    const other = { ...DESK, server_label: 'other' };
    const third = await gateway.create({
      model: 'say',
      input: 'on',
      tools: [DESK, other],
      previous_response_id: second.id,
    });
    expect(third.output[0]).toMatchObject({ type: 'mcp_list_tools', server_label: 'other' });
    expect(typesOf(third.output)).toEqual(['mcp_list_tools', 'message']);
  });

  it('is not shown again when the client sends it back', async () => {
    const first = await gateway.create({ model: 'say', input: 'go', tools: [DESK] });
    const input = [{ role: 'user', content: 'go' }, ...first.output, { role: 'user', content: 'on' }];
    const second = await gateway.create({ model: 'say', input, tools: [DESK] });
    expect(typesOf(second.output)).toEqual(['message']);
  });

  it('is streamed first empty, then complete, under one id', async () => {
    const events = await gateway.stream({ model: 'say', input: 'go', tools: [DESK] });
    const about = events.slice(2, 6);
    expect(typesOf(about)).toEqual([
      'response.output_item.added',
      'response.mcp_list_tools.in_progress',
      'response.mcp_list_tools.completed',
      'response.output_item.done',
    ]);
    expect(about[0]?.item).toMatchObject({ tools: [], server_label: 'desk' });
    const [list] = endOf(events).output;
    expect(about[3]?.item).toEqual(list);
    expect(list?.id).toMatch(/^mcpl_/);
    const tools = list?.tools as JsonObject[];
    expect(tools.map(({ name }) => name)).toContain('dotted.name');
    expect(tools.find(({ name }) => name === 'die')).toMatchObject({ annotations: { idempotentHint: true } });
    expect(tools.find(({ name }) => name === 'echo')).toMatchObject({
      description: 'Says it back.',
      input_schema: { type: 'object' },
    });
    expect(JSON.stringify(list)).not.toContain('null');
  });

  it('has the allowed tools; a read-only filter keeps the tools annotated as read-only', async () => {
    const named = await gateway.create({
      model: 'say',
      input: 'go',
      tools: [{ ...DESK, allowed_tools: ['echo'] }],
    });
    expect(toolsIn(named)).toEqual(['echo']);
    const reading = { ...DESK, allowed_tools: { read_only: true } };
    expect(toolsIn(await gateway.create({ model: 'say', input: 'go', tools: [reading] }))).toEqual([]);
    const other = { ...DESK, server_label: 'other' };
    expect(toolsIn(await gateway.create({ model: 'say', input: 'go', tools: [other] }))).toEqual(['echo']);
  });

  it('of an unreachable server is empty with an error, and the response continues', async () => {
    const response = await gateway.create({
      model: 'unknown',
      input: 'go',
      tools: [{ ...DESK, server_label: 'gone' }],
    });
    expect(response.output[0]).toEqual({
      id: expect.any(String),
      type: 'mcp_list_tools',
      server_label: 'gone',
      tools: [],
      error: 'The MCP server could not be reached.',
    });
    expect(response.output[1]).toMatchObject({ type: 'message' });
    expect(gateway.log.join()).toContain('gone');
  });
});

describe('a hidden server', () => {
  it('works without a trace in the response, the stream or an error', async () => {
    const response = await gateway.create({ model: 'vault', input: 'go' });
    expect(typesOf(response.output)).toEqual(['message']);
    expect(JSON.stringify(response)).not.toContain('pid');
    const events = await gateway.stream({ model: 'vault', input: 'go' });
    expect(JSON.stringify(events)).not.toMatch(/"pid"|vault_/);
    expect(gateway.folder.calls().filter(name => name === 'pid').length).toBeGreaterThan(1);
    const refused = await gateway.refused({
      model: 'vault',
      input: 'go',
      tools: [{ ...DESK, server_label: 'vault' }],
    });
    const unknown = await gateway.refused({
      model: 'vault',
      input: 'go',
      tools: [{ ...DESK, server_label: 'nosuch' }],
    });
    expect({ ...refused, message: '' }).toEqual({ ...unknown, message: '' });
    expect(refused.message.replace('vault', 'nosuch')).toBe(unknown.message);
  });

  it('yields to a function of the same name, which stays visible', async () => {
    const pid = { ...ECHO, name: 'pid' };
    const mine = await gateway.create({ model: 'vault', input: 'go', tools: [pid] });
    expect(mine.output).toMatchObject([{ type: 'function_call', name: 'pid' }]);
    const theirs = await gateway.create({ model: 'secret', input: 'go', tools: [pid] });
    expect(typesOf(theirs.output)).toEqual(['message']);
  });
});

describe('a call of a server tool', () => {
  it('that fails is a failed item, and the model reads why', async () => {
    const events = await gateway.stream({ model: 'broken', input: 'go', tools: [DESK] });
    const response = endOf(events);
    expect(response.output[1]).toMatchObject({ status: 'failed', error: 'disk full', output: null });
    expect(typesOf(events)).toContain('response.mcp_call.failed');
    expect(response).toMatchObject({ status: 'completed', error: null });
  });

  it('whose arguments are no object does not run, and is a failed item', async () => {
    const before = gateway.folder.calls().length;
    const response = await gateway.create({ model: 'garbled', input: 'go', tools: [DESK] });
    expect(response.output).toMatchObject([
      { type: 'mcp_list_tools' },
      { type: 'mcp_call', status: 'failed', arguments: '[1, 2', error: expect.stringContaining('not valid') },
      { type: 'message' },
    ]);
    expect(gateway.folder.calls().length).toBe(before);
  });

  it('in doubt is a failed item: it is not repeated, and the conversation can continue', async () => {
    const events = await gateway.stream({ model: 'lost', input: 'go', tools: [DESK] });
    const response = endOf(events);
    expect(events.at(-1)?.type).toBe('response.incomplete');
    expect(response.incomplete_details).toEqual({ reason: 'tool_outcome_unknown' });
    expect(response.output.at(-1)).toMatchObject({
      type: 'mcp_call',
      status: 'failed',
      error: expect.stringContaining('may or may not have happened'),
    });
    expect(JSON.stringify(response)).not.toContain(runOf(response));
    const next = await gateway.create({ model: 'lost', input: 'on', previous_response_id: response.id });
    expect(next.output).toMatchObject([{ content: [{ text: 'It is known now.' }] }]);
    expect(gateway.folder.calls().filter(name => name === 'die')).toHaveLength(1);
    expect(gateway.log.join('\n')).toContain(`agentchart resolve ${runOf(response)} call_0_0`);
  });

  it('in doubt can be resolved by an operator before the client continues', async () => {
    const before = gateway.folder.calls().filter(name => name === 'die').length;
    const response = await gateway.create({ model: 'lost', input: 'go', tools: [DESK] });
    expect(response.status).toBe('incomplete');
    expect(await gateway.tell(response, 'resolve', { callId: 'call_0_0', failed: 'it did not happen' })).toBe(
      200,
    );
    await expect.poll(async () => (await gateway.run(response)).status).toBe('finished');
    const next = await gateway.create({ model: 'lost', input: 'on', previous_response_id: response.id });
    expect(next.output).toMatchObject([{ content: [{ text: 'On it goes.' }] }]);
    expect(gateway.folder.calls().filter(name => name === 'die')).toHaveLength(before + 1);
  });

  it.each(['none', 'idempotent'])(
    'with side effect %s is repeated if it is interrupted',
    async sideEffect => {
      const own = new Gateway(
        { lost: [calling('die'), { text: 'Known.' }] },
        {
          config: folder => ({
            mcp_servers: {
              desk: folder.server({ require_approval: 'never', tools: { die: { side_effect: sideEffect } } }),
            },
          }),
        },
      );
      const response = await own.create({ model: 'lost', input: 'go', tools: [DESK] });
      expect(response.status).toBe('completed');
      expect(response.output.at(-1)).toMatchObject({ content: [{ text: 'Known.' }] });
      await own.close();
    },
  );

  it('shows the name of its tool although another server has a tool of that name', async () => {
    const tools = [DESK, { ...DESK, server_label: 'other' }];
    const response = await gateway.create({ model: 'twin', input: 'go', tools });
    expect(response.output[2]).toMatchObject({ type: 'mcp_call', server_label: 'other', name: 'echo' });
  });

  it('of an unknown tool is not shown', async () => {
    const response = await gateway.create({ model: 'unknown', input: 'go', tools: [DESK] });
    expect(typesOf(response.output)).toEqual(['mcp_list_tools', 'message']);
  });

  it('runs before the client gets the function calls of the same turn', async () => {
    const tools = [DESK, { ...ECHO, name: 'ask' }];
    const response = await gateway.create({ model: 'both', input: 'go', tools });
    expect(typesOf(response.output)).toEqual(['mcp_list_tools', 'mcp_call', 'function_call']);
    expect(response.status).toBe('completed');
    const done = await gateway.create({
      model: 'both',
      tools,
      previous_response_id: response.id,
      input: [{ type: 'function_call_output', call_id: response.output[2]?.call_id, output: 'yes' }],
    });
    expect(done.output).toMatchObject([{ type: 'message', content: [{ text: 'Both.' }] }]);
  });
});

describe('a server that a request names', () => {
  it('is refused unless it is configured, or its URL is allowed', async () => {
    const ask = (tool: object) =>
      gateway.refused({ model: 'say', input: 'go', tools: [{ ...DESK, ...tool }] });
    const unlisted = await ask({ server_label: 'mine', server_url: 'http://127.0.0.1:10/mcp' });
    expect(unlisted).toMatchObject({
      status: 400,
      code: 'mcp_server_url_not_allowed',
      param: 'tools[0].server_url',
    });
    expect(await ask({ server_label: 'mine', server_url: 'file:///etc/passwd' })).toMatchObject({
      code: 'mcp_server_url_not_allowed',
    });
    expect(await ask({ server_label: 'mine' })).toMatchObject({ code: 'mcp_server_not_found' });
  });

  it('appears without its credentials in the response and in the journal', async () => {
    const tool = {
      ...DESK,
      server_label: 'mine',
      server_url: 'http://127.0.0.1:9/mcp',
      require_approval: 'never',
      authorization: 'sk-very-secret',
      headers: { 'x-key': 'also-secret' },
    };
    const response = await gateway.create({ model: 'unknown', input: 'go', tools: [tool] });
    expect(response.tools).toEqual([
      {
        type: 'mcp',
        server_label: 'mine',
        server_url: 'http://127.0.0.1:9/mcp',
        require_approval: 'never',
        headers: null,
      },
    ]);
    const journal = await gateway.store.read(runOf(response));
    expect(JSON.stringify([response, journal, gateway.log])).not.toMatch(/very-secret|also-secret/);
  });
});

describe('a configuration', () => {
  const parse = (value: unknown) => gatewayConfigSchema.safeParse(value);
  const transport = { command: 'x' };

  it('is read with the names of the config file', () => {
    const server = {
      ...transport,
      allowed_tools: ['a'],
      tools: { a: { side_effect: 'none', approval: true } },
    };
    expect(gatewayConfigSchema.parse({ models: { fast: 'openai:x' }, mcp_servers: { s: server } })).toEqual({
      models: { fast: 'openai:x' },
      mcpServers: {
        s: { transport, allowedTools: ['a'], tools: { a: { sideEffect: 'none', approval: true } } },
      },
      allowedServerUrls: [],
      builtinTools: {},
    });
  });

  it('is refused for unknown keys, and for a hidden server with approvals', () => {
    expect(parse({ mcpServers: {} }).success).toBe(false);
    expect(parse({ mcp_servers: { 's s': transport } }).success).toBe(false);
    expect(parse({ mcp_servers: { s: { url: 'ftp://x' } } }).success).toBe(false);
    expect(
      parse({ mcp_servers: { s: { ...transport, hidden: true, require_approval: 'always' } } }).success,
    ).toBe(false);
    expect(parse({ mcp_servers: { s: { ...transport, hidden: true } } }).success).toBe(true);
  });
});

describe('a server result that is too large', () => {
  it('is shown to the client as the model reads it: the head, the tail and a note', async () => {
    const { output } = await gateway.create({ model: 'large', input: 'go', tools: [DESK] });
    const shown = String(output.find(({ type }) => type === 'mcp_call')?.output);
    expect(shown).toMatch(
      /^\{"text":"x+\n\[\d+ of \d+ bytes were left out here\. Ask for less at a time\.\]\nx+"\}$/,
    );
    expect(shown.length).toBeLessThanOrEqual(100_000);
  });
});
