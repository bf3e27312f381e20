import * as z from 'zod';
import type { JsonObject } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import { tool } from '../../tools/tool.ts';
import { invalid } from '../openai-error.ts';
import type { FileFilter, FileSearchTool } from './builtin-schemas.ts';
import type { FileAttributes, FileIndex, FileMatch } from './file-index.ts';

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
  throw invalid(
    `${param}.key`,
    'unsupported_parameter',
    `Files have no attribute "${filter.key}". Filter by ${KEYS.join(', ')}.`,
  );
}

function isAccepted(attributes: FileAttributes, filter: FileFilter): boolean {
  if ('filters' in filter) {
    const accepts = (inner: FileFilter) => isAccepted(attributes, inner);
    return filter.type === 'and' ? filter.filters.every(accepts) : filter.filters.some(accepts);
  }
  const actual = (attributes as Record<string, string | number>)[filter.key];
  if (actual === undefined) return false;
  const { type, value } = filter;
  switch (type) {
    case 'in':
      return Array.isArray(value) && value.includes(actual);
    case 'nin':
      return Array.isArray(value) && !value.includes(actual);
    case 'eq':
      return actual === value;
    case 'ne':
      return actual !== value;
    default:
      return typeof value === typeof actual && isOrdered(type, actual, value as string | number);
  }
}

function isOrdered(type: 'gt' | 'gte' | 'lt' | 'lte', one: string | number, other: string | number): boolean {
  switch (type) {
    case 'gt':
      return one > other;
    case 'gte':
      return one >= other;
    case 'lt':
      return one < other;
    case 'lte':
      return one <= other;
  }
}
