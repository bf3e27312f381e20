import type { Agent } from '../agent/agent.ts';
import { invalidInput } from '../protocol/error.ts';
import type { Item } from '../protocol/item.ts';
import type { Tool, ToolSource } from '../protocol/tool.ts';
import type { McpToolSource } from '../tools/mcp.ts';

/**
 * Does `work` with the messages of a prompt of one of the agent's MCP servers, and closes the servers, which an agent that
 * has not connected them does not. `prompt` is its name, after `SERVER/` if several servers have such a prompt; `texts` are
 * its arguments, as NAME=VALUE. Throws `input-invalid` if there is no such prompt, or more than one, or if it does not take
 * the arguments.
 */
export async function withPrompt<Result>(
  agent: Agent,
  { prompt, texts }: { prompt: string; texts: readonly string[] },
  work: (input: readonly Item[]) => Promise<Result>,
): Promise<Result> {
  const args = Object.fromEntries(texts.map(readArgument));
  const entries: readonly (Tool | ToolSource)[] = agent.options.tools ?? [];
  const sources = entries.filter(hasPrompts);
  if (sources.length === 0)
    throw invalidInput(`--prompt: the agent "${agent.name}" has no MCP server, so there are no prompts.`);
  try {
    return await work(await findPrompt(sources, prompt, args));
  } finally {
    await Promise.allSettled(sources.map(source => source.close()));
  }
}

async function findPrompt(
  sources: readonly McpToolSource[],
  prompt: string,
  args: Readonly<Record<string, string>>,
): Promise<Item[]> {
  const named = sources.find(({ name }) => prompt.startsWith(`${name}/`));
  if (named !== undefined) return await named.prompt(prompt.slice(named.name.length + 1), args);
  const [only] = sources;
  if (sources.length === 1 && only !== undefined) return await only.prompt(prompt, args);
  const listed = await Promise.all(
    sources.map(async source => ({ source, names: (await source.prompts()).map(({ name }) => name) })),
  );
  const found = listed.filter(({ names }) => names.includes(prompt));
  const [first] = found;
  if (first !== undefined && found.length === 1) return await first.source.prompt(prompt, args);
  const ways = (found.length > 1 ? found : listed).flatMap(({ source, names }) =>
    (found.length > 1 ? [prompt] : names).map(name => `${source.name}/${name}`),
  );
  const problem =
    found.length > 1 ? `several servers have a prompt "${prompt}"` : `no server has a prompt "${prompt}"`;
  throw invalidInput(
    `--prompt: ${problem}. ${ways.length === 0 ? 'There are none.' : `There are ${ways.slice(0, MOST_NAMED).join(', ')}.`}`,
  );
}

const MOST_NAMED = 50;

function readArgument(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw invalidInput(`--arg must be NAME=VALUE, got ${JSON.stringify(text)}.`);
  return [text.slice(0, at), text.slice(at + 1)];
}

function hasPrompts(entry: Tool | ToolSource): entry is McpToolSource {
  return 'prompt' in entry && typeof entry.prompt === 'function' && 'prompts' in entry;
}
