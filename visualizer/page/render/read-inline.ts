export type Inline = string | Span | { kind: 'code'; text: string } | { kind: 'break' };

type Span =
  | { kind: 'strong' | 'em' | 'del'; of: Inline[] }
  /** `href` is the address of a web page. */
  | { kind: 'link'; href: string; of: Inline[] };

/** What begins or ends at a piece. `mark` is shown where it has no meaning. */
type Opens = { span: Span; mark: string };

/** A piece of a text: what ends before it, itself, and what begins after it, the outermost last. */
type Piece = { text: string; leaf?: Inline; closes: string[]; opens: Opens[] };

/** A row of equal marks; its piece has those without a meaning so far. */
type Run = { piece: Piece; order: number; char: string; length: number; canOpen: boolean; canClose: boolean };

/** `runs`: how many rows of marks come before it. */
type Bracket = { piece: Piece; start: number; runs: number };

/** Deeper marks stay text. */
const DEEPEST = 8;

const SPECIAL = /[\\`*_~\]<\n]|!?\[|https?:\/\/|www\./gi;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const BARE = /(?:https?:\/\/|www\.)[^\s<\]]{1,2000}/iy;
const ANGLED = /<(https?:\/\/[^\s<>]{1,2000})>/iy;
const TARGET =
  /\(\s*(?:<([^<>\n]{0,2000})>|((?:[^\s()\\]|\\\S|\([^\s()\\]{0,500}\)){1,2000}))(?:\s+(?:"[^"]{0,500}"|'[^']{0,500}'))?\s*\)/y;
const LABEL = /\[([^\]\\[]{0,200})\]/y;
const LONGEST_LABEL = 200;
const ROW = { '`': /`+/y, '*': /\*+/y, _: /_+/y, '~': /~+/y } as const;

/** Reads what is in a paragraph. `targets` are the addresses of its references, by lower-case label. */
export function readInline(text: string, targets: ReadonlyMap<string, string>): Inline[] {
  return new InlineReader(text.trim(), targets).read();
}

class InlineReader {
  readonly #text: string;
  readonly #targets: ReadonlyMap<string, string>;
  readonly #pieces: Piece[] = [];
  #runs: Run[] = [];
  #brackets: Bracket[] = [];
  #at = 0;
  /** By length, where the last row of backticks is. */
  #lastTicks: Map<number, number> | undefined;

  constructor(text: string, targets: ReadonlyMap<string, string>) {
    this.#text = text;
    this.#targets = targets;
  }

  read(): Inline[] {
    while (this.#at < this.#text.length) {
      const mark = this.#find(SPECIAL);
      const start = mark?.index ?? this.#text.length;
      if (start > this.#at) this.#put(this.#text.slice(this.#at, start));
      this.#at = start;
      if (mark !== null) this.#take(mark[0]);
    }
    pair(this.#runs);
    return buildTree(this.#pieces);
  }

  #find(pattern: RegExp, at = this.#at): RegExpExecArray | null {
    pattern.lastIndex = at;
    return pattern.exec(this.#text);
  }

  /** Adds a piece. The place moves on by its source. */
  #put(text: string, leaf?: Inline, source = text): Piece {
    const piece: Piece = { text, closes: [], opens: [], ...(leaf !== undefined && { leaf }) };
    this.#pieces.push(piece);
    this.#at += source.length;
    return piece;
  }

  #take(mark: string): void {
    switch (mark) {
      case '\\':
        return this.#takeEscape();
      case '`':
        return this.#takeCode();
      case '*':
      case '_':
      case '~':
        return this.#takeRun(mark);
      case '[':
      case '![':
        this.#brackets.push({ start: this.#at, runs: this.#runs.length, piece: this.#put(mark) });
        return;
      case ']':
        return this.#takeEnd();
      case '\n':
        return this.#takeBreak();
      default:
        return this.#takeAddress(mark);
    }
  }

  #takeEscape(): void {
    const next = this.#text[this.#at + 1] ?? '';
    if (next === '\n') this.#put('', undefined, '\\');
    else if (next < '\u007f' && PUNCTUATION.test(next)) this.#put(next, undefined, `\\${next}`);
    else this.#put('\\');
  }

  #takeBreak(): void {
    const [space = '\n'] = this.#find(/\s+/y) ?? [];
    this.#put('', { kind: 'break' }, space);
  }

  /** Code ends at the next row of as many backticks. */
  #takeCode(): void {
    const text = this.#text;
    const [ticks = '`'] = this.#find(ROW['`']) ?? [];
    const inner = this.#at + ticks.length;
    this.#lastTicks ??= new Map(Array.from(text.matchAll(/`+/g), row => [row[0].length, row.index]));
    if ((this.#lastTicks.get(ticks.length) ?? 0) < inner) {
      this.#put(ticks);
      return;
    }
    let end = inner;
    for (let row = ''; row.length !== ticks.length; end += row.length) {
      end = text.indexOf('`', end);
      [row = '`'] = this.#find(ROW['`'], end) ?? [];
    }
    const code = text.slice(inner, end - ticks.length).replaceAll('\n', ' ');
    const isPadded = code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '';
    this.#put('', { kind: 'code', text: isPadded ? code.slice(1, -1) : code }, text.slice(this.#at, end));
  }

  #takeRun(char: '*' | '_' | '~'): void {
    const [row = char] = this.#find(ROW[char]) ?? [];
    const before = this.#text[this.#at - 1] ?? ' ';
    const after = this.#text[this.#at + row.length] ?? ' ';
    const [blankBefore, blankAfter] = [before, after].map(one => one.trim() === '');
    const [markBefore, markAfter] = [before, after].map(one => PUNCTUATION.test(one));
    const opens = !blankAfter && (!markAfter || blankBefore || markBefore);
    const closes = !blankBefore && (!markBefore || blankAfter || markAfter);
    const isWord = char === '_';
    const run = {
      piece: this.#put(row),
      order: this.#pieces.length,
      char,
      length: row.length,
      canOpen: opens === true && (!isWord || !closes || markBefore === true),
      canClose: closes === true && (!isWord || !opens || markAfter === true),
    };
    if (char !== '~' || row.length < 3) this.#runs.push(run);
  }

  /** Ends a link, or an image, which becomes a link. */
  #takeEnd(): void {
    const bracket = this.#brackets.pop();
    const found = bracket === undefined ? null : this.#readTarget(bracket);
    if (bracket === undefined || found === null) {
      this.#put(']');
      return;
    }
    const { piece, runs } = bracket;
    pair(this.#runs.splice(runs));
    piece.opens.push({ span: { kind: 'link', href: found.href, of: [] }, mark: piece.text });
    piece.text = '';
    this.#brackets = [];
    this.#put('', undefined, found.source).closes.push(found.source);
  }

  /** The address after a text in brackets, and its source from `]` on. */
  #readTarget({ start, piece }: Bracket): { href: string; source: string } | null {
    const after = this.#at + 1;
    const [inline, angled, plain = angled] = this.#find(TARGET, after) ?? [];
    if (inline !== undefined && plain !== undefined) {
      const href = plain.replace(/\\([!-/:-@[-`{-~])/g, '$1');
      return /^https?:\/\//i.test(href) ? { href, source: `]${inline}` } : null;
    }
    const inner = start + piece.text.length;
    if (this.#targets.size === 0 || this.#at - inner > LONGEST_LABEL) return null;
    const [label = '', named = ''] = this.#find(LABEL, after) ?? [];
    const href = this.#targets.get((named || this.#text.slice(inner, this.#at)).toLowerCase());
    return href === undefined ? null : { href, source: `]${label}` };
  }

  #takeAddress(mark: string): void {
    const [angled, href] = (mark === '<' && this.#find(ANGLED)) || [];
    if (angled !== undefined && href !== undefined) {
      this.#putLink(href, href, angled);
      return;
    }
    const isInWord = /[\p{L}\p{N}]/u.test(this.#text[this.#at - 1] ?? '');
    const bare = isInWord || mark === '<' ? '' : trimAddress(this.#find(BARE)?.[0] ?? '');
    if (bare.length <= mark.length)
      this.#put(mark === '<' ? '<' : this.#text.slice(this.#at, this.#at + mark.length));
    else this.#putLink(/^www/i.test(bare) ? `http://${bare}` : bare, bare, bare);
  }

  #putLink(href: string, text: string, source: string): void {
    const piece = this.#put('', undefined, '');
    piece.opens.push({ span: { kind: 'link', href, of: [] }, mark: '' });
    this.#put(text, undefined, source);
    this.#put('').closes.push('');
  }
}

