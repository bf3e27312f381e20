import { isJsonObject, type JsonValue } from './json.ts';

/**
 * What stands in a journal in place of a value that was redacted: a text with the SHA-256 over the value's canonical
 * JSON. A model or a person can write such a text too; then the digests beside it are still of it.
 */
const REDACTED = /^\[redacted sha256:[0-9a-f]{64}\]$/;

/** `hash`: SHA-256 over the canonical JSON of the value, as 64 hex digits. */
export function redactionOf(hash: string): string {
  return `[redacted sha256:${hash}]`;
}

export function isRedaction(value: unknown): boolean {
  return typeof value === 'string' && REDACTED.test(value);
}

/** How many redactions a value has, at any depth. */
export function countRedactions(value: JsonValue): number {
  if (typeof value === 'string') return isRedaction(value) ? 1 : 0;
  const parts = Array.isArray(value) ? value : isJsonObject(value) ? Object.values(value) : [];
  return parts.reduce<number>((count, part) => count + countRedactions(part), 0);
}
