/** The run that keeps the notes of a label: each change is a note in its journal. */
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { systemHost } from '../../engine/host/host.ts';
import { FoldCache } from '../../engine/journal/fold-cache.ts';
import { standingOf } from '../../engine/journal/load-run.ts';
import { initial, next } from '../../machines/step.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { invalidInput } from '../../protocol/error.ts';
import type { ChartEvent, JournalEntry, RunEvent } from '../../protocol/event.ts';
import { omitUndefined, toJson } from '../../protocol/json.ts';
import { type Labels, readLabels } from '../../protocol/listing/label.ts';
import { NOTES_ID, type Notes } from '../../protocol/notes.ts';
import { oncePer } from '../../protocol/once-per.ts';
import { type CopySource, progressSchema, type RunRecord, type Store } from '../../protocol/store.ts';
import { utf8Length } from '../../text/cut-text.ts';
import { applyChange, changeSchema, type Files } from './commands.ts';

/** The name of the agent of the runs that keep notes, and who noted the entries in them. */
const NOTES = 'notes';

/** The latest calls that are recognized when they come again. */
const MOST_KEYS = 1_000;

/** The journals whose notes a process keeps for each store, in characters. */
const MOST_CHARS = 8_388_608;

/**
 * Reads what models have noted under a label with `notes()`, such as `{ user: '7' }`; `undefined` if nothing was noted since
 * its notes were deleted. Throws `input-invalid` unless there is one label, and `EngineError`s of the store.
 */
export async function readNotes(store: Store, label: Labels): Promise<Notes | undefined> {
  if (Object.keys(readLabels(label)).length !== 1)
    throw invalidInput('Notes are kept by one label. Expected one, such as user=7.');
  const found = await readFolder(store, label);
  if (found === undefined) return undefined;
  const { record, fold } = found;
  const files = [...fold.files].map(([path, text]) => ({ path, bytes: utf8Length(text), text }));
  files.sort((one, other) => (one.path < other.path ? -1 : 1));
  return { runId: record.runId, changedAt: record.updatedAt, files };
}

/** The notes of a folder, and the results of the latest calls that changed them, by their keys. */
type Folder = { files: Files; results: ReadonlyMap<string, string> };

export const EMPTY: Folder = { files: new Map(), results: new Map() };

/** The text of a change is beside it in the entry, where it can be redacted. */
const noteSchema = z.object({
  key: z.string(),
  result: z.string(),
  change: changeSchema,
});

const foldersOf = oncePer((_store: Store) => new FoldCache<Folder>(MOST_CHARS));

/** The notes of a label, and the record of the run that keeps them as it was when they were read. */
export async function readFolder(store: Store, label: Labels) {
  return await foldersOf(store).load(store, idOf(label), foldNotes);
}

function idOf(label: Labels): string {
  return `${NOTES_ID}${digestOf(toJson(label))}`;
}

function foldNotes(before: Folder = EMPTY, page: readonly JournalEntry[]): Folder {
  const files = new Map(before.files);
  const results = new Map(before.results);
  for (const { event } of page) {
    if (event.type !== 'run.noted' || event.by !== NOTES) continue;
    const { success, data } = noteSchema.safeParse(event.note);
    if (!success) continue;
    applyChange(files, data.change, event.text ?? '');
    results.set(data.key, data.result);
  }
  for (const oldest of [...results.keys()].slice(0, -MOST_KEYS)) results.delete(oldest);
  return { files, results };
}

/**
 * The run that keeps the notes: it begins and ends in one commit. Rejects as changed if `caller` was deleted or redacted
 * meanwhile.
 */
export async function createFolder(store: Store, labels: Labels, caller: CopySource): Promise<void> {
  const agent = createAgent({ name: NOTES, model: scripted([]), store });
  const title = Object.entries(labels).map(([name, value]) => `Notes of ${name} ${value}`)[0] ?? NOTES;
  const started = agent.input([], {
    runId: idOf(labels),
    paused: true,
    labels,
    title: title.slice(0, 200).toWellFormed(),
  });
  const reason = 'The run keeps notes. It is not driven.';
  const cancelled: ChartEvent = { type: 'run.cancelled', at: started.at, by: NOTES, reason, unsettled: [] };
  const { state } = next(initial(started).state, cancelled);
  await store.create(started, undefined, {
    events: [cancelled],
    source: caller,
    ...standingOf(state),
  });
}

/** Appends a change. Returns false if the folder has changed meanwhile. Its run counts as ended now, for pruning by age. */
export async function appendChange(
  store: Store,
  { seq: after, redactions, status, ...record }: RunRecord,
  note: z.input<typeof noteSchema>,
  text: string | undefined,
): Promise<boolean> {
  const at = systemHost.now();
  const progress = { ...progressSchema.parse(record), endedAt: at };
  const event: RunEvent = {
    type: 'run.noted',
    at,
    by: NOTES,
    note: toJson(note),
    ...omitUndefined({ text }),
  };
  const guard = { after, redactions, input: true } as const;
  return (await store.append(record.runId, guard, [event], { status, progress })).type === 'appended';
}
