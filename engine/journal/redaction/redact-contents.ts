import { hashOf } from '../../../protocol/content/digest.ts';
import { isContent, type JournalEntry, type RunEvent } from '../../../protocol/event.ts';
import { type JsonValue, toJson } from '../../../protocol/json.ts';
import { isRedaction, redactionOf } from '../../../protocol/redaction.ts';
import { withMatches } from './match-breakpoints.ts';

/** What is no content of a journal, but names people, machines or customers: for copies that leave the house. */
const PRIVATE: Readonly<Record<string, readonly string[]>> = {
  'run.started': ['labels'],
  'run.noted': ['note'],
  'params.changed': ['providerOptions'],
};

/**
 * Returns a copy of a journal for strangers: all content, the values of labels and notes are replaced by their digests.
 * The course of the run stays: the chart folds the copies to the same states.
 */
export function redactContents(journal: readonly JournalEntry[]): JournalEntry[] {
  return withMatches(journal).map(({ seq, event }) => ({
    seq,
    event: redact(event.type, toJson(event), []) as unknown as RunEvent,
  }));
}

function redact(type: RunEvent['type'], value: JsonValue, path: readonly string[]): JsonValue {
  if (path.length > 0 && (isContent(type, path) || isPrivate(type, path))) return digestOf(value);
  if (isInputPath(type, path)) return value === 'input' ? value : `input.${digestOf(value)}`;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((part, index) => redact(type, part, [...path, String(index)]));
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, redact(type, part, [...path, key])]),
  );
}

/** Whether the value is the path of a breakpoint, which names members of an input. */
function isInputPath(type: RunEvent['type'], path: readonly string[]): boolean {
  return type === 'breakpoints.set' && path.at(-2) === 'where' && path.at(-1) === 'path';
}

/** Whether the value is a leaf below a member that is private. */
function isPrivate(type: RunEvent['type'], path: readonly string[]): boolean {
  const names = PRIVATE[type] ?? [];
  const at = path.findIndex(key => names.includes(key));
  if (at === -1) return false;
  return path[at] !== 'labels' || path.length > at + 1;
}

function digestOf(value: JsonValue): JsonValue {
  if (value === null || value === '' || isRedaction(value)) return value;
  return redactionOf(hashOf(value));
}
