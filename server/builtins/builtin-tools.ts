import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Tool } from '../../protocol/tool.ts';
import { invalid, type ResponsesError } from '../openai-error.ts';
import {
  type BuiltinConfig,
  type BuiltinKind,
  type BuiltinTool,
  builtinKindOf,
  type CodeInterpreterTool,
  type FileSearchTool,
  isBuiltinTool,
  type WebSearchTool,
} from './builtin-schemas.ts';
import { codeInterpreter } from './code-interpreter.ts';
import { FileIndex } from './file-index.ts';
import { assertFilter, fileSearch } from './file-search.ts';
import { type SearchWeb, searchEndpoint, searchOptionsOf, searchServer, webSearch } from './web-search.ts';

/** A request's tools, built-in and others, with the client's names of their members. */
type NamedTools = {
  tools: readonly ({ type: string } | BuiltinTool)[];
  names: { tool(at: number, member: string): string };
};

/** Finds a tool of a configured MCP server. Rejects with an `Error` if there is none now. */
type FindTool = (server: string, tool: string) => Promise<Tool>;

type Named = (member: string) => string;

export type OfferedBuiltin = { kind: BuiltinKind; tool: Tool };

/**
 * The built-in tools of requests, according to the configuration. A tool marked `pass` is forwarded to OpenAI's
 * Responses API; with other providers it runs here, if the configuration has a backend for it.
 */
export class BuiltinTools {
  readonly #config: BuiltinConfig;
  readonly #findTool: FindTool;
  readonly #log: (line: string) => void;
  readonly #indexes = new Map<string, FileIndex>();
  readonly #closing = new AbortController();
  /** A process that exits without `close`, such as at a second Ctrl-C, leaves no command behind either. */
  readonly #killCommands = () => this.#closing.abort();

  constructor(config: BuiltinConfig, findTool: FindTool, log: (line: string) => void) {
    this.#config = config;
    this.#findTool = findTool;
    this.#log = log;
    if (config.code_interpreter?.sandbox !== undefined) process.once('exit', this.#killCommands);
  }

  passed(tools: NamedTools['tools'], { provider }: Pick<ModelAdapter, 'provider'>): BuiltinTool[] {
    return tools
      .filter(isBuiltinTool)
      .filter(tool => provider === 'openai-responses' && this.#config[builtinKindOf(tool)]?.pass === true);
  }

  /** Throws a `ResponsesError` for a built-in tool that is not configured, and for an option that it does not have. */
  assertSupported({ tools, names }: NamedTools, adapter: Pick<ModelAdapter, 'provider'>): void {
    const passed = this.passed(tools, adapter);
    for (const [at, tool] of tools.entries()) {
      if (!isBuiltinTool(tool) || passed.includes(tool)) continue;
      const named: Named = member => names.tool(at, member);
      this.#assertConfigured(tool, named);
      if (tool.type === 'file_search') this.#assertFileSearch(tool, named);
      else if (tool.type === 'code_interpreter') assertCodeInterpreter(tool, named);
      else assertWebSearch(tool, named);
    }
  }

  /**
   * The built-in tools of a request that run here, after `assertSupported`. Throws a `ResponsesError` for an option that
   * the MCP server of a search does not have.
   */
  async open(
    { tools, names }: NamedTools,
    adapter: Pick<ModelAdapter, 'provider'>,
  ): Promise<OfferedBuiltin[]> {
    const passed = this.passed(tools, adapter);
    const offered: OfferedBuiltin[] = [];
    for (const [at, tool] of tools.entries()) {
      if (!isBuiltinTool(tool) || passed.includes(tool)) continue;
      const named: Named = member => names.tool(at, member);
      offered.push({ kind: builtinKindOf(tool), tool: await this.#make(tool, named) });
    }
    return offered;
  }

  /** Kills the commands that still run code, and frees the indexes of files. */
  close(): void {
    this.#killCommands();
    process.off('exit', this.#killCommands);
    for (const index of this.#indexes.values()) index.close();
  }

  async #make(tool: BuiltinTool, named: Named): Promise<Tool> {
    const { code_interpreter: code } = this.#config;
    if (tool.type === 'file_search')
      return fileSearch(
        tool,
        tool.vector_store_ids.map(name => this.#indexOf(name)),
      );
    if (tool.type === 'code_interpreter') {
      if (code?.sandbox === undefined) throw notConfigured(tool, named);
      return codeInterpreter(code.sandbox, this.#closing.signal);
    }
    return webSearch(tool, await this.#searchFor(tool, named));
  }

  async #searchFor(tool: WebSearchTool, named: Named): Promise<SearchWeb> {
    const { server, endpoint } = this.#config.web_search ?? {};
    if (endpoint !== undefined) return searchEndpoint(endpoint);
    if (server === undefined) throw notConfigured(tool, named);
    const open = async () => await this.#findTool(server.label, server.tool);
    const options = Object.keys(searchOptionsOf(tool));
    if (options.length > 0) {
      const { properties } = (await open()).inputSchema;
      const missing = options.find(option => !Object.hasOwn(Object(properties), option));
      if (missing !== undefined)
        throw unsupported(named(missing === 'allowed_domains' ? 'filters' : missing));
    }
    return searchServer(open);
  }

  #assertConfigured(tool: BuiltinTool, named: Named): void {
    const { web_search: web, file_search: files, code_interpreter: code } = this.#config;
    const isReady = {
      web_search: web?.server !== undefined || web?.endpoint !== undefined,
      file_search: files?.stores !== undefined,
      code_interpreter: code?.sandbox !== undefined,
    };
    if (!isReady[builtinKindOf(tool)]) throw notConfigured(tool, named);
  }

  #assertFileSearch({ vector_store_ids, filters, ranking_options }: FileSearchTool, named: Named): void {
    for (const [at, name] of vector_store_ids.entries()) {
      if (Object.hasOwn(this.#config.file_search?.stores ?? {}, name)) continue;
      throw invalid(
        named(`vector_store_ids[${at}]`),
        'vector_store_not_found',
        `Vector store with id '${name}' not found.`,
      );
    }
    if (ranking_options?.hybrid_search != null) throw unsupported(named('ranking_options.hybrid_search'));
    if (filters != null) assertFilter(filters, named('filters'));
  }

  #indexOf(name: string): FileIndex {
    const known = this.#indexes.get(name);
    if (known !== undefined) return known;
    const index = new FileIndex(this.#config.file_search?.stores?.[name]?.folders ?? [], this.#log);
    this.#indexes.set(name, index);
    return index;
  }
}

function assertWebSearch(tool: WebSearchTool, named: Named): void {
  if (tool.external_web_access === false) throw unsupported(named('external_web_access'));
  if (tool.search_content_types?.includes('image')) throw unsupported(named('search_content_types'));
}

/** Each call runs in a new process, so containers and files are not supported. */
function assertCodeInterpreter({ container }: CodeInterpreterTool, named: Named): void {
  if (typeof container === 'string') throw unsupported(named('container'));
  for (const option of ['file_ids', 'memory_limit', 'network_policy'] as const) {
    const value = container[option];
    if (value != null && !(Array.isArray(value) && value.length === 0))
      throw unsupported(named(`container.${option}`));
  }
}

function notConfigured({ type }: BuiltinTool, named: Named): ResponsesError {
  return invalid(
    named('type'),
    'unsupported_tool',
    `The built-in tool "${type}" is not available with this model on this server.`,
  );
}

function unsupported(param: string): ResponsesError {
  return invalid(param, 'unsupported_parameter', `'${param}' is not supported by this server.`);
}
