import type { Context } from '../../../machines/context.ts';

/** A member of the state that an entry changed. */
export type Change = { key: string; before: unknown; after: unknown };

/** The members of the state that differ. Identical values are skipped. */
export function diffStates(
  before: Context | null,
  after: Context | null,
): { changes: Change[]; keys: number } {
  const [old, now] = [entriesOf(before), entriesOf(after)];
  const keys = new Set([...Object.keys(now), ...Object.keys(old)]);
  const changes = [...keys].flatMap(key => {
    const [was, is] = [old[key], now[key]];
    if (key === 'now' || was === is || isEqual(was, is)) return [];
    return [{ key, before: was, after: is }];
  });
  return { changes, keys: keys.size };
}

function entriesOf(context: Context | null): Record<string, unknown> {
  return context === null ? {} : { ...context };
}

function isEqual(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (Array.isArray(one) && Array.isArray(other) && one.length !== other.length) return false;
  return JSON.stringify(one) === JSON.stringify(other);
}

/** A value in a few words: `13 items`, `{ a, b }`. */
export function sketchValue(value: unknown): string {
  if (value === undefined) return '—';
  if (Array.isArray(value)) return value.length === 1 ? '1 item' : `${value.length} items`;
  if (typeof value === 'string') return value;
  return JSON.stringify(value);
}
