/**
 * `mcp()`: the tools of an MCP server as a tool source. In mcp/: `session.ts` (one shared process or session),
 * `stdio-server.ts` and `http-server.ts` (transports), `server-tool.ts` (a server's tool as a `Tool`), `call-rounds.ts` (a
 * call that takes several requests), `resources.ts` (tools that read its resources), `prompts.ts` (its prompts as inputs).
 */
import { EngineError } from '../protocol/error.ts';
import type { MessageItem } from '../protocol/item.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Tool, ToolSource } from '../protocol/tool.ts';
import { isTags, isTimeout } from './check-tool-settings.ts';
import { type CredentialStore, credentialsFile } from './mcp/credentials.ts';
import { type HttpServer, openHttp, showUrl } from './mcp/http-server.ts';
import { listOffers } from './mcp/list-offers.ts';
import { getPrompt, listPrompts, type McpPrompt } from './mcp/prompts.ts';
import type { McpResources } from './mcp/resources.ts';
import { type McpSkills, skillTags } from './mcp/server-skills.ts';
import { createServerTool, type McpToolOverride, type ServerOffer } from './mcp/server-tool.ts';
import { createServerConnection } from './mcp/session.ts';
import { checkOAuth, createSignIn, type OAuthOptions, type ServerSignIn } from './mcp/sign-in.ts';
import { type StdioServer, startProcess } from './mcp/stdio-server.ts';

export type {
  CredentialStore,
  HttpServer,
  McpPrompt,
  McpResources,
  McpSkills,
  McpToolOverride,
  OAuthOptions,
  StdioServer,
};
export { credentialsFile };

/** How to reach the server: `command` starts a process and uses stdio, `url` uses Streamable HTTP. */
export type McpTransport = StdioServer | HttpServer;

export type McpOptions = McpTransport & {
  /** The server's name in errors, and the label of its tools. Default: the command, or the URL without its query. */
  name?: string;
  /** Overrides by tool name, as the server names its tools. */
  tools?: Readonly<Record<string, McpToolOverride>>;
  /**
   * Whether to derive side effects from the server's hints: `readOnlyHint` means `none`, `idempotentHint` means
   * `idempotent`. Default `false`: every tool without an override is `once`.
   */
  trustHints?: boolean;
  /** Whether the model sees a tool of the server only after a search has found it. Default `false`. */
  deferred?: boolean;
  /** What all tools of the server do, in words for the agent's `rules`, such as `untrusted`. */
  tags?: readonly string[];
  /**
   * Whether the model can list and read the server's resources, with two tools without side effects, if the server has
   * any. Overrides in `tools` count for them too. Default: it cannot.
   */
  resources?: true | McpResources;
  /**
   * Whether the model can read the server's skills, with a tool as that of `skills()`, if the server has any. Overrides in
   * `tools` count for it too. Default: it cannot.
   */
  skills?: true | McpSkills;
  /** Prepended to every tool name. Letters, digits, `_` or `-`. */
  prefix?: string;
  /**
   * Time limit in ms for connecting, for listing the tools, and for silence of the server during a call.
   * Default: 10,000 for connecting and for listing, 60,000 for silence.
   */
  timeoutMs?: number;
  /**
   * Time limit in ms for one call, regardless of reported progress. A tool's own `timeoutMs` takes
   * precedence. Default: 30 minutes.
   */
  totalTimeoutMs?: number;
};

const NAMES = optionNames<McpOptions>()(
  'command args env cwd url headers fetch credentials oauth name tools trustHints deferred tags resources skills prefix timeoutMs totalTimeoutMs',
);
const OAUTH_NAMES = optionNames<OAuthOptions>()(
  'clientId clientSecret clientMetadataUrl issuer scopes redirectUrl user',
);
const RESOURCES_NAMES = optionNames<McpResources>()('list read');
const SKILLS_NAMES = optionNames<McpSkills>()('name trusted');
const OVERRIDE_NAMES = optionNames<McpToolOverride>()(
  'sideEffect approval reconcile hidden timeoutMs retries repeatable tags maxResultBytes deferred description',
);

export type McpToolSource = ToolSource & {
  readonly name: string;
  /** The server's prompts; none if it has no such feature. Starts the server if necessary. */
  prompts(): Promise<McpPrompt[]>;
  /**
   * The messages of a prompt, as the input of a run: `agent.start(await files.prompt('review', { path: 'a.ts' }))`. They
   * are the server's words in the role of the user: use prompts of servers that you trust. Rejects with `input-invalid`
   * for another prompt, or arguments that it does not take.
   */
  prompt(name: string, args?: Readonly<Record<string, string>>): Promise<MessageItem[]>;
};

const CONNECT_MS = 10_000;
const SILENCE_MS = 60_000;
const TOTAL_MS = 1_800_000;

/** How long the known tools are used after listing them again has failed. */
const RETRY_MS = 60_000;

/** No provider accepts more. */
const MAX_TOOLS = 1_000;

