/** What JSON leaves as it is and a terminal or a line reader may obey. */
const LEFT_BY_JSON = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** A value as JSON that does nothing to a terminal; `indent` spaces for each level, else on one line. */
export function formatSafeJson(value: unknown, indent = 0): string {
  const spell = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value, null, indent).replace(LEFT_BY_JSON, spell);
}
