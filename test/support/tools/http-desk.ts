import { type HttpServer, type McpOptions, type McpToolSource, mcp } from '../../../tools/mcp.ts';
import { type HttpMcpOptions, HttpMcpServer } from './http-mcp-server.ts';

/** MCP servers over HTTP, and tool sources connected to them. */

export const SECRET = 'tok-5f2a9c-secret';
const sources: McpToolSource[] = [];
const servers: HttpMcpServer[] = [];

export async function start(options: HttpMcpOptions = {}): Promise<HttpMcpServer> {
  const server = await HttpMcpServer.start(options);
  servers.push(server);
  return server;
}

export function desk(
  url: string,
  options: Partial<Omit<McpOptions, 'url'>> & Partial<HttpServer> = {},
): McpToolSource {
  const source = mcp({ name: 'desk', url, ...options });
  sources.push(source);
  return source;
}

/** Closes the servers and sources of `start` and `desk`. */
export async function closeDesks(): Promise<void> {
  await Promise.all(sources.splice(0).map(source => source.close()));
  await Promise.all(servers.splice(0).map(server => server.close()));
}