/**
 * Creates a tool source for an MCP server. `connect` starts the server and lists its tools; all callers share
 * one process or session and one list. If the process exits, the next call starts it again; if the server
 * loses the session, the next call opens a new one. `close` ends the connection until the next `connect`.
 * The server's stderr is not printed; its end is part of error messages.
 *
 * If a server over HTTP answers 401, the token of the person who signed in is refreshed once, and the request repeated:
 * it was not carried out. `signIn` of the source signs a person in, as `agentchart mcp login` does.
 *
 * The tools are in the order of their names. `connect` lists them again, if the server has told that they changed, if it
 * was started again, or if the time is over for which it said they stay as they are; it returns the known ones if that fails.
 *
 * `connect` rejects with an `EngineError`: `tool-source-failed` when the server does not start or respond,
 * `sign-in-needed` when a person has to sign in first, `agent-invalid` when `tools` names an unknown tool, or two tools would have the same name.
 * `mcp` itself throws an `EngineError` `agent-invalid` for invalid options.
 *
 * @example
 * const files = mcp({
 *   name: 'files',
 *   command: 'npx',
 *   args: ['-y', '@modelcontextprotocol/server-filesystem', '/data'],
 *   tools: { read_text_file: { sideEffect: 'none' }, write_file: { approval: true } },
 * });
 * const agent = createAgent({ name: 'clerk', model, tools: [files] });
 */
export function mcp(options: McpOptions): McpToolSource {
  refuseUnknownOptions('mcp', options, NAMES);
  for (const [tool, override] of Object.entries(options.tools ?? {}))
    refuseUnknownOptions(`tools["${tool}"] of mcp`, override, OVERRIDE_NAMES);
  if (options.resources !== undefined && options.resources !== true)
    refuseUnknownOptions('resources of mcp', options.resources, RESOURCES_NAMES);
  if (options.skills !== undefined && options.skills !== true)
    refuseUnknownOptions('skills of mcp', options.skills, SKILLS_NAMES);
  checkShape(options);
  const name = options.name ?? nameServer(options);
  const { prefix = '', timeoutMs, totalTimeoutMs = TOTAL_MS } = options;
  if (!/^[a-zA-Z0-9_-]*$/.test(prefix)) {
    throwInvalid(
      name,
      `expected prefix to consist of letters, digits, "_" or "-", got ${JSON.stringify(prefix)}.`,
    );
  }
  if (timeoutMs !== undefined && !isTimeout(timeoutMs)) {
    throwInvalid(name, `expected timeoutMs above 0, got ${timeoutMs}.`);
  }
  if (!isTimeout(totalTimeoutMs)) {
    throwInvalid(name, `expected totalTimeoutMs above 0, got ${totalTimeoutMs}.`);
  }
  if ('url' in options) checkHttpServer(name, options);
  const { tags = [] } = options;
  const all = [tags, ...Object.values(options.tools ?? {}).map(override => override.tags ?? [])];
  for (const one of all)
    if (!isTags(one)) throwInvalid(name, `expected tags to be a list of words, got ${JSON.stringify(one)}.`);
  const connectMs = timeoutMs ?? CONNECT_MS;
  const skills = options.skills === true ? {} : options.skills;
  const overrides = new Map(Object.entries(options.tools ?? {}));
  const signIn = 'url' in options ? signInOf(name, options, connectMs) : null;
  const connection = createServerConnection(name, () => {
    if (!isListing) outdate();
    const follow = { onChanged: outdate, resources: skills !== undefined };
    return 'url' in options
      ? openHttp(name, options, connectMs, { signIn, follow })
      : startProcess(name, options, connectMs, follow);
  });
  let listing: Promise<readonly Tool[]> | null = null;
  let known: { described: string; tools: readonly Tool[] } | null = null;
  let isListing = false;
  let freshUntil = Number.POSITIVE_INFINITY;

  function outdate(): void {
    freshUntil = 0;
  }

  function isStale(): boolean {
    return listing !== null && !isListing && Date.now() >= freshUntil;
  }

  async function listTools(): Promise<readonly Tool[]> {
    isListing = true;
    freshUntil = Date.now() + RETRY_MS;
    try {
      const session = await connection.open();
      session.follow();
      const { offers, freshMs } = await listOffers(session, {
        server: name,
        resources: options.resources === true ? {} : options.resources,
        skills,
        onChanged: outdate,
        timeout: connectMs,
      });
      if (freshUntil > 0) freshUntil = Date.now() + freshMs;
      const described = JSON.stringify(offers.map(offer => [offer.described, offer.version]));
      if (known?.described !== described) known = { described, tools: makeTools(offers) };
      return known.tools;
    } finally {
      isListing = false;
    }
  }

  function makeTools(offers: readonly ServerOffer[]): readonly Tool[] {
    if (offers.length > MAX_TOOLS)
      throw new EngineError(
        'tool-source-failed',
        `the MCP server "${name}" lists ${offers.length} tools; the limit is ${MAX_TOOLS}.`,
      );
    if (known === null) refuseUnknown(name, overrides, offers);
    const visible = offers.filter(({ described }) => !overrides.get(described.name)?.hidden);
    const tools = visible.map(offer =>
      createServerTool(offer, {
        connection,
        server: name,
        prefix,
        trustHints: options.trustHints ?? false,
        deferred: options.deferred ?? false,
        tags,
        silenceMs: timeoutMs ?? SILENCE_MS,
        totalMs: totalTimeoutMs,
        override: overrides.get(offer.described.name) ?? {},
      }),
    );
    refuseDuplicates(name, tools);
    return tools;
  }

  async function close(): Promise<void> {
    listing = null;
    known = null;
    await connection.close();
  }

  return {
    name,
    tags: [...new Set([...all.flat(), ...(skills === undefined ? [] : skillTags(skills))])],
    ...(signIn && { signIn: signIn.signIn }),
    get isStale() {
      return isStale();
    },
    connect() {
      if (listing !== null && !isStale()) return listing;
      const before = listing;
      const current = listTools().catch(async error => {
        if (before !== null) return await before;
        if (listing === current) await close();
        throw error;
      });
      listing = current;
      return current;
    },
    prompts: async () => await listPrompts(connection, connectMs),
    prompt: async (prompt, given = {}) =>
      await getPrompt(name, connection, { name: prompt, given, timeout: connectMs }),
    close,
  };
}

