import { toolResults } from '../machines/tool-results.ts';
import { EngineError } from '../protocol/error.ts';
import type { AnswerContext, AnswerGuardrail, Verdict } from '../protocol/guardrail.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { ToolResult } from '../protocol/tool-result.ts';
import { filterText, type TextFilter } from './text-filter.ts';

/** A source that an answer may cite; `id` is the text of its marker. */
export type Source = { id: string; title?: string; url?: string };

export type CitationOptions = {
  /**
   * Returns the sources that the answer may cite because of one tool result: those whose content the model has read, not
   * only their names. Not called for failed results.
   */
  sources: (result: ToolResult) => readonly Source[];
  /** The text before and after an id in the answer. Default `[doc:` and `]`. */
  marker?: { before: string; after: string };
  /** Returns the text below the answer, from the sources in the order of their numbers and the dropped ids. */
  format?: (cited: readonly Source[], dropped: readonly string[]) => string;
  /** The agent's text filters: markers that readers do not see are ignored. */
  textFilters?: readonly (() => TextFilter)[];
};

const NAMES = optionNames<CitationOptions>()('sources marker format textFilters');

/**
 * Returns a guardrail of the answer that replaces citation markers such as `[doc:report.md]` by numbers and adds a list of the sources
 * below the answer. Only sources that a tool returned can be cited, in any round of this run or of the runs it
 * continues; other markers are dropped and listed. One marker may hold several ids, separated by commas. For text
 * answers; an answer without markers is unchanged. Throws `agent-invalid` for an empty marker.
 *
 * @example
 * numberCitations({ sources: ({ name, output }) => (name === 'read' ? [pageSchema.parse(output)] : []) })
 */
export function numberCitations(options: CitationOptions): AnswerGuardrail {
  refuseUnknownOptions('numberCitations', options, NAMES);
  const { format = describeSources, textFilters = [] } = options;
  const marker = markerOf(options);
  return (text, { results, transcript, wholeOutput }) => {
    const all = [...toolResults({ transcript, edits: [] }), ...results];
    const number = (sources: ReadonlyMap<string, Source>): Verdict<string> => {
      const numbering = new Numbering(sources);
      const numbered = filterText(filterText(text, textFilters), [() => new MarkerFilter(numbering, marker)]);
      const { cited, dropped } = numbering;
      if (cited.length === 0 && dropped.length === 0) return { type: 'pass' };
      return { type: 'replace', value: numbered + gapAfter(numbered) + format(cited, dropped) };
    };
    if (all.every(({ blob }) => blob === undefined)) return number(findSources(all, options));
    return loadSources(all, options, wholeOutput).then(number);
  };
}

/**
 * Returns a text filter that numbers citations in streamed text as `numberCitations` does, without the list. Throws
 * `agent-invalid` for an empty marker.
 *
 * @example
 * const filter = citationFilter(results, { sources: ({ output }) => [pageSchema.parse(output)] });
 * process.stdout.write(filter.push('As said [doc:report.md].') + filter.end());
 */
export function citationFilter(results: readonly ToolResult[], options: CitationOptions): TextFilter {
  refuseUnknownOptions('citationFilter', options, NAMES);
  return new MarkerFilter(new Numbering(findSources(results, options)), markerOf(options));
}

function markerOf({ marker = { before: '[doc:', after: ']' } }: CitationOptions) {
  if (marker.before !== '' && marker.after !== '') return marker;
  throw new EngineError('agent-invalid', 'A citation marker needs text before and after the id.');
}

/** Finds sources in the full results, one in memory at a time. Results missing from the store cannot be cited. */
async function loadSources(
  results: readonly ToolResult[],
  options: CitationOptions,
  wholeOutput: AnswerContext['wholeOutput'],
): Promise<Map<string, Source>> {
  const sources = new Map<string, Source>();
  for (const result of results) {
    const output = await wholeOutput(result).catch(ignoreMissing);
    if (output === undefined) continue;
    for (const [id, source] of findSources([{ ...result, output }], options)) sources.set(id, source);
  }
  return sources;
}

function ignoreMissing(error: unknown): undefined {
  if (error instanceof EngineError && error.code === 'result-missing') return undefined;
  throw error;
}

function findSources(results: readonly ToolResult[], { sources }: CitationOptions): Map<string, Source> {
  const read = results.filter(({ isError }) => !isError).flatMap(result => sources(result));
  return new Map(read.map(source => [source.id, source]));
}

