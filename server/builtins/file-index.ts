import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { constants, type Dirent } from 'node:fs';
import { open, readdir, realpath } from 'node:fs/promises';
import { basename, extname, join, relative, sep } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import * as z from 'zod';
import { messageOf } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import { loadSqlite } from '../../stores/sqlite/open-database.ts';
import { tool } from '../../tools/tool.ts';
import { invalid } from '../openai-error.ts';
import type { FileFilter, FileSearchTool } from './builtin-schemas.ts';

/** Filters can compare these fields. Times are in seconds since the epoch. */
export type FileAttributes = {
  filename: string;
  path: string;
  extension: string;
  bytes: number;
  modified_at: number;
};

/** `score` is relative to the best match, which has 1. */
export type FileMatch = { file_id: string; attributes: FileAttributes; score: number; text: string };

type IndexedFile = { id: string; attributes: FileAttributes; version: string; from: number; to: number };
type FoundFile = { id: string; folder: string; file: string };

const MOST_FILES = 10_000;
const MOST_FILE_BYTES = 1024 * 1024;
const MOST_BYTES = 100 * 1024 * 1024;
const DEEPEST_FOLDER = 32;
const MOST_TERMS = 64;
const MOST_MATCHES = 1_000;

/**
 * A full-text index of the text files in some folders, in memory.
 *
 * I1 It is built by the first search. Each search first reads the files that changed, by size and time, and drops those
 *    that are gone.
 * I2 Symbolic links are not followed, except the configured folders themselves. Files and folders whose names begin
 *    with a dot, and `node_modules`, are not read.
 * I3 A file that is too large or not UTF-8 is left out. Beyond the limits of the index, further files are left out, and
 *    the log says so.
 */
export class FileIndex {
  readonly #folders: readonly string[];
  readonly #log: (line: string) => void;
  readonly #files = new Map<string, IndexedFile>();
  #database: DatabaseSync | undefined;
  #updating: Promise<void> | undefined;
  #nextRow = 1;
  #bytes = 0;
  #isFull = false;

  constructor(folders: readonly string[], log: (line: string) => void) {
    this.#folders = folders;
    this.#log = log;
  }

  async search(
    query: string,
    options: { most: number; threshold: number; accepts: (attributes: FileAttributes) => boolean },
  ): Promise<FileMatch[]> {
    await this.#update();
    const terms = termsOf(query);
    if (terms === '') return [];
    const rows = this.#open()
      .prepare(
        'SELECT text, file, bm25(parts, 1.0, 1.0) AS rank FROM parts WHERE parts MATCH ? ORDER BY rank LIMIT ?',
      )
      .all(terms, MOST_MATCHES) as { text: string; file: string; rank: number }[];
    const best = rows[0]?.rank ?? 0;
    const matches: FileMatch[] = [];
    for (const { text, file, rank } of rows) {
      const score = best === 0 ? 1 : Math.round((rank / best) * 10_000) / 10_000;
      const known = this.#files.get(file);
      if (matches.length >= options.most || score < options.threshold) break;
      if (known === undefined || !options.accepts(known.attributes)) continue;
      matches.push({ file_id: known.id, attributes: known.attributes, score, text });
    }
    return matches;
  }

  close(): void {
    this.#database?.close();
    this.#database = undefined;
    this.#files.clear();
    this.#bytes = 0;
  }

  #open(): DatabaseSync {
    if (this.#database !== undefined) return this.#database;
    const { DatabaseSync } = loadSqlite();
    const database = new DatabaseSync(':memory:');
    database.exec(
      "CREATE VIRTUAL TABLE parts USING fts5(text, name, file UNINDEXED, tokenize='unicode61 remove_diacritics 2')",
    );
    this.#database = database;
    return database;
  }

  async #update(): Promise<void> {
    this.#updating ??= this.#readFolders().finally(() => {
      this.#updating = undefined;
    });
    await this.#updating;
  }

  async #readFolders(): Promise<void> {
    const seen = new Set<string>();
    this.#isFull = false;
    for (const folder of this.#folders) {
      try {
        const root = await realpath(folder);
        for await (const file of filesIn(root)) {
          const id = `file-${createHash('sha256').update(file).digest('hex').slice(0, 24)}`;
          if (seen.size >= MOST_FILES) this.#isFull = true;
          else if (await this.#readFile({ id, folder: root, file })) seen.add(id);
        }
      } catch (error) {
        this.#log(`File search cannot read a folder: ${messageOf(error)}`);
      }
    }
    for (const id of [...this.#files.keys()]) if (!seen.has(id)) this.#remove(id);
    if (this.#isFull)
      this.#log('File search leaves out files, because its folders are larger than its index.');
  }

  async #readFile({ id, folder, file }: FoundFile): Promise<boolean> {
    const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => undefined);
    if (handle === undefined) return false;
    try {
      const { size, mtimeMs } = await handle.stat();
      const version = `${size} ${mtimeMs}`;
      if (this.#files.get(id)?.version === version) return true;
      this.#remove(id);
      if (size > MOST_FILE_BYTES) return false;
      if (this.#bytes + size > MOST_BYTES) {
        this.#isFull = true;
        return false;
      }
      const text = decode(await handle.readFile());
      if (text === undefined) return false;
      const path = relative(folder, file).replaceAll(sep, '/');
      const attributes = {
        filename: basename(file),
        path,
        extension: extname(file).slice(1).toLowerCase(),
        bytes: size,
        modified_at: Math.floor(mtimeMs / 1000),
      };
      this.#add({ id, attributes, version, from: this.#nextRow, to: this.#nextRow }, text);
      return true;
    } catch {
      return false;
    } finally {
      await handle.close();
    }
  }

  #add(file: IndexedFile, text: string): void {
    const insert = this.#open().prepare('INSERT INTO parts (rowid, text, name, file) VALUES (?, ?, ?, ?)');
    for (const part of cutChunks(text)) insert.run(this.#nextRow++, part, file.attributes.path, file.id);
    this.#files.set(file.id, { ...file, to: this.#nextRow });
    this.#bytes += file.attributes.bytes;
  }

  #remove(id: string): void {
    const file = this.#files.get(id);
    if (file === undefined) return;
    this.#files.delete(id);
    this.#bytes -= file.attributes.bytes;
    this.#open().prepare('DELETE FROM parts WHERE rowid >= ? AND rowid < ?').run(file.from, file.to);
  }
}

