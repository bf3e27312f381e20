import * as z from 'zod';
import { utf8Length } from '../../text/cut-text.ts';

/**
 * The commands of Anthropic's memory tool (`memory_20250818`) on a folder of texts, with the results and errors of its
 * reference implementation in `@anthropic-ai/sdk` (tools/memory/node). Folders exist only as parts of paths.
 */

export const ROOT = '/memories';

const LONGEST_PATH = 200;
const LONGEST_FILE_BYTES = 65_536;
const MOST_FILES = 200;
const MOST_BYTES = 1_048_576;

/** What errors quote of a text, in characters, and the lines that they name. */
const LONGEST_QUOTE = 200;
const MOST_LINES_NAMED = 20;

/** The lines of a snippet before and after the change. */
const AROUND = 2;

const SEGMENT = /^(?!\.)[^\p{C}\\]+$/u;

const path = z
  .string()
  .max(LONGEST_PATH)
  .transform(given => (given.endsWith('/') ? given.slice(0, -1) : given))
  .refine(given => {
    const [before, root, ...segments] = given.split('/');
    return before === '' && `/${root}` === ROOT && segments.every(segment => SEGMENT.test(segment));
  }, `expected a path such as ${ROOT}/preferences.md, without names that begin with a dot`);

export const commandSchema = z.discriminatedUnion('command', [
  z.strictObject({
    command: z.literal('view'),
    path,
    view_range: z.exactOptional(z.tuple([z.int(), z.int()])),
  }),
  z.strictObject({ command: z.literal('create'), path, file_text: z.string() }),
  z.strictObject({
    command: z.literal('str_replace'),
    path,
    old_str: z.string().min(1),
    new_str: z.string(),
  }),
  z.strictObject({ command: z.literal('insert'), path, insert_line: z.int(), insert_text: z.string() }),
  z.strictObject({ command: z.literal('delete'), path }),
  z.strictObject({ command: z.literal('rename'), old_path: path, new_path: path }),
]);

export type MemoryCommand = z.infer<typeof commandSchema>;
type CommandNamed<Name> = Extract<MemoryCommand, { command: Name }>;

/** Texts by their path. */
export type Files = ReadonlyMap<string, string>;

export const changeSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('write'), path: z.string() }),
  z.object({ type: z.literal('delete'), path: z.string() }),
  z.object({ type: z.literal('rename'), from: z.string(), to: z.string() }),
]);

/** What a command changes. A new text of a file is beside it. Deleting and renaming a folder changes all that is below it. */
type Change = z.infer<typeof changeSchema>;

/** The result of a command, and what the model reads after it once; what changes, and a new text of the file. */
type Outcome = { result: string; shown?: string; change?: Change; text?: string };

/** Throws with words for the model. */
export function carryOut(files: Files, command: MemoryCommand): Outcome {
  switch (command.command) {
    case 'view':
      return view(files, command);
    case 'create':
      return create(files, command);
    case 'str_replace':
      return replace(files, command);
    case 'insert':
      return insert(files, command);
    case 'delete':
      return remove(files, command);
    case 'rename':
      return rename(files, command);
  }
}

export function applyChange(files: Map<string, string>, change: Change, text: string): void {
  switch (change.type) {
    case 'write':
      files.set(change.path, text);
      break;
    case 'delete':
      for (const file of listBelow(files, change.path)) files.delete(file);
      break;
    case 'rename':
      for (const file of listBelow(files, change.from)) {
        files.set(change.to + file.slice(change.from.length), files.get(file) ?? '');
        files.delete(file);
      }
      break;
  }
}

function view(
  files: Files,
  { path: given, view_range: [first, last] = [1, -1] }: CommandNamed<'view'>,
): Outcome {
  const text = files.get(given);
  if (text !== undefined)
    return {
      result: `Here's the content of ${given} with line numbers:\n${number(text, Math.max(first, 1), last)}`,
    };
  const below = listBelow(files, given);
  if (below.length === 0 && given !== ROOT) throw missing(given);
  const sizes = new Map([[given, 0]]);
  for (const file of below) {
    const size = utf8Length(files.get(file) ?? '');
    const [first = '', second, ...deeper] = file.slice(given.length + 1).split('/');
    sizes.set(given, (sizes.get(given) ?? 0) + size);
    const add = (name: string) => sizes.set(`${given}/${name}`, (sizes.get(`${given}/${name}`) ?? 0) + size);
    add(second === undefined ? first : `${first}/`);
    if (second !== undefined) add(`${first}/${second}${deeper.length > 0 ? '/' : ''}`);
  }
  const lines = [...sizes].map(([name, size]) => `${formatSize(size)}\t${name}`);
  const result = `Here're the files and directories up to 2 levels deep in ${given}, excluding hidden items and node_modules:`;
  return { result: `${result}\n${lines.join('\n')}` };
}

function create(files: Files, { path: given, file_text: text }: CommandNamed<'create'>) {
  assertFree(files, given, `File ${given} already exists`);
  return write(files, given, text, `File created successfully at: ${given}`);
}

