import * as z from 'zod';
// In a project of your own: from 'agentchart'.
import { type CitationOptions, tool } from '../../agent/index.ts';
import type { DocumentIndex } from './document-index.ts';

const HITS = 5;

const documentSchema = z.object({ id: z.string(), title: z.string(), text: z.string() });
const hitsSchema = z.array(z.object({ id: z.string(), title: z.string(), excerpt: z.string() }));

/** Creates the tools `search` and `read` over a document index. */
export function makeTools(index: DocumentIndex) {
  return [
    tool({
      name: 'search',
      description: `Finds the ${HITS} of ${index.size} documents that best match the words of the query, with an excerpt of each.`,
      input: z.object({ query: z.string().describe('A few words, without operators.') }),
      output: hitsSchema,
      sideEffect: 'none',
      run: ({ query }) => index.search(query, HITS),
    }),
    tool({
      name: 'read',
      description: 'Returns the full text of a document.',
      input: z.object({ id: z.string().describe('An id from a search result.') }),
      output: documentSchema,
      sideEffect: 'none',
      run: ({ id }) => {
        const document = index.read(id);
        if (document !== undefined) return document;
        throw new Error(`There is no document "${id}". Use the ids from search results.`);
      },
    }),
  ];
}

/** The sources that an answer may cite: documents that were read, not those only found by a search. */
export const citations: CitationOptions = {
  sources: ({ name, output }) => {
    const read = name === 'read' ? documentSchema.safeParse(output) : undefined;
    return read?.success ? [{ id: read.data.id, title: read.data.title }] : [];
  },
};
