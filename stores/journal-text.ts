import { EngineError, messageOf } from '../protocol/error.ts';
import type { JournalEntry, RunEvent } from '../protocol/event.ts';
import { describeEventFault, isRunEvent } from '../protocol/is-run-event.ts';
import type { JsonValue } from '../protocol/json.ts';

/** Returns the JSON of an event. Throws `input-invalid` for one that could not be read back. */
export function encodeEvent(event: RunEvent): string {
  const expected = 'Expected a run event that JSON can represent';
  const nothing = 'Correct the event; nothing was written.';
  if (!isRunEvent(event))
    throw new EngineError('input-invalid', `${expected}, got ${describeEventFault(event)}. ${nothing}`);
  try {
    return JSON.stringify(event);
  } catch (cause) {
    throw new EngineError('input-invalid', `${expected}: ${messageOf(cause)}. ${nothing}`, null, { cause });
  }
}

export function decodeEntry(runId: string, seq: number, text: string, stateHash?: string): JournalEntry {
  const { event } = decodeJson(runId, seq, text);
  if (isRunEvent(event)) return stateHash === undefined ? { seq, event } : { seq, event, stateHash };
  throw describeDamage(runId, seq, `is not an event that this version knows: ${describeEventFault(event)}`);
}

/** An entry that this process has encoded and kept in its memory: it needs no check. */
export function decodeOwnEntry(seq: number, text: string, stateHash?: string): JournalEntry {
  const event: RunEvent = JSON.parse(text);
  return stateHash === undefined ? { seq, event } : { seq, event, stateHash };
}

export function readEvent(text: string): RunEvent | undefined {
  try {
    const event: unknown = JSON.parse(text);
    return isRunEvent(event) ? event : undefined;
  } catch {
    return undefined;
  }
}

/** Parses an entry that may come from another release. Throws `journal-damaged` for invalid JSON. */
export function decodeJson(runId: string, seq: number, text: string): { seq: number; event: JsonValue } {
  try {
    return { seq, event: JSON.parse(text) };
  } catch (cause) {
    throw describeDamage(runId, seq, `is not JSON: ${messageOf(cause)}`);
  }
}

/** Returns the error for a journal that cannot be read in full; `fault` continues "entry n …". */
export function describeDamage(runId: string, seq: number, fault: string): EngineError {
  return new EngineError(
    'journal-damaged',
    `The journal of run "${runId}" cannot be read: entry ${seq} ${fault}. Restore the store from a backup, or read it with the version that wrote it.`,
    { runId, seq },
  );
}

export function describeChange(runId: string, seq: number): EngineError {
  return describeDamage(runId, seq, 'does not match its checksum');
}

/** Returns the error for a journal that ends at `last`, although its entry `seen` was already read. */
export function lostEntries(runId: string, last: number, seen: number): EngineError {
  return describeDamage(runId, last + 1, `is missing, although the journal had ${seen} entries`);
}
