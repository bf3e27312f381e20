import { toStored } from '../../../machines/snapshot.ts';
import type { ChartState } from '../../../machines/step.ts';
import { EngineError } from '../../../protocol/error.ts';
import { blobsOf, type JournalEntry } from '../../../protocol/event.ts';
import { isRunEvent } from '../../../protocol/is-run-event.ts';
import { canonicalJson, isJsonObject, type JsonValue, toJson } from '../../../protocol/json.ts';
import { isRedaction, redactionOf } from '../../../protocol/redaction.ts';
import { checkDigests } from '../../replay/export-run.ts';
import { hashOf } from '../digest.ts';
import { beginFold, foldEntry, hasEnded, hashState } from '../load-run.ts';
import type { WholeJournal } from '../read-journal.ts';
import { isContent } from './content-paths.ts';
import { followPointer, type Place, pointerTo, replaceAt, textsOf } from './journal-pointer.ts';

/**
 * Redaction: a value gives way to a text with its digest.
 *
 * R1 Only content is redacted (`content-paths.ts`).
 * R2 The redacted journal leads where the other one did: put the values back into its fold, and it is the other's,
 *    and behind every entry both are in the same state.
 * R3 What is still to be done is not redacted: the calls without a result, and the parameters of turns to come.
 */

export type RedactionPlan = {
  /** Those that change, as they are then, or whose state has another hash then. */
  entries: JournalEntry[];
  /** By digest: what no entry names any more. */
  blobs: string[];
  /** The fold of the journal with them. */
  state: ChartState;
  /** Where a value is redacted that was not before. */
  redacted: string[];
  elsewhere: string[];
};

type Originals = ReadonlyMap<string, JsonValue>;

/** In characters: what is shorter is within many other texts. */
const SHORTEST_FOUND = 4;

/** Throws what `redactRun` says of paths. */
export function planRedaction(journal: WholeJournal, paths: readonly string[]): RedactionPlan {
  const places = findPlaces(journal, paths);
  const originals = new Map(places.map(({ value }) => [redactionOf(hashOf(value)), value]));
  const redacted = journal.map(entry => redactEntry(entry, places));
  const { state, hashes } = foldAlike(journal, redacted, originals);
  const changed = redacted.map(entry => withHash(entry, hashes.get(entry.seq)));
  const named = new Set(changed.flatMap(({ event }) => blobsOf(event)).map(({ digest }) => digest));
  const blobs = journal.flatMap(({ event }) => blobsOf(event)).map(({ digest }) => digest);
  return {
    entries: changed.filter((entry, index) => entry !== journal[index]),
    blobs: [...new Set(blobs)].filter(digest => !named.has(digest)),
    state,
    redacted: places.map(pointerTo),
    elsewhere: findElsewhere(changed, places),
  };
}

/** What is to be redacted, each once and nothing within another. */
function findPlaces(journal: WholeJournal, paths: readonly string[]): Place[] {
  const found = paths
    .map(path => followPointer(journal, path))
    .flatMap(place => [place, ...alongWith(journal, place)]);
  const byPointer = new Map(found.map(place => [pointerTo(place), place]));
  for (const [pointer, { seq, path, value }] of byPointer) {
    const type = journal[seq - 1]?.event.type;
    if (type !== undefined && !isContent(type, path))
      throw redactionError(pointer, 'is part of what the run is made of');
    const isWithin = [...byPointer.keys()].some(other => pointer.startsWith(`${other}/`));
    if (isWithin || isRedaction(value)) byPointer.delete(pointer);
  }
  return [...byPointer.values()];
}

/** What the model read of an output is a part of it. */
function alongWith(journal: WholeJournal, { seq, path }: Place): Place[] {
  if (path.at(-1) !== 'output') return [];
  try {
    return [followPointer(journal, pointerTo({ seq, path: [...path.slice(0, -1), 'shown'] }))];
  } catch {
    return [];
  }
}

