import { type JsonValue, toJson } from '../protocol/json.ts';
import { hashOf } from './digest.ts';

/**
 * The chain of an export: the hash of each entry covers the hash before it, so that no entry can be changed,
 * left out, moved or brought from another run without every later hash being made anew. It has no key: it
 * finds accidents and partial edits, not the work of somebody who makes all hashes anew.
 */

/** What the first entry is bound to: which run it is, and the seal of the run it continues, if that is exported too. */
export function hashHead(run: object, continued: string | undefined): string {
  return hashOf({ run: toJson(run), continued: continued ?? null });
}

/** Of an entry, given the hash before it. */
export function hashNext(before: string, seq: number, event: object | JsonValue): string {
  return hashOf({ before, seq, event: toJson(event) });
}

/** Of what an export says of the end of its journal, given the hash of the last entry. */
export function hashSeal(before: string, end: object): string {
  return hashOf({ before, end: toJson(end) });
}