/** Without the marks at its end that belong to the sentence. */
function trimAddress(address: string): string {
  let end = address.length;
  let unclosed = address.split(')').length - address.split('(').length;
  for (; end > 0; end -= 1) {
    const last = address[end - 1] ?? '';
    if (last === ')' && unclosed > 0) unclosed -= 1;
    else if (!/[?!.,:;*_~'"\]]/.test(last)) break;
  }
  return address.slice(0, end);
}

/** Gives a meaning to the marks that fit each other: one or two of a row at a time, from inside out. */
function pair(runs: readonly Run[]): void {
  const openers: Run[] = [];
  /** By kind of row, the first one that rows of this kind have not been compared with. */
  const compared = new Map<string, number>();
  for (const run of runs) {
    const kind = `${run.char}${run.canOpen}${run.length % 3}`;
    while (run.canClose && run.piece.text !== '') {
      const from = compared.get(kind) ?? 0;
      const place = openers.findLastIndex(opener => opener.order < from || fits(opener, run));
      const opener = openers[place];
      if (opener === undefined || opener.order < from) {
        compared.set(kind, run.order);
        break;
      }
      openers.length = place + 1;
      mark(opener.piece, run.piece, run.char);
      if (opener.piece.text === '') openers.pop();
    }
    if (run.canOpen && run.piece.text !== '') openers.push(run);
  }
}

function fits(opener: Run, closer: Run): boolean {
  if (opener.char !== closer.char) return false;
  if (closer.char === '~') return opener.length === closer.length;
  const isClear = !opener.canClose && !closer.canOpen;
  return isClear || (opener.length + closer.length) % 3 !== 0 || closer.length % 3 === 0;
}

function mark(opener: Piece, closer: Piece, char: string): void {
  const isStrong = opener.text.length > 1 && closer.text.length > 1;
  const stressed = isStrong ? 'strong' : 'em';
  const kind = char === '~' ? 'del' : stressed;
  const used = opener.text.slice(0, isStrong ? 2 : 1);
  opener.text = opener.text.slice(used.length);
  closer.text = closer.text.slice(used.length);
  opener.opens.push({ span: { kind, of: [] }, mark: used });
  closer.closes.push(used);
}

function buildTree(pieces: readonly Piece[]): Inline[] {
  const root: Inline[] = [];
  /** The spans around a place; `null` for one that is not shown as such. */
  const around: (Span | null)[] = [];
  const shown: Span[] = [];
  const put = (part: Inline) => {
    const of = shown.at(-1)?.of ?? root;
    const last = of.at(-1);
    if (typeof last === 'string' && typeof part === 'string') of[of.length - 1] = last + part;
    else if (part !== '') of.push(part);
  };
  for (const { text, leaf, closes, opens } of pieces) {
    for (const mark of closes) {
      if (around.pop() === null) put(mark);
      else shown.pop();
    }
    put(leaf ?? text);
    for (const { span, mark } of opens.reverse()) {
      const isIn = span.kind === 'link' && shown.some(({ kind }) => kind === 'link');
      const isShown = shown.length < DEEPEST && !isIn;
      if (isShown) {
        put(span);
        shown.push(span);
      } else put(mark);
      around.push(isShown ? span : null);
    }
  }
  return root;
}
