/** The text of a redacted value, with the SHA-256 of its canonical JSON. People can write such a text too. */
const REDACTED = /^\[redacted sha256:[0-9a-f]{64}\]$/;

const REDACTED_LENGTH = '[redacted sha256:]'.length + 64;

/** Returns the replacement text. `hash` is the SHA-256 of the value's canonical JSON, as 64 hex digits. */
export function redactionOf(hash: string): string {
  return `[redacted sha256:${hash}]`;
}

/** Whether the value is a replacement text made by `redactionOf`. */
export function isRedaction(value: unknown): boolean {
  return typeof value === 'string' && value.length === REDACTED_LENGTH && REDACTED.test(value);
}

/** Counts the redactions in a value of JSON, at any depth. */
export function countRedactions(value: unknown): number {
  if (typeof value === 'string') return isRedaction(value) ? 1 : 0;
  if (typeof value !== 'object' || value === null) return 0;
  let count = 0;
  // Not `for … in`: over objects of many shapes, V8 optimizes it and takes that back again and again.
  for (const member of Object.values(value)) count += countRedactions(member);
  return count;
}
