import { toStored } from '../../../machines/snapshot.ts';
import { hasEnded } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import { hashOf } from '../../../protocol/content/digest.ts';
import { EngineError } from '../../../protocol/error.ts';
import { blobsOf, isContent, type JournalEntry } from '../../../protocol/event.ts';
import { isRunEvent } from '../../../protocol/is-run-event.ts';
import {
  canonicalJson,
  isJsonObject,
  type JsonValue,
  omitUndefined,
  toJson,
} from '../../../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../../../protocol/options/refuse-unknown.ts';
import { isRedaction, redactionOf } from '../../../protocol/redaction.ts';
import type { Redacted, RedactOptions, Store } from '../../../protocol/store.ts';
import { type Host, systemHost } from '../../host/host.ts';
import { isOwnerDead } from '../../host/owner.ts';
import { checkDigests } from '../check-digests.ts';
import { beginFold, foldEntry, hashState, makeImage, progressOf, wordsFor } from '../load-run.ts';
import { readFromStart, type WholeJournal } from '../read-journal.ts';
import { capturesOf } from '../run-blobs.ts';
import { withMatches } from './match-breakpoints.ts';

/**
 * Redaction replaces a value by a text with its digest.
 *
 * R1 Only content is redacted (`content` of `protocol/schemas/content.ts`).
 * R2 The redacted journal takes the same course: after every entry the chart is in the same state, and putting the
 *    values back into the final fold gives the original fold.
 * R3 Pending work is not redacted: calls without a result, the parameters of future turns, and the run context and the
 *    breakpoints of a run that has not ended.
 */

/** Options of `redactRun`. `host` is the source of the time if `now` is not given. Default: the system's clock. */
export type RedactRunOptions = RedactOptions & { host?: Host };

const NAMES = optionNames<RedactRunOptions>()('paths by now isDead host');

/**
 * Replaces values in a run's journal, and everything the store derived from them, by their digests. Redacting a
 * result's `output` also redacts the part that the model read (`shown`) and deletes its blob. Values that are
 * already redacted are skipped.
 *
 * Throws, with nothing changed: `input-invalid` for a path that leads nowhere; `refused` for a value that is not
 * content, for one that a call without a result or a future turn needs, for a run that is being driven, and for a
 * run that came from another store; `chart-mismatch` for a journal of another chart; `run-unknown`;
 * `journal-damaged`.
 *
 * @example
 * const { values, elsewhere } = await store.redact(runId, {
 *   paths: ['/1/input/0/content/0/text'],
 *   by: 'ann',
 * });
 */
export async function redactRun(store: Store, runId: string, options: RedactRunOptions): Promise<Redacted> {
  refuseUnknownOptions('redact', options, NAMES, 'input-invalid');
  const { paths, by, host = systemHost, now = host.now(), isDead = isOwnerDead } = options;
  if (!Array.isArray(paths) || paths.length === 0 || paths.some(path => typeof path !== 'string'))
    throw new EngineError(
      'input-invalid',
      'Expected at least one path to redact, such as /1/input/0/content/0/text.',
    );
  for (;;) {
    const redactions = (await store.get(runId))?.redactions ?? 0;
    const journal = await readFromStart(store, runId, 'Redact');
    const { entries, blobs, state, words, redacted, elsewhere } = planRedaction(journal, paths);
    const event = { type: 'run.redacted', at: now, paths: redacted, ...omitUndefined({ by }) } as const;
    const result = await store.rewrite(runId, {
      after: journal.length,
      redactions,
      entries,
      blobs,
      state: makeImage(state),
      progress: progressOf(state),
      ...wordsFor(words, progressOf(state)),
      now,
      isDead,
      ...omitUndefined({ event: redacted.length > 0 ? event : undefined }),
    });
    if (result.type === 'appended') return { runId, values: redacted.length, elsewhere };
  }
}

type Originals = ReadonlyMap<string, JsonValue>;

/** In characters. Shorter texts occur within too many others by chance. */
const MIN_SEARCH_LENGTH = 4;

/** `entries`: those that change, in their new form. `blobs`: those that no entry names now. Throws as `redactRun` does. */
function planRedaction(journal: WholeJournal, paths: readonly string[]) {
  const places = findPlaces(journal, paths);
  const originals = new Map(places.map(({ value }) => [redactionOf(hashOf(value)), value]));
  const matched: WholeJournal = [journal[0], ...withMatches(journal).slice(1)];
  const redacted = matched.map(entry => redactEntry(entry, places));
  const { state, hashes } = foldAlike(matched, redacted, originals);
  const changed = redacted.map(entry => withHash(entry, hashes.get(entry.seq)));
  const named = new Set(changed.flatMap(({ event }) => blobsOf(event)).map(({ digest }) => digest));
  // Captured requests repeat the transcript, so no redaction leaves any of them.
  const blobs = journal.flatMap(({ event }) => [...blobsOf(event), ...capturesOf(event)]);
  return {
    entries: changed.filter((entry, index) => entry !== journal[index]),
    blobs: [...new Set(blobs.map(({ digest }) => digest))].filter(digest => !named.has(digest)),
    state,
    words: changed.map(({ event }) => event),
    redacted: places.map(pointerTo),
    elsewhere: findElsewhere(changed, places),
  };
}

