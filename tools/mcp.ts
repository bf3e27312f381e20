import { EngineError } from '../protocol/error.ts';
import type { Tool, ToolSource } from '../protocol/tool.ts';
import { isTimeout } from './check-tool-settings.ts';
import { type HttpServer, openHttp, showUrl } from './mcp/http-server.ts';
import { createServerConnection } from './mcp/server-connection.ts';
import { createServerTool, type McpToolOverride } from './mcp/server-tool.ts';
import type { Session } from './mcp/session.ts';
import { type StdioServer, startProcess } from './mcp/stdio-server.ts';

export type { HttpServer, McpToolOverride, StdioServer };

/** How to reach the server, by shape: `command` is a process spoken to over stdio, `url` Streamable HTTP. */
export type McpTransport = StdioServer | HttpServer;

export type McpOptions = McpTransport & {
  /** What errors call the server, and its tools' label. Default: the command, or the URL without its query. */
  name?: string;
  /** By the server's own names for its tools. */
  tools?: Readonly<Record<string, McpToolOverride>>;
  /**
   * Whether the server's word counts: `readOnlyHint` is then `none`, `idempotentHint` is `idempotent`.
   * Default `false`: every tool without an override is `once`.
   */
  trustHints?: boolean;
  /** Put before every tool's name; letters, digits, `_` or `-`. */
  prefix?: string;
  /**
   * How long connecting and listing may each take, and how long the server may be silent in a call.
   * Default 10,000 and 60,000.
   */
  timeoutMs?: number;
  /**
   * How long one call may take in all, in ms, whatever progress the server reports. A tool's own `timeoutMs`
   * counts instead. Default 30 minutes.
   */
  totalTimeoutMs?: number;
};

export type McpToolSource = ToolSource & { readonly name: string };

const CONNECT_MS = 10_000;
const SILENCE_MS = 60_000;
const TOTAL_MS = 1_800_000;

/** No provider takes more, and an error that lists them is no longer read. */
const MOST_TOOLS = 1_000;

/**
 * The tools of an MCP server. `connect` starts it and lists them; everybody who connects shares one
 * process or session and one list. A server that ends is started again by the next call; one that has lost
 * the session is given a new one. `close` ends it for good, until somebody connects again. What it writes
 * to stderr is kept for errors, not shown.
 *
 * `connect` rejects with an `EngineError`: `tool-source-failed` when the server does not start or answer,
 * `agent-invalid` when `tools` names one it does not have, or two would have the same name.
 * `mcp` itself throws `agent-invalid` for options that cannot work.
 */
export function mcp(options: McpOptions): McpToolSource {
  checkShape(options);
  const name = options.name ?? nameServer(options);
  const { prefix = '', timeoutMs, totalTimeoutMs = TOTAL_MS } = options;
  if (!/^[a-zA-Z0-9_-]*$/.test(prefix)) {
    refuse(name, `expected prefix to be of letters, digits, "_" or "-", got ${JSON.stringify(prefix)}.`);
  }
  if (timeoutMs !== undefined && !isTimeout(timeoutMs)) {
    refuse(name, `expected timeoutMs above 0, got ${timeoutMs}.`);
  }
  if (!isTimeout(totalTimeoutMs)) {
    refuse(name, `expected totalTimeoutMs above 0, got ${totalTimeoutMs}.`);
  }
  if ('url' in options) checkHttpServer(name, options);
  const connectMs = timeoutMs ?? CONNECT_MS;
  const overrides = new Map(Object.entries(options.tools ?? {}));
  const connection = createServerConnection(name, () =>
    'url' in options ? openHttp(name, options, connectMs) : startProcess(name, options, connectMs),
  );
  let listing: Promise<readonly Tool[]> | null = null;

  async function listTools(): Promise<readonly Tool[]> {
    const described = await fetchTools(await connection.open(), connectMs);
    refuseTooMany(name, described.length);
    refuseUnknown(
      name,
      overrides,
      described.map(tool => tool.name),
    );
    const shown = described.filter(tool => !overrides.get(tool.name)?.hidden);
    const tools = shown.map(tool =>
      createServerTool(tool, {
        connection,
        server: name,
        prefix,
        trustHints: options.trustHints ?? false,
        silenceMs: timeoutMs ?? SILENCE_MS,
        totalMs: totalTimeoutMs,
        override: overrides.get(tool.name) ?? {},
      }),
    );
    refuseDuplicates(name, tools);
    return tools;
  }

  async function close(): Promise<void> {
    listing = null;
    await connection.close();
  }

  return {
    name,
    connect() {
      if (listing) return listing;
      const mine = listTools().catch(async error => {
        if (listing === mine) await close();
        throw error;
      });
      listing = mine;
      return mine;
    },
    close,
  };
}

function checkShape({ command, url }: { command?: unknown; url?: unknown }): void {
  const isProcess = typeof command === 'string' && command !== '';
  const isHttp = typeof url === 'string' && url !== '';
  if (isProcess !== isHttp) return;
  const expected = 'either `command`, the program that starts the server, or `url`, where it is';
  throw new EngineError('agent-invalid', `mcp: expected ${expected}${isHttp ? ', and not both' : ''}.`);
}

function nameServer(transport: McpTransport): string {
  if ('command' in transport) return transport.command;
  return isHttpUrl(transport.url) ? showUrl(transport.url) : 'url';
}

/** What is refused is not shown: it may be a secret. */
function checkHttpServer(name: string, { url, headers = {} }: HttpServer): void {
  if (!isHttpUrl(url)) refuse(name, 'expected `url` to be an http or https URL.');
  const { username, password } = new URL(url);
  if (username !== '' || password !== '')
    refuse(name, 'expected a `url` without credentials. Use `headers`.');
  for (const [header, value] of Object.entries(headers)) {
    try {
      new Headers([[header, value]]);
    } catch {
      refuse(name, `the header ${JSON.stringify(header)} cannot be sent: its name or value is not legal.`);
    }
  }
}

function isHttpUrl(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

async function fetchTools({ ask, explain }: Session, timeout: number) {
  const options = { timeout, signal: AbortSignal.timeout(timeout) };
  try {
    return await ask(async client => {
      if (!client.getServerCapabilities()?.tools) return [];
      return (await client.listTools(undefined, options)).tools;
    });
  } catch (error) {
    throw explain(error);
  }
}

function refuseTooMany(server: string, count: number): void {
  if (count <= MOST_TOOLS) return;
  throw new EngineError(
    'tool-source-failed',
    `the MCP server "${server}" lists ${count} tools; at most ${MOST_TOOLS} are taken.`,
  );
}

function refuseUnknown(
  server: string,
  overrides: ReadonlyMap<string, unknown>,
  known: readonly string[],
): void {
  const unknown = [...overrides.keys()].filter(name => !known.includes(name));
  if (unknown.length === 0) return;
  const list = known.length === 0 ? 'no tools at all' : known.map(name => `"${name}"`).join(', ');
  refuse(
    server,
    `\`tools\` names ${unknown.map(name => `"${name}"`).join(', ')}, but the server has ${list}. Use one of its names.`,
  );
}

function refuseDuplicates(server: string, tools: readonly Tool[]): void {
  const seen = new Set<string>();
  for (const { name } of tools) {
    if (seen.has(name)) refuse(server, `two of its tools would be named "${name}". Hide one with \`tools\`.`);
    seen.add(name);
  }
}

function refuse(server: string, problem: string): never {
  throw new EngineError('agent-invalid', `the MCP server "${server}": ${problem}`);
}
