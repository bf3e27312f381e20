/**
 * An MCP server over stdio, made with the official SDK. Arguments: `serve` for clients of all revisions, or `reject` for
 * those of 2026-07-28; then a file: while it is missing, the server writes it and reads nothing before `initialize` has
 * come, like one that starts slowly.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

const [legacy, marker] = process.argv.slice(2);
const input = new PassThrough();

if (marker !== undefined && !existsSync(marker)) {
  writeFileSync(marker, '');
  let held = '';
  process.stdin.on('data', (chunk: Buffer) => {
    held += String(chunk);
    if (held.includes('"initialize"')) input.write(held);
  });
  process.stdin.on('end', () => input.end());
} else process.stdin.pipe(input);

serveStdio(
  ({ era }) => {
    const server = new McpServer({ name: 'current', version: '1.0.0' });
    server.registerTool('era', { description: 'Says how it is served.' }, () => ({
      content: [{ type: 'text', text: `${era} ${process.pid}` }],
    }));
    server.registerTool(
      'count',
      { inputSchema: z.object({ to: z.number() }) },
      async ({ to }, { mcpReq }) => {
        const progressToken = mcpReq._meta?.progressToken;
        for (let progress = 1; progress <= to && progressToken !== undefined; progress += 1)
          await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress } });
        return { content: [{ type: 'text', text: String(to) }] };
      },
    );
    server.registerTool('grow', {}, () => {
      server.registerTool('late', {}, () => ({ content: [{ type: 'text', text: 'late' }] }));
      return { content: [] };
    });
    server.registerTool('die', {}, () => process.exit(9));
    return server;
  },
  { legacy: legacy === 'reject' ? 'reject' : 'serve', transport: new StdioServerTransport(input) },
);
