import * as z from 'zod';

type TreeEntry = { name: string; type: 'file' | 'directory'; children?: TreeEntry[] | undefined };

const entrySchema: z.ZodType<TreeEntry> = z.object({
  name: z.string(),
  type: z.enum(['file', 'directory']),
  children: z.lazy(() => z.array(entrySchema)).optional(),
});

/** Whether the path has a Markdown extension. */
export function isMarkdown(path: string): boolean {
  return /\.(?:md|markdown)$/i.test(path);
}

/** Returns all paths in a result of `directory_tree`, including folders; null if it cannot be parsed. */
export function readTree(text: string): string[] | null {
  try {
    const entries = z.array(entrySchema).safeParse(JSON.parse(text));
    return entries.success ? entries.data.flatMap(entry => walk(entry, '')) : null;
  } catch {
    return null;
  }
}

/** Returns the paths in a result of `list_directory` for `folder`: lines such as `[FILE] a.md`. */
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
