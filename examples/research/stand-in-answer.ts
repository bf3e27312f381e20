import type { Section } from './read-sections.ts';
import type { Research } from './stand-in-history.ts';
import { missingWords } from './stand-in-plan.ts';
import { contentWords, stemOf, stemsIn } from './stand-in-words.ts';

type Stems = { own: ReadonlySet<string>; context: ReadonlySet<string> };
type Passage = Stems & { id: string; title: string; text: string; score: number };

const PASSAGES = 4;
const MAX_LENGTH = 420;
const MIN_LENGTH = 30;
const ENTRY = /^(?:[-*]|\d+\.) /;
const WHO = 'I am a stand-in: fixed rules that select passages by their words, no language model.';
const INVENTED = 'examples/research/documents/atlantis.md';

/**
 * Writes the answer: the passages that were read and have most of the question's words, each with a citation
 * marker, and an HTML comment about the selection. `invent` adds a citation of a document that was not read.
 */
export function composeAnswer(research: Research, { invent = false } = {}): string {
  const passages = choosePassages(research.read, contentWords(research.question));
  const [first, ...others] = passages.map(({ title, text, id }) => `${title}: “${text}” [doc:${id}]`);
  if (first === undefined) return `${describeSearch(research)}\n\n${WHO}`;
  const missing = missingWords(research).map(word => `“${word}”`);
  const gap = missing.length === 0 ? '' : `No document that I read contains ${missing.join(' or ')}.`;
  const rumour = invent ? `See also Atlantis [doc:${INVENTED}].` : '';
  const parts = [first + describeChoice(research, passages), ...others, rumour, gap, WHO];
  return parts.filter(part => part !== '').join('\n\n');
}

function describeSearch({ searched, read }: Research): string {
  const queries = searched.map(({ query }) => `“${query}”`).join(', ') || 'nothing';
  return `I found nothing about this. I searched for ${queries}, and read ${countDocuments(read)}.`;
}

function describeChoice({ read }: Research, passages: readonly Passage[]): string {
  const scores = passages.map(({ id, score }) => `${id} ${score.toFixed(2)}`).join(', ');
  return `<!-- Notes: read ${countDocuments(read)}; passages by score: ${scores}. -->`;
}

/**
 * Chooses the passage with most of the words, then the one with most of the words still missing, and so on. A word
 * weighs more if fewer passages have it, and half if only the title or the line before a list has it.
 */
function choosePassages(read: readonly Section[], words: readonly string[]): Passage[] {
  const passages = read.flatMap(({ id, title, text }) =>
    splitPassages(text).map(({ own, lead }) => ({
      id,
      title,
      text: own,
      own: stemsIn(own),
      context: stemsIn(`${title} ${lead}`),
    })),
  );
  const weights = new Map(
    words.map(stemOf).map(stem => {
      const holders = passages.filter(({ own }) => own.has(stem)).length;
      return [stem, Math.log(1 + passages.length / Math.max(1, holders))];
    }),
  );
  const chosen: Passage[] = [];
  while (chosen.length < PASSAGES && weights.size > 0) {
    const scored = passages.map(passage => ({ ...passage, score: weigh(passage) }));
    const [best] = scored.toSorted((one, other) => other.score - one.score);
    if (best === undefined || best.score <= (chosen[0]?.score ?? 0) / 5) break;
    chosen.push(best);
    for (const stem of [...best.own, ...best.context]) weights.delete(stem);
  }
  return chosen;

  function weigh({ own, context }: Stems): number {
    let score = 0;
    for (const [stem, weight] of weights) {
      if (own.has(stem)) score += weight;
      else if (context.has(stem)) score += weight / 2;
    }
    return score;
  }
}

/**
 * Splits Markdown into paragraphs and list entries, and long ones into sentences. Leaves out code, tables and
 * images. `lead` is the line ending in a colon that precedes a list entry.
 */
function splitPassages(markdown: string): { own: string; lead: string }[] {
  const prose = markdown.replace(/<!--[\s\S]*?(?:-->|$)/g, '').replace(/^(```|~~~)[\s\S]*?^\1.*$/gm, '');
  let lead = '';
  return prose.split(/\n\s*\n|\n(?=[-*] |\d+\. )/).flatMap(block => {
    const text = block.trim();
    const own = readable(text);
    if (own.endsWith(':')) lead = own;
    else if (!ENTRY.test(text)) lead = '';
    if (own.endsWith(':') || /^(?:\||!\[|<)/.test(text)) return [];
    const pieces = own.length > MAX_LENGTH ? splitSentences(own) : [own];
    return pieces.filter(piece => piece.length >= MIN_LENGTH).map(piece => ({ own: piece, lead }));
  });
}

function readable(text: string): string {
  return text
    .replace(ENTRY, '')
    .replace(/!?\[([^[\]]*)\]\([^()]*\)/g, '$1')
    .replace(/\*\*|`/g, '')
    .replace(/\n/g, ' ');
}

const SENTENCES = new Intl.Segmenter('en', { granularity: 'sentence' });

function splitSentences(text: string): string[] {
  return [...SENTENCES.segment(text)].map(({ segment }) => segment.trim());
}

function countDocuments({ length }: readonly Section[]): string {
  return length === 1 ? '1 document' : `${length || 'no'} documents`;
}
