/** A key as `watch` names it: a character as it is, or one of `NAMED`. A paste is one key, whatever it has. */
export type Key = { name: string; text?: string };

const NAMED: Readonly<Record<string, string>> = {
  '\r': 'Enter',
  '\n': 'Enter',
  '\t': 'Tab',
  '\u007f': 'Backspace',
  '\b': 'Backspace',
  '\u0003': 'Ctrl+C',
  '\u0004': 'Ctrl+D',
  '\u0015': 'Ctrl+U',
  '\u001a': 'Ctrl+Z',
  '\u001b': 'Escape',
  '\u001b[Z': 'Shift+Tab',
};

/** The last part of an escape sequence, after `ESC [` or `ESC O`. */
const SEQUENCES: Readonly<Record<string, string>> = {
  A: 'Up',
  B: 'Down',
  H: 'Home',
  F: 'End',
  '1~': 'Home',
  '4~': 'End',
  '7~': 'Home',
  '8~': 'End',
  '5~': 'PageUp',
  '6~': 'PageDown',
};

const PASTE = { begin: '\u001b[200~', end: '\u001b[201~' };
/** A sequence, a bare Escape, or one character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals send them.
const ONE_KEY = /\u001b(?:[[O][0-9;?<=>]*[A-Za-z~])?|./suy;
const LONGEST_PASTE = 10_000;

/** Reads what a terminal sends as keys. It keeps a paste that has not ended. */
export class KeyReader {
  #pasted: string | null = null;

  read(chunk: string): Key[] {
    const keys: Key[] = [];
    for (let rest = chunk; rest !== ''; ) {
      if (this.#pasted !== null) rest = this.#readPaste(rest, this.#pasted, keys);
      else if (rest.startsWith(PASTE.begin)) {
        this.#pasted = '';
        rest = rest.slice(PASTE.begin.length);
      } else {
        ONE_KEY.lastIndex = 0;
        const [sequence = rest.slice(0, 1)] = ONE_KEY.exec(rest) ?? [];
        const name = nameKey(sequence);
        if (name !== undefined) keys.push({ name });
        rest = rest.slice(sequence.length);
      }
    }
    return keys;
  }

  #readPaste(rest: string, before: string, keys: Key[]): string {
    const end = rest.indexOf(PASTE.end);
    const text = (before + (end < 0 ? rest : rest.slice(0, end))).slice(0, LONGEST_PASTE);
    this.#pasted = end < 0 ? text : null;
    if (end < 0) return '';
    keys.push({ name: 'paste', text });
    return rest.slice(end + PASTE.end.length);
  }
}

function nameKey(sequence: string): string | undefined {
  const named = NAMED[sequence];
  if (named !== undefined) return named;
  if (sequence.startsWith('\u001b')) return SEQUENCES[sequence.slice(2)];
  return sequence < ' ' ? undefined : sequence;
}
