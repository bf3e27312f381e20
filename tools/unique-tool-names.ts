import type { Tool } from '../protocol/tool.ts';

/** Leaves room for a number within the 64 characters that providers take. */
const LONGEST = 60;

/**
 * What the model is to call each tool, where several servers' tools come together. A tool keeps its name
 * unless it is a server's and another has the same; then it is `mcp_LABEL_NAME`, with a number where that is
 * taken too. To be asked once for each tool, in a fixed order.
 */
export function uniqueToolNames(tools: readonly Tool[]): (tool: Tool) => string {
  const holders = new Map<string, number>();
  for (const { name } of tools) holders.set(name, (holders.get(name) ?? 0) + 1);
  const taken = new Set(holders.keys());
  const numbers = new Map<string, number>();
  return ({ name, origin }) => {
    if (origin === undefined || holders.get(name) === 1) return name;
    const wanted = `mcp_${origin.label}_${name}`.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, LONGEST);
    let exposed = wanted;
    let number = numbers.get(wanted) ?? 1;
    while (taken.has(exposed)) {
      number += 1;
      exposed = `${wanted}_${number}`;
    }
    numbers.set(wanted, number);
    taken.add(exposed);
    return exposed;
  };
}
