import type { Host } from '../../../engine/host/host.ts';
import { backOffMs } from '../../../protocol/back-off.ts';
import { digestOf } from '../../../protocol/content/digest.ts';
import { messageOf } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Tool, ToolSource } from '../../../protocol/tool.ts';
import { mcp } from '../../../tools/mcp.ts';
import { invalid } from '../../openai-error.ts';
import { type GatewayConfig, isHttpUrl, type McpServerConfig } from '../config/gateway-config.ts';
import type { McpTool, RequestTool } from '../request/request-tools.ts';

/** A connected MCP server of one request. `error` is for the log, never for the client. */
export type ConnectedServer = {
  label: string;
  hidden: boolean;
  /** Distinguishes servers with the same label: a digest of the URL, which may contain a secret, or `process`. */
  target: string;
  config: McpServerConfig | undefined;
  asked: McpTool | undefined;
  tools: readonly Tool[];
  error?: string;
};

const HIDDEN_WAIT_MS = 1_000;

export type GatewayServersOptions = {
  gateway: GatewayConfig;
  host: Host;
  /** How long requests wait for a hidden server that has just begun to connect, in ms. Default 1,000. */
  hiddenWaitMs?: number;
  log(line: string): void;
};

/**
 * The MCP servers that requests may use.
 *
 * S1 A configured server is connected once, on first use, and shared by all requests and built-in tools.
 * S2 A server that a request names by URL is connected for that request only, and only if the URL is allowed.
 * S3 A server that cannot be reached has no tools; the request continues.
 * S4 Hidden servers connect in the background: one that hangs delays no request (`hidden-server.ts`).
 */
export class GatewayServers {
  readonly #config: GatewayConfig;
  readonly #log: (line: string) => void;
  readonly #sources = new Map<string, ToolSource>();
  readonly #hidden: readonly {
    label: string;
    config: McpServerConfig;
    source: ToolSource;
    server: HiddenServer;
  }[];

  constructor({ gateway, host, hiddenWaitMs = HIDDEN_WAIT_MS, log }: GatewayServersOptions) {
    this.#config = gateway;
    this.#log = log;
    this.#hidden = Object.entries(gateway.mcpServers).flatMap(([label, config]) => {
      if (config.hidden !== true) return [];
      const source = openConfigured(label, config);
      const server = new HiddenServer({ label, source, host, patienceMs: hiddenWaitMs, log });
      return [{ label, config, source, server }];
    });
  }

  async begin(): Promise<void> {
    await Promise.all(this.#hidden.map(({ server }) => server.begin()));
  }

  /**
   * Connects the hidden servers and those the request names. Throws a `ResponsesError` for a server that the request may
   * not use. `close` ends the connections of this request.
   */
  async connect(
    tools: readonly RequestTool[],
  ): Promise<{ servers: ConnectedServer[]; close(): Promise<void> }> {
    const asked: McpTool[] = [];
    for (const [at, tool] of tools.entries()) {
      if (tool.type !== 'mcp') continue;
      if (this.#configOf(tool.server_label) === undefined) this.#assertAllowed(tool, at);
      asked.push(tool);
    }
    const opened: ToolSource[] = [];
    const hidden = this.#hidden.map(async ({ label, config, server }) => ({
      label,
      hidden: true,
      target: targetOf(config.transport),
      config,
      asked: undefined,
      ...(await server.list()),
    }));
    const named = asked.map(tool => {
      const label = tool.server_label;
      const config = this.#configOf(label);
      const target = targetOf(config?.transport ?? { url: tool.server_url ?? '' });
      return this.#listTools({ label, hidden: false, target, config, asked: tool }, () => {
        if (config !== undefined) return this.#sourceOf(label, config);
        const source = openNamed(tool);
        opened.push(source);
        return source;
      });
    });
    const servers = await Promise.all([...hidden, ...named]);
    return {
      servers,
      close: async () => void (await Promise.allSettled(opened.map(source => source.close()))),
    };
  }

  /** The tool of a configured server, also of a hidden one. Rejects with an `Error` if there is none now. */
  async findTool(label: string, name: string): Promise<Tool> {
    const { mcpServers } = this.#config;
    const config = Object.hasOwn(mcpServers, label) ? mcpServers[label] : undefined;
    const tools = config === undefined ? [] : await this.#sourceOf(label, config).connect();
    const tool = tools.find(({ name: own, origin }) => (origin?.tool.name ?? own) === name);
    if (tool !== undefined) return tool;
    throw new Error(`The MCP server "${label}" has no tool "${name}".`);
  }

  async close(): Promise<void> {
    const hidden = this.#hidden.map(({ server }) => server);
    await Promise.allSettled([...this.#sources.values(), ...hidden].map(source => source.close()));
  }

  /** `undefined` for a hidden server too: to clients it does not exist. */
  #configOf(label: string): McpServerConfig | undefined {
    const { mcpServers } = this.#config;
    const config = Object.hasOwn(mcpServers, label) ? mcpServers[label] : undefined;
    return config?.hidden === true ? undefined : config;
  }

  #sourceOf(label: string, config: McpServerConfig): ToolSource {
    const known = this.#sources.get(label) ?? this.#hidden.find(hidden => hidden.label === label)?.source;
    if (known !== undefined) return known;
    const source = openConfigured(label, config);
    this.#sources.set(label, source);
    return source;
  }

  #assertAllowed({ server_label: label, server_url: url }: McpTool, at: number): void {
    if (url == null) {
      throw invalid(
        `tools[${at}].server_label`,
        'mcp_server_not_found',
        `This server has no MCP server "${label}". Use the label of a configured server, or add the server_url of an allowed one.`,
      );
    }
    if (isHttpUrl(url) && this.#isAllowed(url)) return;
    throw invalid(
      `tools[${at}].server_url`,
      'mcp_server_url_not_allowed',
      'This server does not allow this server_url. Its operator can add it to allowed_server_urls.',
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
      this.#log(
        `The MCP server "${server.label}" is unavailable, so its tools are missing: ${messageOf(error)}`,
      );
      return { ...server, tools: [], error: messageOf(error) };
    }
  }
}

