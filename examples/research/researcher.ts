// In a project of your own: from 'agentchart'.
import {
  createAgent,
  fitTokens,
  hideHtmlComments,
  type ModelAdapter,
  numberCitations,
} from '../../agent/index.ts';
import { indexDocuments, readDocuments } from './document-index.ts';
import { citations, makeTools } from './tools.ts';

const INSTRUCTIONS = `You answer questions from a folder of documents, and from nothing else.
Search with several short queries at once, then read what looks promising, several documents at once. Search again where something is missing.
Cite what you have read with its id right behind what it supports, as in [doc:README.md#models]. A document that you have only seen in a search cannot be cited.
Notes to yourself go into an HTML comment; readers do not see it. When the documents do not answer the question, say so.`;

/** The maximum history of a request, in tokens: about twenty documents. */
const HISTORY_TOKENS = 60_000;

const trim = fitTokens(HISTORY_TOKENS);

/** Creates an agent that must search before it answers, and writes its answer in a separate call without tools. */
export function makeResearcher(model: ModelAdapter) {
  return createAgent({
    name: 'researcher',
    model,
    instructions: INSTRUCTIONS,
    tools: makeTools(indexDocuments(readDocuments())),
    toolChoice: 'required',
    finalAnswer: 'separate',
    prepareTurn: ({ transcript }) => ({ transcript: trim(transcript) }),
    textFilters: [hideHtmlComments],
    guardrails: { answer: numberCitations({ ...citations, textFilters: [hideHtmlComments] }) },
    limits: { turns: 10 },
  });
}
