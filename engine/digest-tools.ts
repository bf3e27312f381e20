import { type JsonValue, toJson } from '../protocol/json.ts';
import type { Tool } from '../protocol/tool.ts';
import { digestOf } from './digest.ts';

export type ToolDigest = { name: string; digest: string };

/** The tools by name, each with `digestTool`, in the order of their names. */
export function digestTools(tools: ReadonlyMap<string, Tool>): ToolDigest[] {
  return [...tools.values()]
    .map(tool => ({ name: tool.name, digest: digestTool(tool) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

const known = new WeakMap<Tool, string>();

/**
 * 16 hex digits that change with what the model is told of a tool and with what recovery does with its
 * calls. What the tool's functions do is not in them.
 */
export function digestTool(tool: Tool): string {
  const digest = known.get(tool) ?? digestOf(describe(tool)).slice(0, 16);
  known.set(tool, digest);
  return digest;
}

function describe({ name, description, inputSchema, strict, sideEffect, run, reconcile }: Tool): JsonValue {
  return toJson({
    ...{ name, description, inputSchema, sideEffect },
    ...(strict === undefined ? {} : { strict }),
    client: run === undefined,
    reconcilable: reconcile !== undefined,
  });
}
