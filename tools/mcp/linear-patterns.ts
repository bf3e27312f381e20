import { RE2JS } from 're2js';

/** A schema's `pattern`, as it is run here. `work`: about how much one character of a text costs. */
export type LinearPattern = { work: number; matches(text: string): boolean };

/** Of a pattern no more is compiled, in characters. */
const LONGEST = 500;

/** How large the program of a pattern may become: its length times all its counted repetitions. */
const LARGEST = 20_000;

/** How large all programs of a schema may become together. */
const LARGEST_TOGETHER = 60_000;

/** The patterns of one schema, each compiled once. What goes beyond `LARGEST_TOGETHER` is not run. */
export class LinearPatterns {
  readonly #compiled = new Map<string, LinearPattern | null>();
  #left = LARGEST_TOGETHER;

  /** `null` for a pattern that is not run; see `compileLinear`. */
  get(pattern: string): LinearPattern | null {
    const known = this.#compiled.get(pattern);
    if (known !== undefined) return known;
    this.#left -= sizeOf(pattern);
    const compiled = this.#left < 0 ? null : compileLinear(pattern);
    this.#compiled.set(pattern, compiled);
    return compiled;
  }
}

/**
 * A pattern from outside, as a program that reads a text once (RE2), never as a `RegExp`, which can take
 * longer than anybody waits: `^(a+)+$` needs 2^n steps for n letters. `null` for a pattern with what such a
 * program does not have (lookaround, backreferences, repetitions above 1,000), for one that is not valid,
 * and for one that is too long or repeats too much. `\s`, `\w`, `\d` and `\b` mean ASCII.
 */
function compileLinear(pattern: string): LinearPattern | null {
  if (pattern.length > LONGEST || sizeOf(pattern) > LARGEST) return null;
  try {
    const program = RE2JS.compile(RE2JS.translateRegExp(pattern));
    return { work: program.programSize(), matches: text => program.test(text) };
  } catch {
    return null;
  }
}

function sizeOf(pattern: string): number {
  if (pattern.length > LONGEST) return 0;
  let repetitions = 1;
  for (const [, least = '', most = ''] of pattern.matchAll(/\{(\d{1,9})(?:,(\d{0,9}))?\}/g)) {
    repetitions += Math.max(Number(least), Number(most));
  }
  return pattern.length * repetitions;
}
