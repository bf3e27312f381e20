import { canonicalJson, type JsonValue, omitUndefined, toJson } from '../json.ts';
import { oncePer } from '../once-per.ts';
import type { Tool } from '../tool.ts';
import { hashText, makeHash } from './hash-text.ts';

/** SHA-256 over the canonical JSON, as 64 hex digits. */
export function hashOf(value: JsonValue): string {
  return hashText(canonicalJson(value));
}

/** The first 128 bits of `hashOf`, as 32 hex digits. */
export function digestOf(value: JsonValue): string {
  return hashOf(value).slice(0, 32);
}

/** The digest of a call, as 32 hex digits: it binds a decision to the tool name and input that the decider saw. */
export function digestCall(name: string, input: JsonValue): string {
  return digestOf({ input, name });
}

/** SHA-256 over a stream of bytes, as 64 hex digits. */
export async function hashParts(parts: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = makeHash();
  for await (const part of parts) hash.update(part);
  return hash.digest();
}

/** `server`: the label of the tool server, for its tools only. */
export type ToolDigest = { name: string; digest: string; server?: string };

/** Each tool's name, `digestTool` and tool server, sorted by name. */
export function digestTools(tools: ReadonlyMap<string, Tool>): ToolDigest[] {
  return [...tools.values()]
    .map(tool => ({
      name: tool.name,
      digest: digestTool(tool),
      ...omitUndefined({ server: tool.origin?.label }),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** 16 hex digits over what the model sees of a tool and how recovery treats its calls; not over the code of its functions. */
export const digestTool = oncePer((tool: Tool) => digestOf(describe(tool)).slice(0, 16));

/** `digestTool` of a tool that a server defines, which may redefine it without the agent's owner; else `undefined`. */
export function serverDigest(tool: Tool): string | undefined {
  return tool.origin === undefined ? undefined : digestTool(tool);
}

function describe({ name, description, inputSchema, strict, sideEffect, run, reconcile }: Tool): JsonValue {
  return toJson({
    ...omitUndefined({ name, description, inputSchema, sideEffect, strict }),
    client: run === undefined,
    reconcilable: reconcile !== undefined,
  });
}
