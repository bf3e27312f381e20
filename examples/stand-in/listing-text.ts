import * as z from 'zod';

type TreeEntry = { name: string; type: 'file' | 'directory'; children?: TreeEntry[] | undefined };

const entrySchema: z.ZodType<TreeEntry> = z.object({
  name: z.string(),
  type: z.enum(['file', 'directory']),
  children: z.lazy(() => z.array(entrySchema)).optional(),
});

export function isMarkdown(path: string): boolean {
  return /\.(?:md|markdown)$/i.test(path);
}

/** The paths in what `directory_tree` gives, folders among them; null when it is something else. */
export function readTree(text: string): string[] | null {
  try {
    const entries = z.array(entrySchema).safeParse(JSON.parse(text));
    return entries.success ? entries.data.flatMap(entry => walk(entry, '')) : null;
  } catch {
    return null;
  }
}

/** The paths in what `list_directory` gives for `folder`: lines such as `[FILE] a.md`. */
export function readFolderList(text: string, folder: string): { files: string[]; folders: string[] } {
  const prefix = folder === '' ? '' : `${folder}/`;
  const named = (mark: string) =>
    text
      .split(/\r?\n/)
      .filter(line => line.startsWith(mark))
      .map(line => prefix + line.slice(mark.length));
  return { files: named('[FILE] '), folders: named('[DIR] ') };
}

function walk(entry: TreeEntry, prefix: string): string[] {
  const path = prefix + entry.name;
  return [path, ...(entry.children ?? []).flatMap(child => walk(child, `${path}/`))];
}
