import { digestOf } from '../../../engine/journal/digest.ts';
import { messageOf } from '../../../protocol/error.ts';
import type { Tool, ToolSource } from '../../../protocol/tool.ts';
import { mcp } from '../../../tools/mcp.ts';
import { invalid } from '../api-error.ts';
import type { McpTool } from '../request/request-body.ts';
import { type GatewayConfig, isHttpUrl, type McpServerConfig } from './gateway-config.ts';

/** A server of one request, connected; `error` is for the log, and never for the client. */
export type ConnectedServer = {
  label: string;
  hidden: boolean;
  /** Tells servers of one label apart: a digest, since a URL may hold a secret, or `process`. */
  target: string;
  config: McpServerConfig | undefined;
  asked: McpTool | undefined;
  tools: readonly Tool[];
  error?: string;
};

/**
 * The MCP servers that requests may use.
 *
 * S1 A configured server is connected once, when it is first needed, for all requests.
 * S2 A server that a request names by its URL is connected for that request alone, and only if the URL is allowed.
 * S3 A server that cannot be reached is a server without tools: it fails no request.
 */
export class GatewayServers {
  readonly #config: GatewayConfig;
  readonly #log: (line: string) => void;
  readonly #sources = new Map<string, ToolSource>();

  constructor(config: GatewayConfig, log: (line: string) => void) {
    this.#config = config;
    this.#log = log;
  }

  /** The hidden servers and those the request names. Throws a `ResponsesError` for one it may not name. */
  async connect(asked: readonly McpTool[]): Promise<{ servers: ConnectedServer[]; close(): Promise<void> }> {
    for (const [at, tool] of asked.entries()) {
      if (this.#configOf(tool.server_label) === undefined) this.#assertAllowed(tool, at);
    }
    const own: ToolSource[] = [];
    const { mcpServers } = this.#config;
    const hidden = Object.entries(mcpServers)
      .filter(([, config]) => config.hidden === true)
      .map(([label, config]) =>
        this.#listTools(
          { label, hidden: true, target: targetOf(config.transport), config, asked: undefined },
          () => this.#sourceOf(label, config),
        ),
      );
    const named = asked.map(tool => {
      const label = tool.server_label;
      const config = this.#configOf(label);
      const target = targetOf(config?.transport ?? { url: tool.server_url ?? '' });
      return this.#listTools({ label, hidden: false, target, config, asked: tool }, () => {
        if (config !== undefined) return this.#sourceOf(label, config);
        const source = openNamed(tool);
        own.push(source);
        return source;
      });
    });
    const servers = await Promise.all([...hidden, ...named]);
    return { servers, close: async () => void (await Promise.allSettled(own.map(source => source.close()))) };
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#sources.values()].map(source => source.close()));
  }

  /** A hidden server cannot be named: to the client there is none. */
  #configOf(label: string): McpServerConfig | undefined {
    const { mcpServers } = this.#config;
    const config = Object.hasOwn(mcpServers, label) ? mcpServers[label] : undefined;
    return config?.hidden === true ? undefined : config;
  }

  #sourceOf(label: string, config: McpServerConfig): ToolSource {
    const known = this.#sources.get(label);
    if (known !== undefined) return known;
    const { transport, tools = {}, timeoutMs } = config;
    const patience = timeoutMs === undefined ? {} : { timeoutMs };
    const source = mcp({ name: label, ...transport, tools, ...patience });
    this.#sources.set(label, source);
    return source;
  }

  #assertAllowed({ server_label: label, server_url: url }: McpTool, at: number): void {
    if (url == null) {
      throw invalid(
        `tools[${at}].server_label`,
        'mcp_server_not_found',
        `This server has no MCP server "${label}". Name one of its own, or give the server_url of one it allows.`,
      );
    }
    if (isHttpUrl(url) && this.#isAllowed(url)) return;
    throw invalid(
      `tools[${at}].server_url`,
      'mcp_server_url_not_allowed',
      'This server does not allow this server_url. Whoever runs it can list it in allowed_server_urls.',
    );
  }

  #isAllowed(url: string): boolean {
    const wanted = new URL(url).href;
    return this.#config.allowedServerUrls.some(allowed => new URL(allowed).href === wanted);
  }

  async #listTools(
    server: Omit<ConnectedServer, 'tools' | 'error'>,
    open: () => ToolSource,
  ): Promise<ConnectedServer> {
    try {
      return { ...server, tools: await open().connect() };
    } catch (error) {
      this.#log(`The MCP server "${server.label}" has no tools for now: ${messageOf(error)}`);
      return { ...server, tools: [], error: messageOf(error) };
    }
  }
}

/**
 * Two servers of one label are the same if they have the same URL, whatever gives access to it. A process is
 * what the configuration calls by its label: how it is started may change from one start to the next.
 */
function targetOf(transport: McpServerConfig['transport']): string {
  return 'url' in transport ? digestOf({ url: new URL(transport.url).href }) : 'process';
}

function openNamed({ server_label: name, server_url: url, authorization, headers }: McpTool): ToolSource {
  const authorized = authorization == null ? {} : { Authorization: bearer(authorization) };
  return mcp({ name, url: url ?? '', headers: { ...headers, ...authorized } });
}

function bearer(authorization: string): string {
  return /^\S+\s+\S/.test(authorization) ? authorization : `Bearer ${authorization}`;
}