function findPlaces(journal: WholeJournal, paths: readonly string[]): RedactedPlace[] {
  const named = paths.map(path => followPointer(journal, path));
  const found = [
    ...named.flatMap(place => [place, ...findDerived(journal, place)]),
    ...findQuotes(journal, named),
  ];
  const byPointer = new Map(found.map(place => [pointerTo(place), place]));
  for (const [pointer, { seq, path, value }] of byPointer) {
    const type = journal[seq - 1]?.event.type;
    if (type !== undefined && !isContent(type, path)) throw redactionError(pointer, describeUse(path));
    const isWithin = [...byPointer.keys()].some(other => pointer.startsWith(`${other}/`));
    if (isWithin || isRedaction(value)) byPointer.delete(pointer);
  }
  return [...byPointer.values()];
}

function describeUse([member]: readonly string[]): string {
  if (member === 'labels') return 'the run is found and opened by its labels. To remove them, delete the run';
  if (member === 'thread') return 'the run is found by its thread. To remove it, delete the thread';
  return 'it determines the course of the run. To remove it, delete the run';
}

/** What is redacted together with a value: the `shown` of an `output`, and the title for a part of the first entry. */
function findDerived(journal: WholeJournal, { seq, path }: RedactedPlace): RedactedPlace[] {
  if (seq === 1) return findPlace(journal, { seq, path: ['title'] });
  return path.at(-1) === 'output' ? findPlace(journal, { seq, path: [...path.slice(0, -1), 'shown'] }) : [];
}

/** Where a later compaction has a value: its call in the ledger, and the texts that quote it. */
function findQuotes(journal: WholeJournal, places: readonly RedactedPlace[]): RedactedPlace[] {
  const calls = places.flatMap(place => {
    const callId = callAt(journal, place);
    const member = place.path.some(key => key === 'output' || key === 'shown') ? 'output' : 'input';
    return callId === undefined ? [] : [`${callId} ${member}`];
  });
  const isQuoted = searchFor(places);
  return journal.flatMap(({ seq, event }) => {
    if (event.type !== 'transcript.compacted') return [];
    const told = event.ledger.deeds.flatMap(({ callId }, index) =>
      (['input', 'output'] as const).flatMap(member => {
        const path = ['ledger', 'deeds', String(index), member];
        return findPlace(journal, { seq, path }).filter(
          ({ value }) => calls.includes(`${callId} ${member}`) || isQuoted(String(value)),
        );
      }),
    );
    return [
      ...told,
      ...findPlace(journal, { seq, path: ['summary'] }).filter(({ value }) => isQuoted(String(value))),
    ];
  });
}

/** The call that the value belongs to: that of the event, or of one of its items or calls. */
function callAt(journal: WholeJournal, { seq, path }: RedactedPlace): string | undefined {
  const ids = path.map((_, depth) => valueAt(journal, seq, [...path.slice(0, depth), 'callId']));
  return ids.findLast(id => typeof id === 'string');
}

function findPlace(
  journal: WholeJournal,
  { seq, path }: Pick<RedactedPlace, 'seq' | 'path'>,
): RedactedPlace[] {
  const value = valueAt(journal, seq, path);
  return value === undefined ? [] : [{ seq, path, value }];
}

function redactEntry(entry: JournalEntry, places: readonly RedactedPlace[]): JournalEntry {
  const own = places.filter(({ seq }) => seq === entry.seq);
  if (own.length === 0) return entry;
  const event = own.reduce(
    (value, place) => replaceAt(value, place.path, redactionOf(hashOf(place.value))),
    toJson(entry.event),
  );
  if (isRunEvent(event)) return { ...entry, event };
  throw redactionError(own.map(pointerTo).join(', '), 'no text can take its place. Name the texts inside it');
}

function withHash(entry: JournalEntry, stateHash: string | undefined): JournalEntry {
  return stateHash === undefined || stateHash === entry.stateHash ? entry : { ...entry, stateHash };
}

