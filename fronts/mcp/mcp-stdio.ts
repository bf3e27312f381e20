import { createMcpFront, type McpFrontOptions } from './mcp-front.ts';

/** A server that runs. `ended` resolves when its client has left; one for many clients never does. */
export type McpServing = { ended: Promise<void>; close(): Promise<void> };

/** Serves MCP on stdin and stdout, to clients of every revision. */
export async function serveMcpStdio(options: McpFrontOptions): Promise<McpServing> {
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const front = await createMcpFront(options);
  const ended = new Promise<void>(resolve => {
    for (const event of ['end', 'close']) process.stdin.once(event, () => resolve());
  });
  const { close } = serveStdio(front, { onerror: error => options.log(`MCP: ${error.message}`) });
  return { ended, close };
}
