/**
 * `notes()`: a tool named `memory`, with which a model keeps notes from one run to the next. `commands.ts` has its commands,
 * and `folder.ts` the run that keeps the notes.
 */
import { EngineError, type EngineErrorCode, isThrown } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { type Labels, readLabels } from '../../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { CopySource, Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import { tool } from '../tool.ts';
import { carryOut, commandSchema, type MemoryCommand, ROOT } from './commands.ts';
import { appendChange, createFolder, EMPTY, readFolder } from './folder.ts';

export type { Note, Notes } from '../../protocol/notes.ts';
export { readNotes } from './folder.ts';

export type NotesOptions = {
  /** The name of the label whose value says whose notes they are, such as `user`. */
  by: string;
};

const NAMES = optionNames<NotesOptions>()('by');

/** After these the folder is read again: another process has begun or deleted it, or the change may be committed. */
const PASSING: readonly EngineErrorCode[] = ['run-exists', 'run-unknown', 'store-reply-lost'];
const MOST_FAILURES = 3;

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
 * one folder, for all agents. A call of a run without that label fails.
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
    readLabels({ [by]: 'x' });
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
      const { labels = {}, redactions = 0 } = (await store.get(runId)) ?? {};
      const value = Object.hasOwn(labels, by) ? labels[by] : undefined;
      if (value === undefined)
        throw new Error(
          `This run has no label "${by}", so it has no notes. Start it with labels: { ${by}: … }.`,
        );
      return await carryOutIn(store, { [by]: value }, { command, key, caller: { runId, redactions } });
    },
  });
}

/** `caller`: the run as the call found it. */
type Call = { command: MemoryCommand; key: string; caller: CopySource };

/**
 * Carries out a command in the folder of a label.
 *
 * N1 A change is appended only after the entries that its command was carried out on; else it is carried out again. Of two
 *    changes at once, both are kept.
 * N2 A change has the key of its call in the same entry: a call that comes again has the same result, without a snippet, and
 *    changes nothing.
 * N3 A folder begins only while the calling run is there: notes do not come back after all runs of the label were deleted.
 */
async function carryOutIn(store: Store, label: Labels, { command, key, caller }: Call): Promise<string> {
  for (let failures = 0; ; ) {
    const found = await readFolder(store, label);
    const { files, results } = found?.fold ?? EMPTY;
    const before = results.get(key);
    if (before !== undefined) return before;
    const { result, shown = '', change, text } = carryOut(files, command);
    if (change === undefined) return result;
    try {
      if (found === undefined) await createFolder(store, label, caller);
      else if (await appendChange(store, found.record, { key, result, change }, text)) return result + shown;
    } catch (error) {
      failures += 1;
      if (!isThrown(error, EngineError) || !PASSING.includes(error.code) || failures > MOST_FAILURES)
        throw error;
    }
  }
}