function redactEntry(entry: JournalEntry, places: readonly Place[]): JournalEntry {
  const own = places.filter(({ seq }) => seq === entry.seq);
  if (own.length === 0) return entry;
  const event = own.reduce(
    (value, place) => replaceAt(value, place.path, redactionOf(hashOf(place.value))),
    toJson(entry.event),
  );
  if (isRunEvent(event)) return { ...entry, event };
  throw redactionError(own.map(pointerTo).join(', '), 'cannot be a text in its place: name what is in it');
}

function withHash(entry: JournalEntry, stateHash: string | undefined): JournalEntry {
  return stateHash === undefined || stateHash === entry.stateHash ? entry : { ...entry, stateHash };
}

/** The fold of the redacted journal, and the hashes of its states where the journal had any, by their seq. */
function foldAlike(
  journal: WholeJournal,
  changed: readonly JournalEntry[],
  originals: Originals,
): { state: ChartState; hashes: ReadonlyMap<number, string> } {
  const hashes = new Map<number, string>();
  const [{ event: started }] = journal;
  const first = changed[0]?.event;
  let before = beginFold(started);
  let after = beginFold(first?.type === 'run.started' ? first : started);
  for (const [index, entry] of journal.entries()) {
    const { seq, event } = changed[index] ?? entry;
    const isNews = checkDigests(after, event) !== null && checkDigests(before, entry.event) === null;
    if (index > 0) {
      before = foldEntry(before, entry, started.runId);
      after = foldRedacted(after, { seq, event }, started.runId);
    }
    if (isNews || canonicalJson(toJson(before.value)) !== canonicalJson(toJson(after.value)))
      throw redactionError(`/${seq}`, 'would not lead to the same state any more');
    if (entry.stateHash !== undefined) hashes.set(seq, hashState(after));
  }
  const [left, right] = [before, after].map(state =>
    canonicalJson(restore(toJson(toStored(state)), originals)),
  );
  if (left !== right) throw redactionError('It', 'would not lead to the same state any more');
  if (!hasEnded(before) && canonicalJson(neededOf(before)) !== canonicalJson(neededOf(after)))
    throw redactionError('It', 'is needed for a call that has no result yet, or for the turns to come');
  return { state: after, hashes };
}

function foldRedacted(state: ChartState, entry: JournalEntry, runId: string): ChartState {
  try {
    return foldEntry(state, entry, runId);
  } catch {
    throw redactionError(`/${entry.seq}`, 'would not fit the state before it any more');
  }
}

function neededOf({ context: { calls, params } }: ChartState): JsonValue {
  return toJson({ calls: calls.filter(({ status }) => status !== 'settled'), params });
}

/** A value with what was redacted put back, also where another text was made with it. */
function restore(value: JsonValue, originals: Originals): JsonValue {
  if (typeof value === 'string')
    return originals.has(value) ? (originals.get(value) ?? null) : restoreText(value, originals);
  if (Array.isArray(value)) return value.map(member => restore(member, originals));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, restore(member, originals)]));
}

function restoreText(text: string, originals: Originals): string {
  if (!text.includes('[redacted sha256:')) return text;
  return text.replaceAll(/\[redacted sha256:[0-9a-f]{64}\]/g, found => {
    const original = originals.get(found);
    return typeof original === 'string' ? original : found;
  });
}

/** Where the journal still has a text of what was redacted: a short one only as a whole, or as a member of JSON. */
function findElsewhere(changed: readonly JournalEntry[], places: readonly Place[]): string[] {
  const sought = new Set(places.flatMap(({ value }) => [...textsOf(value)].map(([text]) => text)));
  sought.delete('');
  const forms = [...sought].flatMap(text => {
    const quoted = JSON.stringify(text);
    return text.length < SHORTEST_FOUND ? [quoted] : [quoted, text, quoted.slice(1, -1)];
  });
  const isFound = (text: string) => sought.has(text) || forms.some(form => text.includes(form));
  return changed.flatMap(({ seq, event }) =>
    [...textsOf(toJson(event))].flatMap(([text, path]) => (isFound(text) ? [pointerTo({ seq, path })] : [])),
  );
}

function redactionError(what: string, why: string): EngineError {
  return new EngineError('refused', `${what} ${why}, and cannot be redacted. Nothing was changed.`);
}