async function* filesIn(folder: string, depth = 0): AsyncGenerator<string, void> {
  const entries: Dirent[] = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith('.') || entry.name === 'node_modules') continue;
    const path = join(folder, entry.name);
    if (entry.isFile()) yield path;
    else if (entry.isDirectory() && depth < DEEPEST_FOLDER) yield* filesIn(path, depth + 1);
  }
}

function decode(bytes: Buffer): string | undefined {
  return bytes.includes(0) || !isUtf8(bytes) ? undefined : new TextDecoder().decode(bytes);
}

/** Each quoted, so that nothing in a query is an operator of FTS5. */
function termsOf(query: string): string {
  const words = query.match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  const quoted = words.slice(0, MOST_TERMS).map(word => `"${word}"`);
  return quoted.join(' OR ');
}

const LONGEST_PART = 1_600;

/** Into parts of at most 1,600 characters, at the end of a paragraph, line or word where there is one. */
function* cutChunks(text: string): Generator<string, void> {
  let from = 0;
  while (from < text.length) {
    const piece = text.slice(from, from + LONGEST_PART);
    const to = from + (from + LONGEST_PART >= text.length ? piece.length : lengthOf(piece));
    const part = text.slice(from, to).trim();
    if (part !== '') yield part;
    from = to;
  }
}

function lengthOf(piece: string): number {
  for (const mark of ['\n\n', '\n', ' ']) {
    const at = piece.lastIndexOf(mark);
    if (at >= LONGEST_PART / 2) return at + mark.length;
  }
  return LONGEST_PART;
}

const MOST_RESULTS = 10;

/** Its output is `{ results: [{ file_id, filename, score, text, … }] }`. */
export function fileSearch(asked: FileSearchTool, indexes: readonly FileIndex[]): Tool {
  const { max_num_results, ranking_options, filters } = asked;
  const most = max_num_results ?? MOST_RESULTS;
  const threshold = ranking_options?.score_threshold ?? 0;
  const accepts = (attributes: FileAttributes) => filters == null || isAccepted(attributes, filters);
  return tool({
    name: 'file_search',
    description:
      'Searches the text of files. Returns the parts that match best, with the names of their files.',
    input: z.object({ query: z.string().min(1).max(2_000).describe('The words to search for.') }),
    sideEffect: 'none',
    run: async ({ query }) => {
      const found = await Promise.all(
        indexes.map(index => index.search(query, { most, threshold, accepts })),
      );
      const matches = found.flat().sort((one, other) => other.score - one.score);
      return { results: matches.slice(0, most).map(describe) };
    },
  });
}

function describe({ file_id, attributes, score, text }: FileMatch): JsonObject {
  return { file_id, filename: attributes.filename, score, text, attributes };
}

const KEYS: readonly string[] = [
  'filename',
  'path',
  'extension',
  'bytes',
  'modified_at',
] satisfies (keyof FileAttributes)[];

/** Throws a `ResponsesError` for a filter on an attribute that files do not have. `param` is the filter's path. */
export function assertFilter(filter: FileFilter, param: string): void {
  if ('filters' in filter) {
    for (const [at, inner] of filter.filters.entries()) assertFilter(inner, `${param}.filters[${at}]`);
    return;
  }
  if (KEYS.includes(filter.key)) return;
  const message = `Files have no attribute "${filter.key}". Filter by ${KEYS.join(', ')}.`;
  throw invalid(`${param}.key`, 'unsupported_parameter', message);
}

function isAccepted(attributes: FileAttributes, filter: FileFilter): boolean {
  if ('filters' in filter) {
    const accepts = (inner: FileFilter) => isAccepted(attributes, inner);
    return filter.type === 'and' ? filter.filters.every(accepts) : filter.filters.some(accepts);
  }
  const actual = (attributes as Record<string, string | number>)[filter.key];
  if (actual === undefined) return false;
  const { type, value } = filter;
  if (type === 'in' || type === 'nin') return value.includes(actual) === (type === 'in');
  if (type === 'eq' || type === 'ne') return (actual === value) === (type === 'eq');
  return typeof value === typeof actual && ORDERS[type](actual, value as string | number);
}

const ORDERS: Readonly<
  Record<'gt' | 'gte' | 'lt' | 'lte', (one: string | number, other: string | number) => boolean>
> = {
  gt: (one, other) => one > other,
  gte: (one, other) => one >= other,
  lt: (one, other) => one < other,
  lte: (one, other) => one <= other,
};
