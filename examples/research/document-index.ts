import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { readSections, type Section } from './read-sections.ts';

/** `excerpt` is the part with the most words of the query. */
type Hit = { id: string; title: string; excerpt: string };

export type DocumentIndex = {
  size: number;
  /** Finds documents with any word of `query`, the best first. */
  search(query: string, limit: number): Hit[];
  /** Returns a document by its id. */
  read(id: string): Section | undefined;
};

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const OWN = 'examples/research/documents';

/** Reads this project's README and docs, and the texts in `documents/`. */
export function readDocuments(): Section[] {
  const paths = ['README.md', ...listMarkdown('docs'), ...listMarkdown(OWN)];
  return paths.flatMap(path => readSections(path, readFileSync(join(ROOT, path), 'utf8')));
}

function listMarkdown(folder: string): string[] {
  const names = readdirSync(join(ROOT, folder)).filter(name => name.endsWith('.md'));
  return names.toSorted().map(name => `${folder}/${name}`);
}

/** Creates an in-memory full-text index (SQLite's FTS5). Words are stemmed; titles have four times the weight of texts. */
export function indexDocuments(documents: readonly Section[]): DocumentIndex {
  const database = new DatabaseSync(':memory:');
  database.exec(
    "CREATE VIRTUAL TABLE documents USING fts5(id UNINDEXED, title, text, tokenize = 'porter unicode61')",
  );
  const insert = database.prepare('INSERT INTO documents (id, title, text) VALUES (?, ?, ?)');
  for (const { id, title, text } of documents) insert.run(id, title, text);
  const select = database.prepare(
    `SELECT id, title, snippet(documents, 2, '', '', ' … ', 24) AS excerpt
     FROM documents WHERE documents MATCH ? ORDER BY bm25(documents, 0, 4, 1), id LIMIT ?`,
  );
  const byId = new Map(documents.map(document => [document.id, document]));
  return {
    size: byId.size,
    search: (query, limit) => {
      const words = anyWordOf(query);
      if (words === '') return [];
      return select.all(words, limit).map(({ id, title, excerpt }) => ({
        id: String(id),
        title: String(title),
        excerpt: String(excerpt).replace(/\s+/g, ' '),
      }));
    },
    read: id => byId.get(id),
  };
}

/** Returns an FTS5 query for any word of the text. The words are quoted, so that none is an operator. */
function anyWordOf(query: string): string {
  const words = query.match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.map(word => `"${word}"`).join(' OR ');
}
