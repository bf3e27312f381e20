import { type Host, sleep } from '../../../engine/host/host.ts';
import { backOffMs } from '../../../protocol/back-off.ts';
import { digestOf } from '../../../protocol/content/digest.ts';
import { messageOf } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Tool, ToolSource } from '../../../protocol/tool.ts';
import { mcp } from '../../../tools/mcp.ts';
import { invalid } from '../../openai-error.ts';
import { type GatewayConfig, isHttpUrl, type McpServerConfig } from '../config/gateway-config.ts';
import type { McpTool, RequestTool } from '../request/request-tools.ts';

/** `error` is for the log, never for the client. */
export type ConnectedServer = {
  label: string;
  hidden: boolean;
  /** A digest of the URL, which may contain a secret, or `process`: distinguishes servers with the same label. */
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
  hiddenWaitMs?: number;
  log(line: string): void;
};

/**
 * The MCP servers that requests may use.
 *
 * S1 A configured server is connected once, on first use, and shared by all requests and built-in tools.
 * S2 A server that a request names by URL is connected for that request only, and only if the URL is allowed.
 * S3 A server that cannot be reached has no tools; the request continues.
 * S4 Hidden servers connect in the background: one that hangs delays no request (`HiddenServer`).
 */
export class GatewayServers {
  readonly #config: GatewayConfig;
  readonly #log: (line: string) => void;
  readonly #sources = new Map<string, ToolSource>();
  readonly #hidden: readonly HiddenServer[];

  constructor({ gateway, host, hiddenWaitMs = HIDDEN_WAIT_MS, log }: GatewayServersOptions) {
    this.#config = gateway;
    this.#log = log;
    this.#hidden = Object.entries(gateway.mcpServers).flatMap(([label, config]) =>
      config.hidden === true
        ? [new HiddenServer({ label, config, host, patienceMs: hiddenWaitMs, log })]
        : [],
    );
  }

  async begin(): Promise<void> {
    await Promise.all(this.#hidden.map(server => server.begin()));
  }

  /** Throws a `ResponsesError` for a server that the request may not use. `close` ends its own connections. */
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
    const hidden = this.#hidden.map(server => server.list());
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

  /** Also of a hidden server. Rejects with an `Error` if there is none now. */
  async findTool(label: string, name: string): Promise<Tool> {
    const config = this.#configured(label);
    const tools = config === undefined ? [] : await this.#sourceOf(label, config).connect();
    const tool = tools.find(({ name: own, origin }) => (origin?.tool.name ?? own) === name);
    if (tool !== undefined) return tool;
    throw new Error(`The MCP server "${label}" has no tool "${name}".`);
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#sources.values(), ...this.#hidden].map(source => source.close()));
  }

  #configured(label: string): McpServerConfig | undefined {
    const { mcpServers } = this.#config;
    return Object.hasOwn(mcpServers, label) ? mcpServers[label] : undefined;
  }

  /** `undefined` for a hidden server too: to clients it does not exist. */
  #configOf(label: string): McpServerConfig | undefined {
    const config = this.#configured(label);
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
      const message = `This server has no MCP server "${label}". Use the label of a configured server, or add the server_url of an allowed one.`;
      throw invalid(`tools[${at}].server_label`, 'mcp_server_not_found', message);
    }
    if (isHttpUrl(url) && this.#isAllowed(url)) return;
    const message =
      'This server does not allow this server_url. Its operator can add it to allowed_server_urls.';
    throw invalid(`tools[${at}].server_url`, 'mcp_server_url_not_allowed', message);
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

/** URLs count without credentials. A process is known by its label alone: its command may change between starts. */
function targetOf(transport: McpServerConfig['transport']): string {
  return 'url' in transport ? digestOf({ url: new URL(transport.url).href }) : 'process';
}

function openConfigured(label: string, config: McpServerConfig): ToolSource {
  const { transport, tools = {}, timeoutMs, deferred } = config;
  const given = 'url' in transport ? { ...transport, credentials: false as const } : transport;
  return mcp({ name: label, ...given, tools, ...omitUndefined({ timeoutMs, deferred }) });
}

function openNamed({ server_label: name, server_url: url, authorization, headers }: McpTool): ToolSource {
  const authorized = authorization == null ? {} : { Authorization: bearer(authorization) };
  return mcp({ name, url: url ?? '', headers: { ...headers, ...authorized }, credentials: false });
}

function bearer(authorization: string): string {
  return /^\S+\s+\S/.test(authorization) ? authorization : `Bearer ${authorization}`;
}

const BACK_OFF = { baseMs: 5_000, maxMs: 5 * 60_000 };

type HiddenServerOptions = {
  label: string;
  config: McpServerConfig;
  host: Host;
  /** How long requests wait for the first attempt, from its begin. */
  patienceMs: number;
  log(line: string): void;
};

/**
 * The tools of a hidden MCP server, which every request uses without asking for it.
 *
 * N1 One attempt to connect runs at a time. After a failure, the next runs in the background, not within a request.
 * N2 Requests wait briefly for the first attempt. After that they use the known tools, if any. Changed tools are read
 *    in the background too, for the requests after.
 */
class HiddenServer {
  readonly label: string;
  readonly source: ToolSource;
  readonly #options: HiddenServerOptions;
  #tools: readonly Tool[] | undefined;
  #error = 'it has not answered yet';
  #first: Promise<void> | undefined;
  #patience: Promise<void> | undefined;
  #cancelTimers = () => {};
  #isClosed = false;

  constructor(options: HiddenServerOptions) {
    this.#options = options;
    this.label = options.label;
    this.source = openConfigured(options.label, options.config);
  }

  /** Resolves after the first attempt, with or without success. */
  begin(): Promise<void> {
    this.#first ??= this.#connect(1);
    this.#patience ??= this.#losePatience(this.#first);
    return this.#first;
  }

  async list(): Promise<ConnectedServer> {
    if (this.#tools === undefined) await Promise.race([this.begin(), this.#patience]);
    else if (this.source.isStale === true) void this.#connect(1);
    const { label, config } = this.#options;
    const server = { label, hidden: true, target: targetOf(config.transport), config, asked: undefined };
    return this.#tools === undefined
      ? { ...server, tools: [], error: this.#error }
      : { ...server, tools: this.#tools };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimers();
    await this.source.close();
  }

  async #connect(attempt: number): Promise<void> {
    const { label, host, log } = this.#options;
    try {
      this.#tools = await this.source.connect();
    } catch (error) {
      if (this.#isClosed) return;
      this.#error = messageOf(error);
      log(`The MCP server "${label}" is unavailable, so its tools are missing: ${this.#error}`);
      const again = () => void this.#connect(attempt + 1);
      this.#cancelTimers = host.setTimer(backOffMs(attempt, BACK_OFF), again, { keepAlive: false });
    }
  }

  async #losePatience(first: Promise<void>): Promise<void> {
    const { label, host, patienceMs, log } = this.#options;
    const answered = new AbortController();
    void first.then(() => answered.abort());
    await sleep(host, patienceMs, answered.signal, { keepAlive: false });
    if (answered.signal.aborted || this.#tools !== undefined || this.#isClosed) return;
    log(
      `The hidden MCP server "${label}" does not answer. Requests continue without its tools until it does.`,
    );
  }
}
