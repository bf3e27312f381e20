/** A pattern as a tree; `char` matches one character. */
export type PatternNode =
  | { type: 'char'; source: string }
  | { type: 'sequence' | 'choice'; nodes: PatternNode[] }
  | { type: 'repeat'; node: PatternNode; least: number; most: number; lazy: boolean }
  | { type: 'group'; node: PatternNode; index: number }
  | { type: 'look'; source: string; node: PatternNode; behind: boolean; negative: boolean }
  | { type: 'back'; index: number }
  | { type: 'edge'; source: string };

/** Parses the source of a valid `RegExp`, independent of its flags. */
export function parsePattern(source: string): PatternNode {
  let at = 0;
  let groups = 0;
  return choice();

  function choice(): PatternNode {
    const nodes = [sequence()];
    while (source[at] === '|') {
      at += 1;
      nodes.push(sequence());
    }
    return nodes.length === 1 && nodes[0] ? nodes[0] : { type: 'choice', nodes };
  }

  function sequence(): PatternNode {
    const nodes: PatternNode[] = [];
    while (at < source.length && source[at] !== '|' && source[at] !== ')') nodes.push(quantified(atom()));
    return { type: 'sequence', nodes };
  }

  function quantified(node: PatternNode): PatternNode {
    const [text, least, comma, most] = take(/(?:[*+?]|\{(\d+)(,?)(\d*)\})/y) ?? [];
    if (text === undefined) return node;
    const lazy = take(/\?/y) !== null;
    if (text === '*') return { type: 'repeat', node, least: 0, most: Number.POSITIVE_INFINITY, lazy };
    if (text === '+') return { type: 'repeat', node, least: 1, most: Number.POSITIVE_INFINITY, lazy };
    if (text === '?') return { type: 'repeat', node, least: 0, most: 1, lazy };
    const open = most === '' ? Number.POSITIVE_INFINITY : Number(most);
    return { type: 'repeat', node, least: Number(least), most: comma === '' ? Number(least) : open, lazy };
  }

  function atom(): PatternNode {
    if (source[at] === '(') return group();
    const edge = take(/\^|\$|\\[bB]/y)?.[0];
    if (edge !== undefined) return { type: 'edge', source: edge };
    const back = take(/\\([1-9])/y)?.[1];
    if (back !== undefined) return { type: 'back', index: Number(back) };
    const char = take(
      /\\(?:u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|[pP]\{[^}]*\}|[\s\S])|\[(?:[^\]\\]|\\[\s\S])*\]|[\s\S]/uy,
    );
    return { type: 'char', source: char?.[0] ?? '' };
  }

  function group(): PatternNode {
    const start = at;
    const [open = '('] = take(/\((?:\?(?:[:=!]|<[=!]|<\w+>))?/y) ?? [];
    const isLook = /[=!]$/.test(open);
    const isCapture = open === '(' || open.endsWith('>');
    if (isCapture) groups += 1;
    const index = groups;
    const node = choice();
    at += 1;
    if (isLook) {
      const [behind, negative] = [open.includes('<'), open.endsWith('!')];
      return { type: 'look', source: source.slice(start, at), node, behind, negative };
    }
    return isCapture ? { type: 'group', node, index } : node;
  }

  function take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = at;
    const found = pattern.exec(source);
    at += found?.[0].length ?? 0;
    return found;
  }
}
