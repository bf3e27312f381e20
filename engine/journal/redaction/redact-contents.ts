import { hashOf } from '../../../protocol/content/digest.ts';
import { isContent, type JournalEntry, type RunEvent } from '../../../protocol/event.ts';
import { isRunEvent } from '../../../protocol/is-run-event.ts';
import { isJsonObject, type JsonValue, toJson } from '../../../protocol/json.ts';
import { isRedaction, redactionOf } from '../../../protocol/redaction.ts';
import { withMatches } from './match-breakpoints.ts';

/** What is not content of a journal, but may name people, machines or customers: for copies that strangers get. */
const PRIVATE: Readonly<Record<string, readonly string[]>> = {
  'run.started': ['labels', 'thread'],
  'run.noted': ['note'],
  'params.changed': ['providerOptions'],
};

/** A journal for strangers: contents, labels, threads and notes are digests. The chart folds it to the same states. */
export function redactContents(journal: readonly JournalEntry[]): JournalEntry[] {
  return withMatches(journal).map(({ seq, event }) => {
    const copy = redact(event.type, toJson(event), []);
    if (isRunEvent(copy)) return { seq, event: copy };
    throw new Error(`The copy of entry ${seq} (${event.type}) without contents is not an event.`);
  });
}

function redact(type: RunEvent['type'], value: JsonValue, path: readonly string[]): JsonValue {
  if (path.length > 0 && (isContent(type, path) || isPrivate(type, path)))
    return isJsonObject(value) && path.at(-1) === 'providerOptions'
      ? { redacted: digestOf(value) }
      : digestOf(value);
  if (isInputPath(type, path)) return value === 'input' ? value : `input.${digestOf(value)}`;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((part, index) => redact(type, part, [...path, String(index)]));
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, redact(type, part, [...path, key])]),
  );
}

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
