import { EngineError, messageOf } from '../protocol/error.ts';
import { type JournalEntry, type RunEvent, runEventSchema } from '../protocol/event.ts';
import { isRunEvent } from '../protocol/is-run-event.ts';
import type { JsonValue } from '../protocol/json.ts';

/**
 * The JSON a journal keeps for an event. Throws `input-invalid` for an event that could not be read
 * back: what is written is always readable.
 */
export function encodeEvent(event: RunEvent): string {
  if (isRunEvent(event)) return stringify(event);
  throw new EngineError(
    'input-invalid',
    `Expected a run event that JSON can carry, got ${describeFault(event)}. Correct the event; nothing was written.`,
  );
}

/** An entry from the JSON a journal kept. Throws `journal-damaged`, naming the run and the entry. */
export function decodeEntry(runId: string, seq: number, text: string, stateHash?: string): JournalEntry {
  const { event } = decodeJson(runId, seq, text);
  if (isRunEvent(event)) return stateHash === undefined ? { seq, event } : { seq, event, stateHash };
  throw describeDamage(runId, seq, `is no event this version knows: ${describeFault(event)}`);
}

/** The event of an entry, where it is one this version knows. */
export function readEvent(text: string): RunEvent | undefined {
  try {
    const event: unknown = JSON.parse(text);
    return isRunEvent(event) ? event : undefined;
  } catch {
    return undefined;
  }
}

/** An entry whose words may be another release's. Throws `journal-damaged` for what is no JSON. */
export function decodeJson(runId: string, seq: number, text: string): { seq: number; event: JsonValue } {
  try {
    return { seq, event: JSON.parse(text) };
  } catch (cause) {
    throw describeDamage(runId, seq, `is not JSON: ${messageOf(cause)}`);
  }
}

/** The error for a journal that cannot be read in full; `fault` continues "entry n …". */
export function describeDamage(runId: string, seq: number, fault: string): EngineError {
  return new EngineError(
    'journal-damaged',
    `The journal of run "${runId}" cannot be read: entry ${seq} ${fault}. Restore the store from a backup, or read it with the version that wrote it.`,
    { runId, seq },
  );
}

/** The error for a journal that ends at `last` although somebody has seen its entry `seen`. */
export function lostEntries(runId: string, last: number, seen: number): EngineError {
  return describeDamage(runId, last + 1, `is missing, and there were ${seen}`);
}

function stringify(event: RunEvent): string {
  try {
    return JSON.stringify(event);
  } catch (cause) {
    const message = `Expected a run event that JSON can carry: ${messageOf(cause)}. Correct the event; nothing was written.`;
    throw new EngineError('input-invalid', message, null, { cause });
  }
}

function describeFault(value: unknown): string {
  const issue = runEventSchema.safeParse(value).error?.issues[0];
  if (issue === undefined) return 'something else';
  const type =
    typeof value === 'object' && value !== null && 'type' in value ? `"${String(value.type)}"` : '';
  const where = issue.path.length === 0 ? 'the event' : issue.path.map(String).join('.');
  return `${type === '' ? 'no type' : type} with a fault at ${where} (${issue.message})`;
}
