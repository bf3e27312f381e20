import { hashText } from '../protocol/content/hash-text.ts';
import type { Tool } from '../protocol/tool.ts';

/** In characters; accepted by every provider. */
const MOST_CHARACTERS = 64;
const DIGEST_LENGTH = 8;

/** Leaves room for a numeric suffix within the characters that providers accept. */
const MAX_LENGTH = 60;

/** The name, or if it has more than 64 characters, its beginning and a digest of `source`, which tells names apart. */
export function shortenToolName(name: string, source = name): string {
  if (name.length <= MOST_CHARACTERS) return name;
  const digest = hashText(source).slice(0, DIGEST_LENGTH);
  return `${name.slice(0, MOST_CHARACTERS - DIGEST_LENGTH - 1)}_${digest}`;
}

/**
 * Returns a function that gives each tool the name under which the model sees it. A server's tool whose name
 * is not unique becomes `mcp_LABEL_NAME`, with a numeric suffix if that is taken; all others keep their names,
 * unless the caller passes a `prefix` for them. `reserved` names belong to other tools. Call the function once per
 * tool, in a fixed order: the suffixes depend on it.
 */
export function uniqueToolNames(
  tools: readonly Tool[],
  reserved: readonly string[] = [],
): (tool: Tool, prefix?: string) => string {
  const counts = new Map<string, number>();
  for (const name of [...tools.map(tool => tool.name), ...reserved])
    counts.set(name, (counts.get(name) ?? 0) + 1);
  const taken = new Set(counts.keys());
  const suffixes = new Map<string, number>();
  return ({ name, origin }, prefix = origin && `mcp_${origin.label}_`) => {
    if (prefix === undefined || counts.get(name) === 1) return name;
    const wanted = (prefix + name).replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, MAX_LENGTH);
    let exposed = wanted;
    let suffix = suffixes.get(wanted) ?? 1;
    while (taken.has(exposed)) {
      suffix += 1;
      exposed = `${wanted}_${suffix}`;
    }
    suffixes.set(wanted, suffix);
    taken.add(exposed);
    return exposed;
  };
}
