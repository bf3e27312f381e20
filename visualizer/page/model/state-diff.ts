import type { Context } from '../../../machines/context.ts';
import { formatState } from '../render/format.ts';

/** What an entry changed in the state. `key` is the path of a member: `lastTurn.finishReason`. */
export type StateChange = { key: string; before: unknown; after: unknown };

const DEPTH = 2;

/** The parts of the state that differ, and how many of its members are `changed`. Identical values are skipped. */
export function diffStates(
  before: Context | null,
  after: Context | null,
): { changes: StateChange[]; changed: number; keys: number } {
  const old: Record<string, unknown> = { ...before };
  const now: Record<string, unknown> = { ...after };
  const keys = new Set([...Object.keys(now), ...Object.keys(old)]);
  const members = [...keys]
    .filter(key => key !== 'now')
    .map(key => listChanges({ key, before: old[key], after: now[key] }, DEPTH))
    .filter(changes => changes.length > 0);
  return { changes: members.flat(), changed: members.length, keys: keys.size };
}

function listChanges({ key, before, after }: StateChange, depth: number): StateChange[] {
  if (before === after || isEqual(before, after)) return [];
  const names = depth === 0 ? null : commonMembers(before, after);
  if (names === null) return [{ key, before, after }];
  const [old, now] = [Object(before), Object(after)] as Record<string, unknown>[];
  return names.flatMap(name =>
    listChanges({ key: `${key}.${name}`, before: old?.[name], after: now?.[name] }, depth - 1),
  );
}

/** The members of two values by which they can be compared; `null` if only the values can. */
function commonMembers(before: unknown, after: unknown): string[] | null {
  if (Array.isArray(before) && Array.isArray(after)) {
    return before.length === after.length ? Object.keys(after) : null;
  }
  if (!isMembered(after) || (before !== null && before !== undefined && !isMembered(before))) return null;
  return [...new Set([...Object.keys(after), ...Object.keys(before ?? {})])];
}

function isMembered(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
  return formatState(value);
}