/** Folds both journals side by side and checks R2 and R3. Returns the redacted fold and its state hashes by seq. */
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
    const breaksDigests = checkDigests(after, event) !== null && checkDigests(before, entry.event) === null;
    if (index > 0) {
      before = foldEntry(before, entry, started.runId);
      after = foldRedacted(after, { seq, event }, started.runId);
    }
    if (breaksDigests || canonicalJson(toJson(before.value)) !== canonicalJson(toJson(after.value)))
      throw redactionError(`/${seq}`, 'the run would no longer reach the same state');
    if (entry.stateHash !== undefined) hashes.set(seq, hashState(after));
  }
  const [left, right] = [before, after].map(state =>
    canonicalJson(restore(toJson(toStored(state)), originals)),
  );
  if (left !== right) throw redactionError('these values', 'the run would no longer reach the same state');
  if (!hasEnded(before) && canonicalJson(pendingOf(before)) !== canonicalJson(pendingOf(after)))
    throw redactionError('these values', 'a call without a result or a future turn needs them');
  return { state: after, hashes };
}

function foldRedacted(state: ChartState, entry: JournalEntry, runId: string): ChartState {
  try {
    return foldEntry(state, entry, runId);
  } catch {
    throw redactionError(`/${entry.seq}`, 'the entry would no longer be valid in the state before it');
  }
}

function pendingOf({ context: { calls, params, runContext, breakpoints } }: ChartState): JsonValue {
  const open = calls.filter(({ status }) => status !== 'settled');
  return toJson({ calls: open, params, runContext, breakpoints });
}

/** The value with the originals in place of the redactions, also inside texts that were composed with one. */
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

/** Whether a text has one of the values. Short ones only match a full string, or one quoted within JSON. */
function searchFor(places: readonly RedactedPlace[]): (text: string) => boolean {
  const sought = new Set(places.flatMap(({ value }) => [...textsOf(value)].map(([text]) => text)));
  sought.delete('');
  const forms = [...sought].flatMap(text => {
    const quoted = JSON.stringify(text);
    return text.length < MIN_SEARCH_LENGTH ? [quoted] : [quoted, text, quoted.slice(1, -1)];
  });
  return text => sought.has(text) || forms.some(form => text.includes(form));
}

/** Where the journal still has a redacted text. */
function findElsewhere(changed: readonly JournalEntry[], places: readonly RedactedPlace[]): string[] {
  const isFound = searchFor(places);
  return changed.flatMap(({ seq, event }) =>
    [...textsOf(toJson(event))].flatMap(([text, path]) => (isFound(text) ? [pointerTo({ seq, path })] : [])),
  );
}

function redactionError(what: string, why: string): EngineError {
  return new EngineError('refused', `Cannot redact ${what}: ${why}. Nothing was changed.`);
}

/** A value in a journal: `path` has the keys that lead to it from the event of entry `seq`. */
export type RedactedPlace = { seq: number; path: readonly string[]; value: JsonValue };

/** Follows a JSON Pointer (RFC 6901) that begins with the seq of an entry. Throws `input-invalid` if it leads nowhere. */
function followPointer(entries: readonly JournalEntry[], pointer: string): RedactedPlace {
  const keys = pointer.split('/').map(key => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  const [start, seq = '', ...path] = keys;
  const entry = start === '' ? entries.find(found => String(found.seq) === seq) : undefined;
  const value = entry && valueAt(entries, entry.seq, path);
  if (entry !== undefined && value !== undefined) return { seq: entry.seq, path, value };
  throw new EngineError(
    'input-invalid',
    `Nothing found at ${pointer}. Expected a JSON Pointer that begins with the seq of an entry, such as /1/input/0/content/0/text.`,
    { path: pointer },
  );
}

export function pointerTo({ seq, path }: Pick<RedactedPlace, 'seq' | 'path'>): string {
  return ['', String(seq), ...path.map(key => key.replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}

function replaceAt(value: JsonValue, [key, ...rest]: readonly string[], replacement: JsonValue): JsonValue {
  if (key === undefined) return replacement;
  if (Array.isArray(value))
    return value.map((member, index) =>
      String(index) === key ? replaceAt(member, rest, replacement) : member,
    );
  if (!isJsonObject(value)) return value;
  return { ...value, [key]: replaceAt(value[key] ?? null, rest, replacement) };
}

/** Every string in a value, with its path of keys. */
export function* textsOf(
  value: JsonValue,
  path: readonly string[] = [],
): Generator<[string, readonly string[]]> {
  if (typeof value === 'string') yield [value, path];
  else if (typeof value === 'object' && value !== null)
    for (const [key, member] of Object.entries(value)) yield* textsOf(member, [...path, key]);
}

function valueAt(
  entries: readonly JournalEntry[],
  seq: number,
  path: readonly string[],
): JsonValue | undefined {
  const entry = entries.find(found => found.seq === seq);
  return path.reduce<JsonValue | undefined>(memberOf, entry && toJson(entry.event));
}

function memberOf(value: JsonValue | undefined, key: string): JsonValue | undefined {
  if (Array.isArray(value) && !/^(?:0|[1-9]\d*)$/.test(key)) return undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}