function checkShape({ command, url }: { command?: unknown; url?: unknown }): void {
  const isProcess = typeof command === 'string' && command !== '';
  const isHttp = typeof url === 'string' && url !== '';
  if (isProcess !== isHttp) return;
  const expected = 'either `command` (the program to start) or `url` (the address of the server)';
  throw new EngineError('agent-invalid', `mcp: expected ${expected}${isHttp ? ', not both' : ''}.`);
}

function nameServer(transport: McpTransport): string {
  if ('command' in transport) return transport.command;
  return isHttpUrl(transport.url) ? showUrl(transport.url) : 'url';
}

/** `null` if tokens come with the `headers`, or nowhere from. */
function signInOf(name: string, server: HttpServer, timeoutMs: number): ServerSignIn | null {
  const { url, headers = {}, fetch, credentials, oauth } = server;
  const hasToken = new Headers({ ...headers }).has('authorization');
  if (credentials === false || (hasToken && credentials === undefined)) {
    if (oauth !== undefined)
      throwInvalid(name, '`oauth` needs `credentials`, and no `Authorization` header.');
    return null;
  }
  if (hasToken) throwInvalid(name, 'expected `credentials` or an `Authorization` header, not both.');
  const target = {
    url,
    shownUrl: showUrl(url),
    headers,
    fetch: fetch ?? ((input, init) => globalThis.fetch(input, init)),
  };
  return createSignIn(name, target, { credentials: credentials ?? credentialsFile(), oauth, timeoutMs });
}

/** Errors never quote the invalid URL or header value: either may contain a secret. */
function checkHttpServer(name: string, { url, headers = {}, credentials, oauth }: HttpServer): void {
  if (!isHttpUrl(url)) throwInvalid(name, 'expected `url` to be an http or https URL.');
  const { username, password } = new URL(url);
  if (username !== '' || password !== '') {
    throwInvalid(name, 'expected a `url` without credentials. Use `headers`.');
  }
  if (credentials && (typeof credentials.get !== 'function' || typeof credentials.set !== 'function'))
    throwInvalid(name, 'expected `credentials` to be `false`, or to have the functions `get` and `set`.');
  if (oauth !== undefined) {
    refuseUnknownOptions('oauth of mcp', oauth, OAUTH_NAMES);
    const problem = checkOAuth(oauth);
    if (problem !== undefined) throwInvalid(name, `${problem}.`);
  }
  for (const [header, value] of Object.entries(headers)) {
    try {
      new Headers([[header, value]]);
    } catch {
      throwInvalid(
        name,
        `the header ${JSON.stringify(header)} cannot be sent: its name or value is invalid.`,
      );
    }
  }
}

function isHttpUrl(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

function refuseUnknown(
  server: string,
  overrides: ReadonlyMap<string, unknown>,
  offers: readonly ServerOffer[],
): void {
  const known = offers.map(({ described }) => described.name);
  const unknown = [...overrides.keys()].filter(name => !known.includes(name));
  if (unknown.length === 0) return;
  const list = known.length === 0 ? 'no tools' : known.map(name => `"${name}"`).join(', ');
  throwInvalid(
    server,
    `\`tools\` names ${unknown.map(name => `"${name}"`).join(', ')}, but the server has ${list}.`,
  );
}

function refuseDuplicates(server: string, tools: readonly Tool[]): void {
  const seen = new Set<string>();
  for (const { name } of tools) {
    if (seen.has(name))
      throwInvalid(server, `two of its tools would be named "${name}". Hide one with \`tools\`.`);
    seen.add(name);
  }
}

function throwInvalid(server: string, problem: string): never {
  throw new EngineError('agent-invalid', `the MCP server "${server}": ${problem}`);
}