/**
 * Servers with the same label are the same if their URLs are equal; credentials do not count. A process is identified
 * by its label alone, because its command may change between starts.
 */
function targetOf(transport: McpServerConfig['transport']): string {
  return 'url' in transport ? digestOf({ url: new URL(transport.url).href }) : 'process';
}

function openConfigured(label: string, { transport, tools = {}, timeoutMs }: McpServerConfig): ToolSource {
  return mcp({ name: label, ...transport, tools, ...omitUndefined({ timeoutMs }) });
}

function openNamed({ server_label: name, server_url: url, authorization, headers }: McpTool): ToolSource {
  const authorized = authorization == null ? {} : { Authorization: bearer(authorization) };
  return mcp({ name, url: url ?? '', headers: { ...headers, ...authorized } });
}

function bearer(authorization: string): string {
  return /^\S+\s+\S/.test(authorization) ? authorization : `Bearer ${authorization}`;
}

const BACK_OFF = { baseMs: 5_000, maxMs: 5 * 60_000 };

type HiddenServerOptions = {
  label: string;
  source: ToolSource;
  host: Host;
  /** How long requests wait for the first attempt, from its begin. */
  patienceMs: number;
  log(line: string): void;
};

/**
 * The tools of a hidden MCP server, which every request uses without asking for it.
 *
 * N1 One attempt to connect runs at a time. After a failure, the next attempt runs in the background, not within a request.
 * N2 Requests wait briefly for the first attempt. After that they use the known tools, if any.
 */
class HiddenServer {
  readonly #options: HiddenServerOptions;
  #tools: readonly Tool[] | undefined;
  #error = 'it has not answered yet';
  /** Settles with the first attempt. */
  #first: Promise<void> | undefined;
  #patience: Promise<void> | undefined;
  #cancelTimers = () => {};
  #isClosed = false;

  constructor(options: HiddenServerOptions) {
    this.#options = options;
  }

  /** Begins to connect, unless it has begun. Resolves after the first attempt, with or without success. */
  begin(): Promise<void> {
    this.#first ??= this.#connect(1);
    this.#patience ??= this.#losePatience();
    return this.#first;
  }

  async list(): Promise<{ tools: readonly Tool[]; error?: string }> {
    if (this.#tools === undefined) await Promise.race([this.begin(), this.#patience]);
    return this.#tools === undefined ? { tools: [], error: this.#error } : { tools: this.#tools };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimers();
    await this.#options.source.close();
  }

  async #connect(attempt: number): Promise<void> {
    const { label, source, host, log } = this.#options;
    try {
      this.#tools = await source.connect();
    } catch (error) {
      if (this.#isClosed) return;
      this.#error = messageOf(error);
      log(`The MCP server "${label}" is unavailable, so its tools are missing: ${this.#error}`);
      const again = () => void this.#connect(attempt + 1);
      this.#cancelTimers = host.setTimer(backOffMs(attempt, BACK_OFF), again, { keepAlive: false });
    }
  }

  #losePatience(): Promise<void> {
    const { label, host, patienceMs, log } = this.#options;
    return new Promise(resolve => {
      const lose = () => {
        if (this.#tools === undefined && !this.#isClosed)
          log(
            `The hidden MCP server "${label}" does not answer. Requests continue without its tools until it does.`,
          );
        resolve();
      };
      const cancel = host.setTimer(patienceMs, lose, { keepAlive: false });
      this.#first?.then(() => {
        cancel();
        resolve();
      });
    });
  }
}
