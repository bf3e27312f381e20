import type { QualifiedCall, RunEvent } from '../event.ts';
import type { Item } from '../item.ts';
import { isJsonObject, type JsonValue } from '../json.ts';
import { isRedaction } from '../redaction.ts';
import type { Labels } from './label.ts';

/** How many characters of a run's words a store keeps: the newest. */
export const MOST_WORDS = 16_384;

/** How many characters of one event are searched: the first. */
const MOST_OF_EVENT = 4_096;

/** Words shorter than this have no place in an index. */
export const LEAST_INDEXED = 3;

/** Of how many runs, the newest that match otherwise, words are looked for that no index has. */
export const MOST_SCANNED = 10_000;

/**
 * Text as searches compare it: in lower case, with one space in place of white space and control characters. The letters
 * whose lower case depends on what follows, or has a mark more, are as elsewhere: sigma at the end of a word, and the
 * Turkish capital i.
 */
export function foldWords(text: string): string {
  const lower = text.toWellFormed().toLowerCase().replaceAll('\u03c2', '\u03c3').replaceAll('i\u0307', 'i');
  return (UNEVEN.test(lower) ? lower.replaceAll(/[\s\p{Cc}]+/gu, ' ') : lower).trim();
}

/** Whether white space has to be replaced. Most texts have none but single spaces, and to replace each of those is slow. */
const UNEVEN = /[^\S ]|\p{Cc}| {2}/u;

/** The words of a search, each once. A run is found if each is somewhere in what it is searched for. */
export function wordsIn(text: string): string[] {
  return [...new Set(foldWords(text).split(' '))].filter(word => word !== '');
}

/** What stores search a run for beside its words: its id, thread, title and labels. */
export function searchedNamesOf({
  runId,
  title,
  labels,
  thread = '',
}: {
  runId: string;
  title: string;
  labels: Labels;
  thread?: string;
}): string {
  const named = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
  return foldWords([runId, thread, title, ...named].join(' '));
}

/** The first words of one commit, as many as a store keeps, without half a character. */
export function cutWords(words: string): string {
  return cut(words, MOST_WORDS);
}

function cut(text: string, most: number): string {
  return text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
}

/** Words as a store keeps them: those of earlier commits, and of the latest one, up to `MOST_WORDS` characters. */
export function addWords(kept: readonly string[], added: string): string[] {
  let left = MOST_WORDS;
  return [...kept, cutWords(added)]
    .toReversed()
    .filter(text => {
      left -= text.length;
      return left >= 0 && text !== '';
    })
    .toReversed();
}

/** The groups of three characters in a word, each once. */
export function gramsOf(word: string): string[] {
  const characters = [...word];
  return [...new Set(characters.slice(2).map((_, at) => characters.slice(at, at + 3).join('')))];
}

/**
 * The words of events, for `Standing.words`: of messages, of the inputs of calls, of answers and of errors, the newest if
 * there are many.
 */
export function wordsOf(events: readonly RunEvent[]): string {
  const found: string[] = [];
  let left = MOST_WORDS;
  for (const event of events.toReversed()) {
    const texts = textsOf(event);
    if (texts.length === 0) continue;
    const words = foldWords(cut(texts.join(' '), MOST_OF_EVENT));
    if (words === '') continue;
    left -= words.length + 1;
    if (left < 0) break;
    found.push(words);
  }
  return found.reverse().join(' ');
}

function textsOf(event: RunEvent): string[] {
  switch (event.type) {
    case 'run.started':
      return said(event.input);
    case 'message.received':
      return said(event.items);
    case 'turn.completed':
    case 'turn.edited':
      return event.calls.length === 0 ? valuesOf(event.text) : textsOfCalls(event.calls);
    case 'call.edited':
      return valuesOf(event.call.input);
    case 'approval.decided':
      return event.decision.type === 'approve' ? valuesOf(event.decision.input ?? '') : [];
    case 'review.decided':
      return event.decision.type === 'approve' ? valuesOf(event.decision.text ?? '') : [];
    case 'answer.checked':
      return valuesOf(event.text ?? '');
    case 'turn.failed':
      return [event.error.code, ...valuesOf(event.error.message)];
    case 'tool.settled':
      return event.isError ? valuesOf(event.output) : [];
    default:
      return [];
  }
}

/** As many as are searched. */
function textsOfCalls(calls: readonly QualifiedCall[]): string[] {
  const texts: string[] = [];
  let left = MOST_OF_EVENT;
  for (const { name, input } of calls) {
    const own = [name, ...valuesOf(input)];
    texts.push(...own);
    for (const text of own) left -= text.length + 1;
    if (left <= 0) break;
  }
  return texts;
}

function said(items: readonly Item[]): string[] {
  return items.flatMap(item =>
    item.type === 'message' && item.role === 'user'
      ? item.content.flatMap(part => (part.type === 'text' ? valuesOf(part.text) : []))
      : [],
  );
}

/** The texts and numbers in a value. */
function valuesOf(value: JsonValue): string[] {
  if (typeof value === 'string') return isRedaction(value) ? [] : [value];
  if (typeof value === 'number') return [String(value)];
  if (Array.isArray(value)) return value.flatMap(valuesOf);
  return isJsonObject(value) ? Object.values(value).flatMap(valuesOf) : [];
}
