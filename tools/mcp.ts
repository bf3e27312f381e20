import { EngineError } from '../protocol/error.ts';
import type { Tool, ToolSource } from '../protocol/tool.ts';
import { isTimeout } from './check-tool-settings.ts';
import { createServerConnection, type Session, type StdioServer } from './mcp/server-connection.ts';
import { createServerTool, type McpToolOverride } from './mcp/server-tool.ts';

export type { McpToolOverride, StdioServer };

/** How to reach the server: a union by shape. `command` is a process spoken to over stdio. */
export type McpTransport = StdioServer;

export type McpOptions = McpTransport & {
  /** What errors call the server. Default: the command. */
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
  /** How long the server may be silent while connecting, listing or in a call. Default 60,000. */
  timeoutMs?: number;
};

export type McpToolSource = ToolSource & { readonly name: string };

const DEFAULT_TIMEOUT_MS = 60_000;

/**
 * The tools of an MCP server. `connect` starts it and lists them; everybody who connects shares one
 * process and one list. A server that ends is started again by the next call; `close` ends it for good,
 * until somebody connects again. Its stderr is kept for errors, not shown.
 *
 * `connect` rejects with an `EngineError`: `tool-source-failed` when the server does not start or answer,
 * `agent-invalid` when `tools` names one it does not have, or two would have the same name.
 * `mcp` itself throws `agent-invalid` for options that cannot work.
 */
export function mcp(options: McpOptions): McpToolSource {
  const { command, prefix = '', timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  if (typeof command !== 'string' || command === '') {
    throw new EngineError('agent-invalid', 'mcp: expected `command`, the program that starts the server.');
  }
  const name = options.name ?? command;
  if (!/^[a-zA-Z0-9_-]*$/.test(prefix)) {
    refuse(name, `expected prefix to be of letters, digits, "_" or "-", got ${JSON.stringify(prefix)}.`);
  }
  if (!isTimeout(timeoutMs)) refuse(name, `expected timeoutMs above 0, got ${timeoutMs}.`);
  const overrides = new Map(Object.entries(options.tools ?? {}));
  const connection = createServerConnection(name, options, timeoutMs);
  let listing: Promise<readonly Tool[]> | null = null;

  async function listTools(): Promise<readonly Tool[]> {
    const described = await fetchTools(await connection.open(), timeoutMs);
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
        silenceMs: timeoutMs,
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

async function fetchTools({ client, explain }: Session, timeout: number) {
  if (!client.getServerCapabilities()?.tools) return [];
  try {
    return (await client.listTools(undefined, { timeout })).tools;
  } catch (error) {
    throw explain(error);
  }
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
