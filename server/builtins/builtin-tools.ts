import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Tool } from '../../protocol/tool.ts';
import { invalid, ResponsesError } from '../openai-error.ts';
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
import { assertFilter, FileIndex, fileSearch } from './file-index.ts';
import { type SearchWeb, searchEndpoint, searchOptionsOf, searchServer, webSearch } from './web-search.ts';

type NamedTools = {
  tools: readonly ({ type: string } | BuiltinTool)[];
  /** The client's names of the members of its tools. */
  names: { tool(at: number, member: string): string };
};
type Provider = Pick<ModelAdapter, 'provider'>;
type Named = (member: string) => string;

/** Rejects with an `Error` if there is none now. */
type FindTool = (server: string, tool: string) => Promise<Tool>;

export type OfferedBuiltin = { kind: BuiltinKind; tool: Tool };

type Backend = { check(): void; make(): Tool | Promise<Tool> };

/** The built-in tools of requests; one marked `pass` is OpenAI's, and runs here with other providers. */
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

  passed(tools: NamedTools['tools'], { provider }: Provider): BuiltinTool[] {
    return tools
      .filter(isBuiltinTool)
      .filter(tool => provider === 'openai-responses' && this.#config[builtinKindOf(tool)]?.pass === true);
  }

  /** Those that cannot be had as they are declared, and why. */
  lacking(asked: NamedTools, adapter: Provider): { tool: BuiltinTool; why: ResponsesError }[] {
    return this.#runHere(asked, adapter).flatMap(({ tool, backend }) => {
      try {
        backend().check();
        return [];
      } catch (error) {
        if (error instanceof ResponsesError) return [{ tool, why: error }];
        throw error;
      }
    });
  }

  /** The tools that run here. Throws a `ResponsesError` for an option that the MCP server of a search does not have. */
  async open(asked: NamedTools, adapter: Provider): Promise<OfferedBuiltin[]> {
    const offered: OfferedBuiltin[] = [];
    for (const { kind, backend } of this.#runHere(asked, adapter))
      offered.push({ kind, tool: await backend().make() });
    return offered;
  }

  close(): void {
    this.#killCommands();
    process.off('exit', this.#killCommands);
    for (const index of this.#indexes.values()) index.close();
  }

  #runHere({ tools, names }: NamedTools, adapter: Provider) {
    const passed = this.passed(tools, adapter);
    return tools.flatMap((tool, at) => {
      if (!isBuiltinTool(tool) || passed.includes(tool)) return [];
      const backend = () => this.#backendOf(tool, member => names.tool(at, member));
      return [{ tool, kind: builtinKindOf(tool), backend }];
    });
  }

  #backendOf(tool: BuiltinTool, named: Named): Backend {
    const { web_search: web, file_search: files, code_interpreter: code } = this.#config;
    switch (tool.type) {
      case 'file_search': {
        const stores = files?.stores;
        if (stores === undefined) break;
        const indexes = () => tool.vector_store_ids.map(name => this.#indexOf(name, stores[name]?.folders));
        return {
          check: () => assertFileSearch(tool, stores, named),
          make: () => fileSearch(tool, indexes()),
        };
      }
      case 'code_interpreter': {
        const sandbox = code?.sandbox;
        if (sandbox === undefined) break;
        return {
          check: () => assertCodeInterpreter(tool, named),
          make: () => codeInterpreter(sandbox, this.#closing.signal),
        };
      }
      default: {
        if (web?.server === undefined && web?.endpoint === undefined) break;
        return {
          check: () => assertWebSearch(tool, named),
          make: async () => webSearch(tool, await this.#searchFor(tool, web, named)),
        };
      }
    }
    const message = `The built-in tool "${tool.type}" is not available with this model on this server.`;
    throw invalid(named('type'), 'unsupported_tool', message);
  }

  async #searchFor(
    tool: WebSearchTool,
    { server = { label: '', tool: '' }, endpoint }: NonNullable<BuiltinConfig['web_search']>,
    named: Named,
  ): Promise<SearchWeb> {
    if (endpoint !== undefined) return searchEndpoint(endpoint);
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

  #indexOf(name: string, folders: readonly string[] = []): FileIndex {
    const index = this.#indexes.get(name) ?? new FileIndex(folders, this.#log);
    this.#indexes.set(name, index);
    return index;
  }
}

function assertFileSearch(
  { vector_store_ids, filters, ranking_options }: FileSearchTool,
  stores: object,
  named: Named,
): void {
  for (const [at, name] of vector_store_ids.entries())
    if (!Object.hasOwn(stores, name)) {
      const message = `Vector store with id '${name}' not found.`;
      throw invalid(named(`vector_store_ids[${at}]`), 'vector_store_not_found', message);
    }
  if (ranking_options?.hybrid_search != null) throw unsupported(named('ranking_options.hybrid_search'));
  if (filters != null) assertFilter(filters, named('filters'));
}

function assertWebSearch(tool: WebSearchTool, named: Named): void {
  if (tool.external_web_access === false) throw unsupported(named('external_web_access'));
  if (tool.search_content_types?.includes('text') === false) throw unsupported(named('search_content_types'));
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

function unsupported(param: string): ResponsesError {
  return invalid(param, 'unsupported_parameter', `'${param}' is not supported by this server.`);
}
