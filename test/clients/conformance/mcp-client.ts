/** The MCP client of `mcp()` as the conformance suite starts it: lists the tools of the server at a URL and calls each. */

import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { mcp } from '../../../tools/mcp.ts';

const url = process.argv.at(-1) ?? '';
const source = mcp({ name: 'suite', url, timeoutMs: 20_000 });
const tools = await source.connect();
const toolCalls = tools.map(({ name }) => ({
  name,
  arguments: name === 'add_numbers' ? { a: 5, b: 3 } : {},
}));
const turns =
  toolCalls.length === 0 ? [{ text: 'There are no tools.' }] : [{ toolCalls }, { text: 'Called.' }];
const agent = createAgent({ name: 'suite', model: scripted(turns), tools: [source] });
const settled = await (await agent.start('Call each tool.')).settled();
await agent.close();
if (settled.status !== 'finished') throw new Error(`the run is ${settled.status}`);
