import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { canonicalJson, type JsonValue, toJson } from '../protocol/json.ts';
import { agentMachine } from './agent.ts';

let known: string | undefined;

/**
 * Returns a hash of the chart's structure (states, edges, names of guards and actions), as 16 hex digits of SHA-256. It
 * ignores `meta`, `description`, `tags`, `output` (which is derived from the state and not stored), and the source of
 * functions.
 */
export function structuralHash(): string {
  known ??= hashDefinition(agentMachine.config);
  return known;
}

export function hashDefinition(definition: unknown): string {
  const structure = canonicalJson(toJson(keepStructure(definition)));
  return bytesToHex(sha256(utf8ToBytes(structure))).slice(0, 16);
}

const NOT_STRUCTURE: ReadonlySet<string> = new Set(['meta', 'description', 'tags', 'output']);

/** Keys under `states` are always kept: a state may be named like one of these. */
function keepStructure(node: unknown, areNames = false): unknown {
  if (typeof node === 'function') return null;
  if (Array.isArray(node)) return node.map(entry => keepStructure(entry));
  if (typeof node !== 'object' || node === null) return node;
  const kept = Object.entries(node).filter(([key]) => areNames || !NOT_STRUCTURE.has(key));
  return Object.fromEntries(
    kept.map(([key, value]): [string, JsonValue] => [
      key,
      keepStructure(value, key === 'states' && !areNames) as JsonValue,
    ]),
  );
}
