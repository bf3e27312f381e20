import { EngineError } from '../protocol/error.ts';
import type { Tool, ToolSource } from '../protocol/tool.ts';
import { SEARCH_TOOL, searchTool } from './search-tools.ts';
import { uniqueToolNames } from './unique-tool-names.ts';

export type ConnectedTools = {
  /** A `Map`, so that looking up a name such as `constructor` finds no inherited member. */
  tools: ReadonlyMap<string, Tool>;
  /** The same with the present tools of sources that are stale: the same tools if none has changed, or if that fails. */
  refresh(): Promise<ConnectedTools>;
  /** Closes every source, even if one fails to close; then rejects with the first failure. */
  close(): Promise<void>;
};

type Group = { from: string; tools: readonly Tool[] };

/**
 * Connects all sources in parallel and returns every tool by name, in the order of `entries`. A server's tool
 * whose name is not unique is renamed to `mcp_LABEL_NAME`. If any is deferred, the last is the search for them.
 * Rejects with the first source's error, or with an `EngineError` `agent-invalid` that names both owners of
 * a duplicate name; all sources are closed before it rejects.
 */
export async function connectTools(entries: readonly (Tool | ToolSource)[]): Promise<ConnectedTools> {
  const sources = entries.filter(isToolSource);
  const close = () => settleAll(sources.map(source => source.close()));
  try {
    const connecting = entries.map((entry, index) => connectGroup(entry, index));
    await Promise.allSettled(connecting);
    return connected(entries, await Promise.all(connecting), close);
  } catch (error) {
    await Promise.allSettled(sources.map(source => source.close()));
    throw error;
  }
}

function connected(
  entries: readonly (Tool | ToolSource)[],
  groups: readonly Group[],
  close: () => Promise<void>,
): ConnectedTools {
  const found: ConnectedTools = { tools: nameTools(groups), refresh, close };
  return found;

  async function refresh(): Promise<ConnectedTools> {
    try {
      const present = await Promise.all(
        entries.map(async (entry, index) =>
          isStale(entry) ? await connectGroup(entry, index) : groups[index],
        ),
      );
      const now = present.filter(group => group !== undefined);
      const isSame = now.every(({ tools }, index) => tools === groups[index]?.tools);
      return isSame ? found : connected(entries, now, close);
    } catch {
      return found;
    }
  }
}

function isStale(entry: Tool | ToolSource): boolean {
  return isToolSource(entry) && entry.isStale === true;
}

/**
 * The tools of an agent, connected when they are first needed. A failed connection is tried again, and what a source says
 * has changed is read again.
 */
export class ToolConnection {
  readonly #entries: readonly (Tool | ToolSource)[];
  #connected: Promise<ConnectedTools> | undefined;

  constructor(entries: readonly (Tool | ToolSource)[]) {
    this.#entries = entries;
  }

  async connect(): Promise<ReadonlyMap<string, Tool>> {
    this.#connected ??= connectTools(this.#entries);
    if (this.#entries.some(isStale)) this.#connected = this.#connected.then(known => known.refresh());
    const connected = this.#connected;
    try {
      return (await connected).tools;
    } catch (error) {
      if (this.#connected === connected) this.#connected = undefined;
      throw error;
    }
  }

  async close(): Promise<void> {
    const connected = this.#connected;
    this.#connected = undefined;
    await (await connected)?.close();
  }
}

/** The tools by name; `undefined` if a source has to be connected first. Throws for a duplicate name. */
export function listTools(entries: readonly (Tool | ToolSource)[]): ReadonlyMap<string, Tool> | undefined {
  const groups = entries.flatMap((entry, index) =>
    isToolSource(entry) ? [] : [{ from: `tools[${index}]`, tools: [entry] }],
  );
  return groups.length === entries.length ? nameTools(groups) : undefined;
}

export function isToolSource(entry: Tool | ToolSource): entry is ToolSource {
  return 'connect' in entry && typeof entry.connect === 'function';
}

async function connectGroup(entry: Tool | ToolSource, index: number): Promise<Group> {
  if (!isToolSource(entry)) return { from: `tools[${index}]`, tools: [entry] };
  const label = 'name' in entry && typeof entry.name === 'string' ? `"${entry.name}"` : 'a tool source';
  return { from: `tools[${index}] (${label})`, tools: await entry.connect() };
}

function nameTools(groups: readonly Group[]): Map<string, Tool> {
  const tools = new Map<string, Tool>();
  const owners = new Map<string, string>();
  const all = groups.flatMap(group => group.tools);
  const hasSearch = all.some(isSearchedHere);
  if (hasSearch) owners.set(SEARCH_TOOL, 'the search for deferred tools');
  const exposedName = uniqueToolNames(all, hasSearch ? [SEARCH_TOOL] : []);
  for (const { from, tools: group } of groups) {
    for (const tool of group) {
      const name = exposedName(tool);
      const owner = owners.get(name);
      if (owner !== undefined) {
        throw new EngineError(
          'agent-invalid',
          `two tools are named "${name}": one from ${owner} and one from ${from}. ` +
            'Rename one. For an MCP server, set a `prefix` or hide the tool.',
        );
      }
      owners.set(name, from);
      tools.set(name, name === tool.name ? tool : { ...tool, name });
    }
  }
  if (hasSearch) tools.set(SEARCH_TOOL, searchTool([...tools.values()].filter(isSearchedHere)));
  return tools;
}

function isSearchedHere({ deferred }: Tool): boolean {
  return deferred === true;
}

async function settleAll(closing: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(closing);
  await Promise.all(closing);
}
