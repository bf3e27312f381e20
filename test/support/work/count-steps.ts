import { type PatternNode, parsePattern } from './parse-pattern.ts';

/** The maximum count: a pattern that needs more steps is too slow. */
export const MOST_STEPS = 1_000_000;

export type Match = { index: number; end: number };

/**
 * Matches like a backtracking engine and counts its attempts: one step for each pattern node at
 * each position. It has none of an engine's shortcuts, so it never counts fewer steps than one.
 */
export class StepCounter {
  steps = 0;
  readonly #tree: PatternNode;
  readonly #flags: string;
  readonly #chars = new Map<string, (char: string) => boolean>();
  readonly #edges = new Map<string, RegExp>();
  readonly #captures: (string | undefined)[] = [];
  #text = '';

  constructor(source: string, flags: string) {
    this.#tree = parsePattern(source);
    this.#flags = flags;
  }

  /** The first match at or after `from`; with the flag `y`, only at `from`. */
  find(text: string, from: number): Match | undefined {
    this.#text = text;
    for (let index = from; index <= text.length; index += 1) {
      let end = 0;
      const found = this.#match(this.#tree, index, at => {
        end = at;
        return true;
      });
      if (found) return { index, end };
      if (this.#flags.includes('y') || this.steps > MOST_STEPS) return undefined;
    }
    return undefined;
  }

  /** Finds all matches in order, like `replaceAll` and `matchAll`. */
  findAll(text: string): void {
    let from = 0;
    for (let found = this.find(text, 0); found; found = this.find(text, from)) {
      from = found.end === found.index ? found.end + 1 : found.end;
      if (from > text.length) return;
    }
  }

  #match(node: PatternNode, at: number, then: (at: number) => boolean): boolean {
    this.steps += 1;
    if (this.steps > MOST_STEPS) return false;
    switch (node.type) {
      case 'char': {
        const end = this.#charEnd(node.source, at);
        return end !== undefined && then(end);
      }
      case 'sequence':
        return this.#matchRow(node.nodes, 0, at, then);
      case 'choice':
        return node.nodes.some(option => this.#match(option, at, then));
      case 'group':
        return this.#match(node.node, at, end => {
          const before = this.#captures[node.index];
          this.#captures[node.index] = this.#text.slice(at, end);
          if (then(end)) return true;
          this.#captures[node.index] = before;
          return false;
        });
      case 'repeat':
        return node.node.type === 'char'
          ? this.#repeatChar(node, node.node.source, at, then)
          : this.#repeat(node, 0, at, then);
      case 'back': {
        const captured = this.#captures[node.index] ?? '';
        this.steps += captured.length;
        return this.#text.startsWith(captured, at) && then(at + captured.length);
      }
      case 'look':
        return this.#look(node, at) && then(at);
      case 'edge':
        return this.#isAt(node.source, at) && then(at);
    }
  }

  #matchRow(nodes: PatternNode[], from: number, at: number, then: (at: number) => boolean): boolean {
    const node = nodes[from];
    if (node === undefined) return then(at);
    return this.#match(node, at, end => this.#matchRow(nodes, from + 1, end, then));
  }

  #repeat(
    node: Extract<PatternNode, { type: 'repeat' }>,
    count: number,
    at: number,
    then: (at: number) => boolean,
  ): boolean {
    const enough = count >= node.least;
    if (enough && node.lazy && then(at)) return true;
    const more = () =>
      count < node.most &&
      this.#match(node.node, at, end => (end > at || !enough) && this.#repeat(node, count + 1, end, then));
    return more() || (enough && !node.lazy && then(at));
  }

  #repeatChar(
    { least, most, lazy }: Extract<PatternNode, { type: 'repeat' }>,
    source: string,
    at: number,
    then: (at: number) => boolean,
  ): boolean {
    const ends = [at];
    const extend = () => {
      this.steps += 1;
      const end = ends.length > most ? undefined : this.#charEnd(source, ends.at(-1) ?? at);
      if (end !== undefined) ends.push(end);
      return end !== undefined;
    };
    if (lazy) {
      while (ends.length <= least) if (!extend()) return false;
      while (!then(ends.at(-1) ?? at)) if (!extend()) return false;
      return true;
    }
    while (extend());
    for (; ends.length > least; ends.pop()) {
      this.steps += 1;
      if (then(ends.at(-1) ?? at)) return true;
    }
    return false;
  }

  #look({ source, node, behind, negative }: Extract<PatternNode, { type: 'look' }>, at: number): boolean {
    if (!behind) return this.#match(node, at, () => true) !== negative;
    return this.#isAt(source, at);
  }

  /** Whether an edge or a lookbehind matches at a position. */
  #isAt(edge: string, at: number): boolean {
    let pattern = this.#edges.get(edge);
    if (pattern === undefined) {
      pattern = new RegExp(edge, `${this.#flags.replace(/[gy]/g, '')}y`);
      this.#edges.set(edge, pattern);
    }
    pattern.lastIndex = at;
    return pattern.test(this.#text);
  }

  #charEnd(source: string, at: number): number | undefined {
    if (at >= this.#text.length) return undefined;
    const point = this.#flags.includes('u') ? (this.#text.codePointAt(at) ?? 0) : this.#text.charCodeAt(at);
    const char = point > 0xffff ? String.fromCodePoint(point) : String.fromCharCode(point);
    let fits = this.#chars.get(source);
    if (fits === undefined) {
      const known = new Map<string, boolean>();
      const pattern = new RegExp(`^${source}$`, this.#flags.replace(/[gym]/g, ''));
      fits = one => {
        const before = known.get(one);
        if (before !== undefined) return before;
        const now = pattern.test(one);
        known.set(one, now);
        return now;
      };
      this.#chars.set(source, fits);
    }
    return fits(char) ? at + char.length : undefined;
  }
}
