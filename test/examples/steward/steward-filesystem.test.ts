import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startStandIn } from '../../../examples/stand-in/wire/provider.ts';
import { STEWARD_TASK } from '../../../examples/steward/instructions.ts';
import { functionTool, openSession } from '../../support/examples/steward-session.ts';

const SERVER = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-filesystem/dist/index.js'));
const DOCUMENTS = fileURLToPath(new URL('../../../examples/steward/documents', import.meta.url));

const root = mkdtempSync(join(tmpdir(), 'steward-'));
const mcp = new Client({ name: 'test', version: '1' });

beforeAll(async () => {
  cpSync(DOCUMENTS, root, { recursive: true });
  await mcp.connect(
    new StdioClientTransport({ command: process.execPath, args: [SERVER, root], stderr: 'ignore' }),
  );
});

afterAll(async () => {
  await mcp.close();
  rmSync(root, { recursive: true });
});

test('with the real filesystem server the report is written to the folder', async () => {
  await using standIn = await startStandIn();
  const { tools } = await mcp.listTools();
  const session = openSession({
    client: new OpenAI({ apiKey: 'anything', baseURL: `${standIn.root}/openai/v1`, maxRetries: 0 }),
    root,
    tools: tools.map(tool => functionTool(tool.name)),
    execute: async (name, input) => {
      const { content } = await mcp.callTool({ name, arguments: input });
      return content.map(part => (part.type === 'text' ? part.text : '')).join('');
    },
  });
  const turns = await session.say(STEWARD_TASK);
  const report = readFileSync(join(root, 'REPORT.md'), 'utf8');
  expect(report).toContain('8 documents checked: 5 findings');
  expect(turns.map(turn => turn.calls.length)).toEqual([1, 8, 1, 0]);
  expect(turns.at(-1)?.text).toContain(`The report is in ${join(root, 'REPORT.md')}.`);
});
