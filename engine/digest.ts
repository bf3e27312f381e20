import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { canonicalJson, type JsonValue } from '../protocol/json.ts';

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

const hashText = nodeHash() ?? (text => bytesToHex(sha256(utf8ToBytes(text))));

/** Node's own SHA-256, ten times as fast; `undefined` in a browser, where this module loads too. */
function nodeHash(): ((text: string) => string) | undefined {
  const crypto = globalThis.process?.getBuiltinModule?.('crypto');
  return crypto && (text => crypto.hash('sha256', text, 'hex'));
}
