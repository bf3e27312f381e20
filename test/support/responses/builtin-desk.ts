import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '../../../protocol/json.ts';
import { DIALECTS, DialectProvider, type PlayedTurn } from './dialect-provider.ts';
import { Gateway, type Resource } from './gateway.ts';
import { SearchEndpoint } from './search-endpoint.ts';

export const USER = { role: 'user', content: 'Find out.' };
export const PAGE = { title: 'Cats', url: 'https://cats.example/one', snippet: 'They purr.' };
export const OTHER = { title: 'Dogs', url: 'https://dogs.example/', snippet: 'They bark.' };
export const WEB = { type: 'web_search' };
export const FILES = { type: 'file_search', vector_store_ids: ['handbook'] };
export const CODE = { type: 'code_interpreter', container: { type: 'auto' } };
export const ALL = [WEB, FILES, CODE];
export const INCLUDE = [
  'web_search_call.action.sources',
  'file_search_call.results',
  'code_interpreter_call.outputs',
];
/** Runs its input as a program of Node. */
export const SANDBOX = [process.execPath, '-'];

export const SEARCHES: PlayedTurn = { calls: [{ name: 'web_search', arguments: { query: 'cats' } }] };
export const LOOKS: PlayedTurn = {
  calls: [{ name: 'file_search', arguments: { query: 'vacation days' } }],
};
export const DONE: PlayedTurn = { text: 'Found out.' };

/** A turn that runs the code. */
export function computes(code = 'console.log(6 * 7)'): PlayedTurn {
  return { calls: [{ name: 'code_interpreter', arguments: { code } }] };
}

/** A gateway that runs all built-in tools, a bare one whose web search is a hidden MCP server, and their provider. */
export class BuiltinDesk {
  readonly provider: DialectProvider;
  readonly endpoint: SearchEndpoint;
  readonly gateway: Gateway;
  readonly bare: Gateway;

  private constructor(provider: DialectProvider, endpoint: SearchEndpoint) {
    this.provider = provider;
    this.endpoint = endpoint;
    this.gateway = new Gateway(
      {},
      {
        config: folder => {
          mkdirSync(join(folder.path, 'handbook'));
          writeFileSync(join(folder.path, 'handbook', 'leave.md'), 'Vacation: thirty days a year.');
          return {
            builtin_tools: {
              web_search: { url: endpoint.url, headers: { authorization: 'Bearer hidden-key' } },
              file_search: { stores: { handbook: { folders: [join(folder.path, 'handbook')] } } },
              code_interpreter: { command: SANDBOX, timeout_ms: 20_000 },
            },
          };
        },
      },
    );
    this.bare = new Gateway(
      {},
      {
        config: folder => ({
          mcp_servers: { vault: folder.server({ hidden: true, allowed_tools: [] }) },
          builtin_tools: { web_search: { mcp_server: 'vault', tool: 'exotic' } },
        }),
      },
    );
  }

  static async open(): Promise<BuiltinDesk> {
    return new BuiltinDesk(await DialectProvider.listen(), await SearchEndpoint.listen());
  }

  /** Sends a request with all built-in tools and a Chat Completions model. */
  async ask(more: JsonObject): Promise<Resource> {
    return await this.gateway.create({ model: DIALECTS.chat, input: [USER], tools: ALL, ...more });
  }

  /** The last request of the model as text, without escapes. */
  sent(): string {
    return JSON.stringify(this.provider.requests.at(-1)).replaceAll('\\', '');
  }

  async close(): Promise<void> {
    await this.gateway.close();
    await this.bare.close();
    await this.endpoint.close();
    await this.provider.close();
  }
}
