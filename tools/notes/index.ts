/** `notes()`: a tool named `memory`, with which a model keeps notes from one run to the next. `commands.ts` has its commands. */
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { systemHost } from '../../engine/host/host.ts';
import { FoldCache } from '../../engine/journal/fold-cache.ts';
import { standingOf } from '../../engine/journal/load-run.ts';
import { initial, next } from '../../machines/step.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { EngineError, type EngineErrorCode, isThrown } from '../../protocol/error.ts';
import type { ChartEvent, JournalEntry, RunEvent } from '../../protocol/event.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import { type Labels, readGivenLabels } from '../../protocol/listing/label.ts';
import { oncePer } from '../../protocol/once-per.ts';
import { optionNames, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { progressSchema, type RunRecord, type Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import { tool } from '../tool.ts';
import { applyChange, carryOut, changeSchema, commandSchema, type MemoryCommand, ROOT } from './commands.ts';

export type NotesOptions = {
  /** The name of the label whose value says whose notes they are, such as `user`. */
  by: string;
};

const NAMES = optionNames<NotesOptions>()('by');

/** The name of the agent of the runs that keep notes, and who noted the entries in them. */
const NOTES = 'notes';

/** After these the folder is read again: another process has begun or deleted it, or the change may be committed. */
const PASSING: readonly EngineErrorCode[] = ['run-exists', 'run-unknown', 'store-reply-lost'];
const MOST_FAILURES = 3;

/** The latest calls that are recognized when they come again. */
const MOST_KEYS = 1_000;

/** The journals whose notes a process keeps for each store, in characters. */
const MOST_CHARS = 8_388_608;

const INPUT: JsonObject = {
  type: 'object',
  properties: {
    command: { type: 'string', enum: ['view', 'create', 'str_replace', 'insert', 'delete', 'rename'] },
    path: {
      type: 'string',
      description: `A file or folder: ${ROOT}, or below it. For all commands but rename.`,
    },
    view_range: {
      type: 'array',
      items: { type: 'integer' },
      minItems: 2,
      maxItems: 2,
      description: 'For view: the first and the last line; -1 is the last of the file. Default: all.',
    },
    file_text: { type: 'string', description: 'For create: the text of the new file.' },
    old_str: {
      type: 'string',
      description: 'For str_replace: the text to replace, which is in the file once.',
    },
    new_str: { type: 'string', description: 'For str_replace: the text in its place.' },
    insert_line: { type: 'integer', description: 'For insert: the line after which; 0 is the beginning.' },
    insert_text: { type: 'string', description: 'For insert.' },
    old_path: { type: 'string', description: 'For rename.' },
    new_path: { type: 'string', description: 'For rename.' },
  },
  required: ['command'],
  additionalProperties: false,
};

const DESCRIPTION = `Keeps notes in the folder ${ROOT}, from one conversation to the next. View ${ROOT} before you begin. Note what will help later, keep the notes in order, and delete what is no longer true.`;

/**
 * Creates the tool `memory`, with the commands of Anthropic's memory tool. Runs with the same value of the label `by` share
 * one folder, whatever their agent. A call of a run without that label fails.
 *
 * The folder is a run of its own in the store of the calling run, cancelled when it begins, with that one label: it is
 * exported, redacted and deleted as any run with it. What the model deletes stays in its journal until then. Limits: 200 files,
 * of 64 KiB each and 1 MiB together. The tool has the tag `untrusted`: what a note says may come from outside.
 * Throws an `EngineError` `agent-invalid` for an invalid option.
 *
 * @example
 * const agent = createAgent({ name: 'desk', model, tools: [notes({ by: 'user' })] });
 * await agent.run('I prefer tea.', { labels: { user: '7' } });
 */
export function notes(options: NotesOptions): Tool<'memory', JsonObject, string> {
  refuseUnknownOptions('notes', options, NAMES);
  const { by } = options;
  try {
    readGivenLabels({ [by]: 'x' });
  } catch (error) {
    throw new EngineError(
      'agent-invalid',
      `notes: \`by\` is not the name of a label. ${error instanceof Error ? error.message : ''}`,
    );
  }
  return tool({
    name: 'memory',
    description: DESCRIPTION,
    input: commandSchema,
    inputSchema: INPUT,
    sideEffect: 'idempotent',
    tags: ['untrusted'],
    run: async (command, { store, runId, key }) => {
      if (store === undefined) throw new Error('Notes need a run in a store, and this run has none.');
      const { labels = {} } = (await store.get(runId)) ?? {};
      const value = Object.hasOwn(labels, by) ? labels[by] : undefined;
      if (value === undefined)
        throw new Error(
          `This run has no label "${by}", so it has no notes. Start it with labels: { ${by}: … }.`,
        );
      return await carryOutIn(store, { [by]: value }, command, key);
    },
  });
}

/** The notes of a folder, and the results of the latest calls that changed them, by their keys. */
type Folder = { files: ReadonlyMap<string, string>; results: ReadonlyMap<string, string> };

const EMPTY: Folder = { files: new Map(), results: new Map() };

/** The text of a change is beside it in the entry, where it can be redacted. */
const noteSchema = z.object({
  key: z.string(),
  result: z.string(),
  change: changeSchema,
});

const foldersOf = oncePer((_store: Store) => new FoldCache<Folder>(MOST_CHARS));

/**
 * Carries out a command in the folder of a label.
 *
 * N1 A change is appended only after the entries that its command was carried out on; else it is carried out again. Of two
 *    changes at once, both are kept.
 * N2 A change has the key of its call in the same entry: a call that comes again has the same result, without a snippet, and
 *    changes nothing.
 */
async function carryOutIn(store: Store, label: Labels, command: MemoryCommand, key: string): Promise<string> {
  const runId = `${NOTES}_${digestOf(toJson(label))}`;
  for (let failures = 0; ; ) {
    const found = await foldersOf(store).load(store, runId, foldNotes);
    const { files, results } = found?.fold ?? EMPTY;
    const before = results.get(key);
    if (before !== undefined) return before;
    const { result, shown = '', change, text } = carryOut(files, command);
    if (change === undefined) return result;
    try {
      if (found === undefined) await createFolder(store, runId, label);
      else if (await append(store, found.record, { key, result, change }, text)) return result + shown;
    } catch (error) {
      failures += 1;
      if (!isThrown(error, EngineError) || !PASSING.includes(error.code) || failures > MOST_FAILURES)
        throw error;
    }
  }
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

/** The run that keeps the notes: it begins and ends in one commit. */
async function createFolder(store: Store, runId: string, labels: Labels): Promise<void> {
  const agent = createAgent({ name: NOTES, model: scripted([]), store });
  const title = Object.entries(labels).map(([name, value]) => `Notes of ${name} ${value}`)[0] ?? NOTES;
  const started = agent.input([], { runId, paused: true, labels, title: title.slice(0, 200).toWellFormed() });
  const reason = 'The run keeps notes. It is not driven.';
  const cancelled: ChartEvent = { type: 'run.cancelled', at: started.at, by: NOTES, reason, unsettled: [] };
  const { state } = next(initial(started).state, cancelled);
  await store.create(started, undefined, { events: [cancelled], ...standingOf(state) });
}

/** Appends a change. Returns false if the folder has changed meanwhile. Its run counts as ended now, for pruning by age. */
async function append(
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
