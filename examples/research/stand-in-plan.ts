import type { Research } from './stand-in-history.ts';
import { contentWords, stemOf, stemsIn } from './stand-in-words.ts';

export type PlannedCall = { name: 'search' | 'read'; arguments: { query: string } | { id: string } };

const WORDS = 4;
const READS = 3;
const MORE_READS = 2;

/**
 * Plans the calls of the next round: first searches for the question's words, together and separately; then reads of
 * the best hits; then reads for words of the question that no document so far contains. Empty when done.
 */
export function planCalls(research: Research): PlannedCall[] {
  const { question, searched, tried } = research;
  const words = contentWords(question);
  if (searched.length === 0) return searches(words, question);
  if (tried.length === 0) return reads(rankHits(research).slice(0, READS));
  const missing = missingWords(research);
  const unread = rankHits({
    ...research,
    searched: searched.filter(({ query }) => missing.includes(query)),
  }).filter(id => !tried.includes(id));
  return tried.length >= READS + 1 ? [] : reads(unread.slice(0, MORE_READS));
}

/** Returns the words of the question that no document read so far contains. */
export function missingWords({ question, read }: Research): string[] {
  const known = stemsIn(read.map(({ title, text }) => `${title} ${text}`).join(' '));
  return contentWords(question).filter(word => !known.has(stemOf(word)));
}

function searches(words: readonly string[], question: string): PlannedCall[] {
  const longest = words.toSorted((one, other) => other.length - one.length).slice(0, WORDS);
  const alone = words.length > 1 ? words.filter(word => longest.includes(word)) : [];
  const queries = [words.join(' ') || question, ...alone];
  return queries.map(query => ({ name: 'search', arguments: { query } }));
}

function reads(ids: readonly string[]): PlannedCall[] {
  return ids.map(id => ({ name: 'read', arguments: { id } }));
}

/** Returns the found ids, the best first. Scores by rank; the search with all words counts three times. */
function rankHits({ searched }: Research): string[] {
  const scores = new Map<string, number>();
  for (const { query, ids } of searched) {
    const weight = query.includes(' ') ? 3 : 1;
    for (const [rank, id] of ids.entries()) scores.set(id, (scores.get(id) ?? 0) + weight / (rank + 1));
  }
  return [...scores].toSorted(([, one], [, other]) => other - one).map(([id]) => id);
}
