import type { Section } from './read-sections.ts';
import type { Research } from './stand-in-history.ts';
import { missingWords } from './stand-in-plan.ts';
import { contentWords, stemOf, stemsIn } from './stand-in-words.ts';

type Stems = { own: ReadonlySet<string>; context: ReadonlySet<string> };
type Passage = Stems & { id: string; title: string; text: string; score: number };

const PASSAGES = 4;
const LONGEST = 420;
const SHORTEST = 30;
const ENTRY = /^(?:[-*]|\d+\.) /;
const WHO = 'I am a stand-in for a model: fixed rules that pick passages by their words, no language model.';
const INVENTED = 'examples/research/documents/atlantis.md';

/**
 * The answer, in what was read: the passages that have most of the question's words, each with its marker,
 * and in an HTML comment how they were chosen. `invent`: with a citation of something that was not read.
 */
export function composeAnswer(research: Research, { invent = false } = {}): string {
  const passages = choosePassages(research.read, contentWords(research.question));
  const [first, ...others] = passages.map(({ title, text, id }) => `${title}: “${text}” [doc:${id}]`);
  if (first === undefined) return `${describeSearch(research)}\n\n${WHO}`;
  const missing = missingWords(research).map(word => `“${word}”`);
  const gap = missing.length === 0 ? '' : `Nothing I read has the word ${missing.join(' or ')}.`;
  const rumour = invent ? `It is also told on Atlantis [doc:${INVENTED}].` : '';
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
 * The passage with most of the words, then the one with most of those that are still missing, and so on
 * while that is something. A word counts the more, the fewer passages have it, and by half where only the title or the line before a
 * list has it.
 */
function choosePassages(read: readonly Section[], words: readonly string[]): Passage[] {
  const passages = read.flatMap(({ id, title, text }) =>
    splitPassages(text).map(({ own, lead }) => ({
      ...{ id, title, text: own },
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
    for (const [stem, weight] of weights)
      score += own.has(stem) ? weight : context.has(stem) ? weight / 2 : 0;
    return score;
  }
}

/**
 * Paragraphs and list entries, long ones by sentence; what is code, table or picture is left out. `lead` is
 * the line, ending in a colon, that a list entry comes after.
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
    const pieces = own.length > LONGEST ? splitSentences(own) : [own];
    return pieces.filter(piece => piece.length >= SHORTEST).map(piece => ({ own: piece, lead }));
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
