import { isJsonObject, type JsonValue } from '../../protocol/json.ts';

/**
 * Formats a value in full, one member per line. Strings are quoted. Strings with line breaks are shown as
 * lines behind a bar, so that their text cannot be mistaken for another member.
 */
export function formatValue(value: JsonValue, indent = ''): string[] {
  if (Array.isArray(value) && value.length > 0) {
    return value.flatMap(entry => formatMember('-', entry, indent));
  }
  if (isJsonObject(value) && Object.keys(value).length > 0) {
    return Object.entries(value).flatMap(([key, entry]) => formatMember(`${nameKey(key)}:`, entry, indent));
  }
  if (typeof value === 'string' && value.includes('\n')) {
    return value.split(/\r?\n/).map(line => `${indent}│ ${line}`);
  }
  return [`${indent}${JSON.stringify(value)}`];
}

function formatMember(label: string, value: JsonValue, indent: string): string[] {
  const lines = formatValue(value, `${indent}  `);
  const [first = ''] = lines;
  const isShort =
    typeof value !== 'object' || value === null || lines[0]?.trim() === '[]' || lines[0]?.trim() === '{}';
  if (lines.length === 1 && isShort) return [`${indent}${label} ${first.trimStart()}`];
  return [`${indent}${label}`, ...lines];
}

function nameKey(key: string): string {
  return /^[\w-]+$/.test(key) ? key : JSON.stringify(key);
}
