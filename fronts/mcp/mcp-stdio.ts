import { createMcpFront, logError, type McpFrontOptions } from './mcp-front.ts';

/**
 * A server that runs. `begun` resolves with the first request that is more than `server/discover`, `ended` when the
 * client has left; a server for many clients has begun, and never ends.
 */
export type McpServing = {
  begun: Promise<void>;
  ended: Promise<void>;
  drain?(): void;
  close(): Promise<void>;
};

/** A client may start a process only to send `server/discover` and kill it: such a process starts and resumes no run. */
export async function serveMcpStdio(options: McpFrontOptions): Promise<McpServing> {
  const { serveStdio, StdioServerTransport } = await import('@modelcontextprotocol/server/stdio');
  const front = await createMcpFront(options);
  const transport = new StdioServerTransport();
  const onerror = (error: Error) => logError(error, options.log);
  const { close } = serveStdio(front, { transport, onerror });
  const { onmessage, onclose } = transport;
  const ended = new Promise<void>(resolve => {
    for (const event of ['end', 'close']) process.stdin.once(event, () => resolve());
    transport.onclose = () => {
      onclose?.();
      resolve();
    };
  });
  const begun = new Promise<void>(resolve => {
    transport.onmessage = message => {
      if ('method' in message && message.method !== 'server/discover') resolve();
      onmessage?.(message);
    };
  });
  return { begun, ended, close };
}
