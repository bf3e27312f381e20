import { isJsonObject, type JsonValue } from '../json.ts';

/** Returns the path of the first difference between two values, as keys joined by dots; `null` for equal values. */
export function findDifference(
  left: JsonValue | undefined,
  right: JsonValue | undefined,
  path: readonly string[] = [],
): string | null {
  if (left === right) return null;
  const isPair = isJsonObject(left) && isJsonObject(right);
  if (!isPair && !(Array.isArray(left) && Array.isArray(right))) return path.join('.');
  for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const difference = findDifference(memberOf(left, key), memberOf(right, key), [...path, key]);
    if (difference !== null) return difference;
  }
  return null;
}

function memberOf(value: object, key: string): JsonValue | undefined {
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}
