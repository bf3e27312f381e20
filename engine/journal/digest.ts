import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { canonicalJson, given, type JsonValue, toJson } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';

/** SHA-256 over the canonical JSON, as 64 hex digits. */
export function hashOf(value: JsonValue): string {
  return hashText(canonicalJson(value));
}

/** The first 128 bits of `hashOf`, as 32 hex digits. */
export function digestOf(value: JsonValue): string {
  return hashOf(value).slice(0, 32);
}

/** Binds a decision to what was seen: the tool and its input. */
export function digestCall(name: string, input: JsonValue): string {
  return digestOf({ name, input });
}

/** SHA-256 over a text in UTF-8, as 64 hex digits. */
export function hashText(text: string): string {
  return nodeCrypto()?.hash('sha256', text, 'hex') ?? bytesToHex(sha256(utf8ToBytes(text)));
}

/** The same over bytes that come a part at a time. */
export async function hashParts(parts: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = makeHash();
  for await (const part of parts) hash.update(part);
  return hash.digest();
}

/** A SHA-256 that is given its bytes a part at a time. */
export function makeHash(): { update(part: Uint8Array): void; digest(): string } {
  const node = nodeCrypto();
  if (node === undefined) {
    const hash = sha256.create();
    return { update: part => void hash.update(part), digest: () => bytesToHex(hash.digest()) };
  }
  const hash = node.createHash('sha256');
  return { update: part => void hash.update(part), digest: () => hash.digest('hex') };
}

let crypto: typeof import('node:crypto') | undefined;

/** Node's own SHA-256, ten times as fast; `undefined` in a browser, where this module loads too. Loaded when needed. */
function nodeCrypto(): typeof import('node:crypto') | undefined {
  crypto ??= globalThis.process?.getBuiltinModule?.('crypto');
  return crypto;
}

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
    ...given({ name, description, inputSchema, sideEffect, strict }),
    client: run === undefined,
    reconcilable: reconcile !== undefined,
  });
}
