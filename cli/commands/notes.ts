import { systemHost } from '../../engine/host/host.ts';
import { invalidInput } from '../../protocol/error.ts';
import type { Note } from '../../protocol/notes.ts';
import { formatSize } from '../../tools/notes/commands.ts';
import { readNotes } from '../../tools/notes/folder.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { formatDistance, plural } from '../render/format.ts';
import { dim, type Output } from '../render/output.ts';
import { withExistingStore } from '../store.ts';

/** Lists what models have noted under a label, or prints one note. */
export const showNotes: Action<'notes'> = ({ label, path, ...options }) =>
  withExistingStore(options, async ({ store, output, commands }) => {
    const found = await readNotes(store, label);
    const of = Object.entries(label)[0]?.join('=') ?? '';
    const { files = [], changedAt = 0, runId = '' } = found ?? {};
    if (path !== undefined) {
      const file = files.find(one => one.path === path);
      if (file === undefined)
        throw invalidInput(`There is no note ${path} of ${of}. Leave --path out to list the notes.`);
      print(file, output);
      return EXIT.done;
    }
    if (output.json) for (const file of files) output.data(file);
    else showList(files, output);
    if (found === undefined) output.line(`There are no notes of ${of}.`);
    else {
      const changed = formatDistance(changedAt, systemHost.now());
      output.line(dim(`${plural(files.length, 'note')} of ${of}, changed ${changed}.`));
      output.line(dim(`To delete them, with their history: ${commands.of('delete', runId)}`));
    }
    return EXIT.done;
  });

function print(file: Note, output: Output): void {
  if (output.json) return output.data(file);
  output.stream(file.text);
  output.endLine();
}

function showList(files: readonly Note[], output: Output): void {
  const sizes = files.map(({ bytes }) => formatSize(bytes));
  const width = Math.max(...sizes.map(size => size.length));
  for (const [at, { path }] of files.entries())
    output.line(dim((sizes[at] ?? '').padStart(width)), '  ', path);
}
