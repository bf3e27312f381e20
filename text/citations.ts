import { toolResults } from '../machines/tool-results.ts';
import { EngineError } from '../protocol/error.ts';
import type { Finisher, FinisherInput, ToolResult } from '../protocol/finisher.ts';
import { filterText, type TextFilter } from './text-filter.ts';

/** Something an answer may cite: `id` is what its marker says. */
export type Source = { id: string; title?: string; url?: string };

export type CitationOptions = {
  /**
   * What one result lets the answer cite: what the model has read in it, rather than what it has seen the
   * name of. Failed results are not asked about.
   */
  sources: (result: ToolResult) => readonly Source[];
  /** What stands before and after an id in the answer. Default `[doc:` and `]`. */
  marker?: { before: string; after: string };
  /** What comes under the answer: the sources in the order of their numbers, and the ids that were dropped. */
  format?: (cited: readonly Source[], dropped: readonly string[]) => string;
  /** The agent's own: a marker that readers do not see does not count. */
  textFilters?: readonly (() => TextFilter)[];
};

/**
 * A finisher that makes numbers of the markers in the answer, as in `[doc:report.md]`, with a list of what
 * they stand for under it. Only what a tool really gave can be cited, in any round of this run or of those
 * it continues; a marker of anything else is dropped, and the list says so. Several ids may share a marker,
 * with commas between them. For answers that are text; one without markers stays as it is.
 *
 * @example
 * numberCitations({ sources: ({ name, output }) => (name === 'read' ? [pageSchema.parse(output)] : []) })
 */
export function numberCitations(options: CitationOptions): Finisher {
  const { format = describeSources, textFilters = [] } = options;
  const marker = markerOf(options);
  return ({ text, results, transcript, wholeOutput }) => {
    const all = [...toolResults({ transcript, edits: [] }), ...results];
    const number = (sources: ReadonlyMap<string, Source>) => {
      const numbering = new Numbering(sources);
      const numbered = filterText(filterText(text, textFilters), [() => new MarkerFilter(numbering, marker)]);
      const { cited, dropped } = numbering;
      if (cited.length === 0 && dropped.length === 0) return undefined;
      return { text: numbered + gapAfter(numbered) + format(cited, dropped) };
    };
    if (all.every(({ blob }) => blob === undefined)) return number(findSources(all, options));
    return loadSources(all, options, wholeOutput).then(number);
  };
}

/**
 * The same numbers in a text that is shown as it comes: what this filter gives for the text readers get is
 * what `numberCitations` makes of it, without the list.
 */
export function citationFilter(results: readonly ToolResult[], options: CitationOptions): TextFilter {
  return new MarkerFilter(new Numbering(findSources(results, options)), markerOf(options));
}

function markerOf({ marker = { before: '[doc:', after: ']' } }: CitationOptions) {
  if (marker.before !== '' && marker.after !== '') return marker;
  throw new EngineError('agent-invalid', 'A citation needs something before its id and something after it.');
}

/** The sources of the whole results, of which one is in memory at a time. What the store has not cannot be cited. */
async function loadSources(
  results: readonly ToolResult[],
  options: CitationOptions,
  wholeOutput: FinisherInput['wholeOutput'],
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
      : [`Citations of what was not read were left out: ${dropped.map(id => id || '(no id)').join(', ')}.`];
  return [...sources, ...note].join('\n\n');
}

function describeSource({ id, title, url = id }: Source): string {
  return title === undefined ? url : `${title} (${url})`;
}

function gapAfter(text: string): string {
  if (text.endsWith('\n\n')) return '';
  return text.endsWith('\n') ? '\n' : '\n\n';
}

/** Sources in the order they were first cited, and the ids that are none of them. */
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

  /** The numbers of what stands in a marker, such as `[1][2]`; empty when nothing of it was read. */
  number(content: string, label: string): string {
    const numbers = new Set(this.#idsIn(content, label).flatMap(id => this.#numberOf(id)));
    return [...numbers].map(number => `[${number}]`).join('');
  }

  #idsIn(content: string, label: string): string[] {
    const whole = content.trim();
    if (this.#sources.has(whole)) return [whole];
    return whole.split(/[,;]/).map(part => {
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

/** A longer one, or one with a line break in it, is text. */
const MAX_MARKER_CHARACTERS = 300;

/** Of the spaces before a marker no more go with it: all that is held is looked at with every piece. */
const MAX_SPACES = 100;

/**
 * C1 `#held` is the end of the text so far from the first place where a marker may have begun, with the
 *    spaces before it: they go when the marker goes.
 */
class MarkerFilter implements TextFilter {
  readonly #numbering: Numbering;
  readonly #before: string;
  readonly #after: string;
  /** What a second id in the same marker may begin with: `doc:`. */
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

  /** Where the beginning of a marker that the text ends with begins; the text's end if there is none. */
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