function replace(files: Files, { path: given, old_str, new_str }: CommandNamed<'str_replace'>) {
  const text = read(files, given);
  const at = text.indexOf(old_str);
  const quoted = old_str.length > LONGEST_QUOTE ? `${old_str.slice(0, LONGEST_QUOTE)}…` : old_str;
  if (at === -1)
    throw new Error(
      `No replacement was performed, old_str \`${quoted}\` did not appear verbatim in ${given}.`,
    );
  const found = [at];
  for (
    let next = text.indexOf(old_str, at + 1);
    next !== -1 && found.length < MOST_LINES_NAMED;
    next = text.indexOf(old_str, next + 1)
  )
    found.push(next);
  const lineOf = (index: number) => text.slice(0, index).split('\n').length;
  if (found.length > 1)
    throw new Error(
      `No replacement was performed. Multiple occurrences of old_str \`${quoted}\` in lines: ${found.map(lineOf).join(', ')}. Please ensure it is unique`,
    );
  const changed = text.slice(0, at) + new_str + text.slice(at + old_str.length);
  const line = lineOf(at);
  const first = Math.max(line - AROUND, 1);
  const last = line + new_str.split('\n').length - 1 + AROUND;
  const shown = ` Here is the snippet showing the change (with line numbers):\n${number(changed, first, last)}`;
  return { ...write(files, given, changed, 'The memory file has been edited.'), shown };
}

function insert(files: Files, { path: given, insert_line, insert_text }: CommandNamed<'insert'>) {
  const lines = read(files, given).split('\n');
  if (insert_line < 0 || insert_line > lines.length)
    throw new Error(
      `Invalid \`insert_line\` parameter: ${insert_line}. It should be within the range of lines of the file: [0, ${lines.length}]`,
    );
  const changed = lines.toSpliced(insert_line, 0, insert_text.replace(/\n$/, '')).join('\n');
  return write(files, given, changed, `The file ${given} has been edited.`);
}

function remove(files: Files, { path: given }: CommandNamed<'delete'>): Outcome {
  if (given === ROOT) throw new Error(`Cannot delete the ${ROOT} directory itself`);
  if (listBelow(files, given).length === 0) throw new Error(`The path ${given} does not exist`);
  return { result: `Successfully deleted ${given}`, change: { type: 'delete', path: given } };
}

function rename(files: Files, { old_path: from, new_path: to }: CommandNamed<'rename'>): Outcome {
  if (from === ROOT) throw new Error(`Cannot rename the ${ROOT} directory itself`);
  const moved = listBelow(files, from);
  if (moved.length === 0) throw new Error(`The path ${from} does not exist`);
  assertFree(files, to, `The destination ${to} already exists`);
  if (to.startsWith(`${from}/`)) throw new Error(`Cannot rename ${from} to a path below itself`);
  if (moved.some(file => file.length - from.length + to.length > LONGEST_PATH))
    throw new Error(`A path may have at most ${LONGEST_PATH} characters. Nothing was renamed.`);
  return {
    result: `Successfully renamed ${from} to ${to}`,
    change: { type: 'rename', from, to },
  };
}

function write(files: Files, given: string, text: string, result: string): Outcome {
  const size = utf8Length(text);
  if (size > LONGEST_FILE_BYTES)
    throw new Error(
      `A file may have at most ${LONGEST_FILE_BYTES} bytes; this one would have ${size}. Nothing was written.`,
    );
  const others = [...files].filter(([file]) => file !== given);
  if (others.length >= MOST_FILES)
    throw new Error(`There are ${MOST_FILES} files, the maximum. Delete some first.`);
  const total = others.reduce((sum, [, other]) => sum + utf8Length(other), size);
  if (total > MOST_BYTES)
    throw new Error(
      `All files together may have at most ${MOST_BYTES} bytes; they would have ${total}. Delete some first.`,
    );
  return { result, change: { type: 'write', path: given }, text };
}

function read(files: Files, given: string): string {
  const text = files.get(given);
  if (text !== undefined) return text;
  throw given === ROOT || listBelow(files, given).length > 0
    ? new Error(`The path ${given} is not a file.`)
    : missing(given);
}

/** Throws if something is at the path, or a file is where it needs a folder. */
function assertFree(files: Files, given: string, taken: string): void {
  if (given === ROOT || listBelow(files, given).length > 0) throw new Error(taken);
  for (const file of files.keys())
    if (given.startsWith(`${file}/`)) throw new Error(`${file} is a file, not a directory.`);
}

/** The file of this path, or all files of this folder, sorted. */
function listBelow(files: Files, given: string): string[] {
  return [...files.keys()].filter(file => file === given || file.startsWith(`${given}/`)).toSorted();
}

function missing(given: string): Error {
  return new Error(`The path ${given} does not exist. Please provide a valid path.`);
}

/** `last` -1 is the last line. */
function number(text: string, first: number, last: number): string {
  const lines = text.split('\n');
  return lines
    .slice(first - 1, last === -1 ? lines.length : Math.max(last, 0))
    .map((line, at) => `${String(first + at).padStart(6)}\t${line}`)
    .join('\n');
}

/** A size as in `ls -h`: `14B`, `2.5K`. */
export function formatSize(bytes: number): string {
  const [size, unit] = bytes < 1024 ? [bytes, 'B'] : [bytes / 1024, 'K'];
  return `${Number.isInteger(size) ? size : size.toFixed(1)}${unit}`;
}
