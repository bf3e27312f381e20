import { EngineError } from '../protocol/error.ts';
import type { Tool, ToolSource } from '../protocol/tool.ts';
import { uniqueToolNames } from './unique-tool-names.ts';

export type ConnectedTools = {
  /** Own entries only: a name such as `constructor` finds nothing that was not given. */
  tools: ReadonlyMap<string, Tool>;
  /** Closes every source, also when one fails to; then rejects with the first failure. */
  close(): Promise<void>;
};

type Group = { from: string; tools: readonly Tool[] };

/**
 * Connects the sources, all at once, and gives all tools by name, in the order they were given in. A
 * server's tool whose name something else has too is `mcp_LABEL_NAME`, on every server.
 * Rejects with the first source's error, or with an `EngineError` `agent-invalid` naming both owners of
 * a name that is there twice all the same; every source is closed then.
 */
export async function connectTools(given: readonly (Tool | ToolSource)[]): Promise<ConnectedTools> {
  const sources = given.filter(isToolSource);
  const close = () => settleAll(sources.map(source => source.close()));
  try {
    const connecting = given.map((entry, index) => connectGroup(entry, index));
    await Promise.allSettled(connecting);
    return { tools: nameTools(await Promise.all(connecting)), close };
  } catch (error) {
    await Promise.allSettled(sources.map(source => source.close()));
    throw error;
  }
}

/** The tools by name where all are at hand; `undefined` where some have to be fetched. Throws as `connectTools` rejects. */
export function listTools(given: readonly (Tool | ToolSource)[]): ReadonlyMap<string, Tool> | undefined {
  const groups = given.flatMap((entry, index) =>
    isToolSource(entry) ? [] : [{ from: `tools[${index}]`, tools: [entry] }],
  );
  return groups.length === given.length ? nameTools(groups) : undefined;
}

function isToolSource(entry: Tool | ToolSource): entry is ToolSource {
  return 'connect' in entry && typeof entry.connect === 'function';
}

async function connectGroup(entry: Tool | ToolSource, index: number): Promise<Group> {
  if (!isToolSource(entry)) return { from: `tools[${index}]`, tools: [entry] };
  const named =
    'name' in entry && typeof entry.name === 'string' ? `tools[${index}] ("${entry.name}")` : null;
  return { from: named ?? `tools[${index}] (a tool source)`, tools: await entry.connect() };
}

function nameTools(groups: readonly Group[]): Map<string, Tool> {
  const tools = new Map<string, Tool>();
  const owners = new Map<string, string>();
  const exposedName = uniqueToolNames(groups.flatMap(group => group.tools));
  for (const { from, tools: group } of groups) {
    for (const tool of group) {
      const name = exposedName(tool);
      const owner = owners.get(name);
      if (owner !== undefined) {
        throw new EngineError(
          'agent-invalid',
          `two tools are named "${name}": one of ${owner} and one of ${from}. ` +
            'Rename one; an MCP server takes a `prefix`, and can hide a tool.',
        );
      }
      owners.set(name, from);
      tools.set(name, name === tool.name ? tool : { ...tool, name });
    }
  }
  return tools;
}

async function settleAll(closing: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(closing);
  await Promise.all(closing);
}