function describeSources(cited: readonly Source[], dropped: readonly string[]): string {
  const list = cited.map((source, index) => `[${index + 1}] ${describeSource(source)}`);
  const sources = list.length === 0 ? [] : [`Sources:\n${list.join('\n')}`];
  const note =
    dropped.length === 0
      ? []
      : [`Citations of unread sources were omitted: ${dropped.map(id => id || '(no id)').join(', ')}.`];
  return [...sources, ...note].join('\n\n');
}

function describeSource({ id, title, url = id }: Source): string {
  return title === undefined ? url : `${title} (${url})`;
}

function gapAfter(text: string): string {
  if (text.endsWith('\n\n')) return '';
  return text.endsWith('\n') ? '\n' : '\n\n';
}

/** The sources in the order of their first citation, and the ids that match no source. */
class Numbering {
  readonly #numbers = new Map<Source, number>();
  readonly #dropped = new Set<string>();
  readonly #sources: ReadonlyMap<string, Source>;

  constructor(sources: ReadonlyMap<string, Source>) {
    this.#sources = sources;
  }

  get cited(): Source[] {
    return [...this.#numbers.keys()];
  }

  get dropped(): string[] {
    return [...this.#dropped];
  }

  number(content: string, label: string): string {
    const numbers = new Set(this.#idsIn(content, label).flatMap(id => this.#numberOf(id)));
    return [...numbers].map(number => `[${number}]`).join('');
  }

  #idsIn(content: string, label: string): string[] {
    const full = content.trim();
    if (this.#sources.has(full)) return [full];
    return full.split(/[,;]/).map(part => {
      const id = part.trim();
      return id.startsWith(label) ? id.slice(label.length).trim() : id;
    });
  }

  #numberOf(id: string): number[] {
    const source = this.#sources.get(id);
    if (source === undefined) {
      this.#dropped.add(id);
      return [];
    }
    const number = this.#numbers.get(source) ?? this.#numbers.size + 1;
    this.#numbers.set(source, number);
    return [number];
  }
}

/** Longer markers, and markers with a line break, are treated as text. */
const MAX_MARKER_CHARACTERS = 300;

/** The maximum number of spaces removed with a marker, since all held text is examined again with every piece. */
const MAX_SPACES = 100;

/**
 * C1 `#held` is the end of the text from the first possible start of a marker, with the spaces before it, which are
 *    removed with a dropped marker.
 */
class MarkerFilter implements TextFilter {
  readonly #numbering: Numbering;
  readonly #before: string;
  readonly #after: string;
  /** The optional prefix of further ids in the same marker: `doc:`. */
  readonly #label: string;
  #held = '';

  constructor(numbering: Numbering, { before, after }: { before: string; after: string }) {
    this.#numbering = numbering;
    this.#before = before;
    this.#after = after;
    this.#label = before.replace(/^\W+/, '');
  }

  push(text: string): string {
    let rest = this.#held + text;
    let shown = '';
    for (;;) {
      const start = rest.indexOf(this.#before);
      if (start === -1) return shown + this.#hold(rest, this.#openEnd(rest));
      const contentStart = start + this.#before.length;
      const room = rest.slice(contentStart, contentStart + MAX_MARKER_CHARACTERS);
      const line = room.split('\n', 1)[0] ?? '';
      const length = line.indexOf(this.#after);
      if (length === -1 && line.length === rest.length - contentStart && line.length < MAX_MARKER_CHARACTERS)
        return shown + this.#hold(rest, start);
      const content = line.slice(0, Math.max(length, 0));
      if (length === -1 || content.includes(this.#before)) {
        shown += rest.slice(0, contentStart);
        rest = rest.slice(contentStart);
        continue;
      }
      const numbers = this.#numbering.number(content, this.#label);
      shown += numbers === '' ? rest.slice(0, spacesBefore(rest, start)) : rest.slice(0, start) + numbers;
      rest = rest.slice(contentStart + length + this.#after.length);
    }
  }

  end(): string {
    return this.#held;
  }

  #hold(text: string, from: number): string {
    const place = spacesBefore(text, from);
    this.#held = text.slice(place);
    return text.slice(0, place);
  }

  /** The index of an incomplete marker start at the end of the text; the text's length if there is none. */
  #openEnd(text: string): number {
    for (let length = this.#before.length - 1; length > 0; length -= 1) {
      if (text.endsWith(this.#before.slice(0, length))) return text.length - length;
    }
    return text.length;
  }
}

function spacesBefore(text: string, place: number): number {
  let start = place;
  while (start > 0 && place - start < MAX_SPACES && (text[start - 1] === ' ' || text[start - 1] === '\t'))
    start -= 1;
  return start;
}
