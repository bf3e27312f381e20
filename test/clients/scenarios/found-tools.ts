import assert from 'node:assert/strict';
import { claude } from '../clients/claude.ts';
import type { ModelRequest, WireName } from '../upstream/script.ts';
import type { Scenario } from './scenario.ts';

/** An MCP server over stdio with one tool. */
const SERVER = `
import { createInterface } from 'node:readline';
const number = { type: 'number' };
const add = { name: 'add', description: 'Adds two numbers.', inputSchema: { type: 'object', properties: { a: number, b: number } } };
createInterface({ input: process.stdin }).on('line', line => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const results = {
    initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'desk', version: '1' } }),
    'tools/list': () => ({ tools: [add] }),
    'tools/call': () => ({ content: [{ type: 'text', text: 'The sum is ' + (params.arguments.a + params.arguments.b) }] }),
  };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, result: results[method]?.() ?? {} }));
});
`;

const CLIENT = claude('claude', { words: ['--mcp-config', 'servers.json'] });
const SUB_TASK = 'Write the file of the sub-agent.';

function isSubAgent({ items }: ModelRequest): boolean {
  return JSON.stringify(items.find(item => 'role' in item && item.role === 'user') ?? null).includes(
    SUB_TASK,
  );
}

/** A tool of the user's MCP server, which the model has to find first, and a sub-agent. */
export function foundTools(wire: WireName): Scenario {
  return {
    name: `claude/${wire}/found-tools`,
    client: CLIENT,
    wire,
    files: {
      'server.mjs': SERVER,
      'servers.json': JSON.stringify({ mcpServers: { desk: { command: 'node', args: ['server.mjs'] } } }),
    },
    scripts: ({ place }) => [
      {
        name: 'sub-agent',
        takes: request => request.tools.length > 0 && isSubAgent(request),
        turns: [{ calls: [CLIENT.tools.write(place, 'sub.txt', 'done\n')] }, { text: 'It is written.' }],
      },
      {
        name: 'task',
        turns: [
          { calls: [{ tool: 'ToolSearch', input: { query: 'select:mcp__desk__add', max_results: 1 } }] },
          { reasoning: { text: 'I found it.' }, calls: [{ tool: 'mcp__desk__add', input: { a: 2, b: 3 } }] },
          {
            calls: [
              {
                tool: 'Agent',
                input: {
                  description: 'Writes a file',
                  prompt: SUB_TASK,
                  subagent_type: 'general-purpose',
                  run_in_background: false,
                },
              },
            ],
          },
          { text: 'All is done.' },
        ],
      },
    ],
    play: async desk => {
      const { stdout } = await desk.ask('Add two numbers.');
      assert.match(stdout, /All is done\./);
      assert.equal(desk.read('sub.txt'), 'done\n');
      const { turns } = desk.upstream;
      assert.equal(turns.length, 6);
      const [first] = turns;
      assert.ok(!JSON.stringify(first?.body.messages ?? first?.body).includes('The sum is'));
      assert.ok(JSON.stringify(turns.at(-1)?.body).includes('The sum is 5'));
      const titles = (await desk.runs()).map(({ title }) => title);
      assert.deepEqual(titles, [SUB_TASK, 'Add two numbers.']);
      return 'a tool of an MCP server, a sub-agent';
    },
  };
}
