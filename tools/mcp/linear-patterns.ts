import { RE2JS } from 're2js';

/** A compiled `pattern`. `work` is the approximate cost per character of text. */
export type LinearPattern = { work: number; matches(text: string): boolean };

/** The maximum length of a pattern, in characters. */
const MAX_LENGTH = 500;

/** The maximum size of a pattern: its length times the sum of its counted repetitions. */
const MAX_SIZE = 20_000;

/** The maximum total size of the patterns of one schema. */
const MAX_TOTAL_SIZE = 60_000;

/** The patterns of one schema, each compiled once. Patterns beyond `MAX_TOTAL_SIZE` are not compiled. */
export class LinearPatterns {
  readonly #compiled = new Map<string, LinearPattern | null>();
  #left = MAX_TOTAL_SIZE;

  /** Returns the compiled pattern, or `null` if it cannot be run; see `compileLinear`. */
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
 * Compiles an untrusted pattern to an RE2 program, which runs in linear time. A `RegExp` can need exponential
 * time: `^(a+)+$` takes 2^n steps for n letters. Returns `null` for a pattern that RE2 does not support
 * (lookaround, backreferences, repetitions above 1,000), an invalid one, and one that exceeds the size limits.
 * `\s`, `\w`, `\d` and `\b` match ASCII only.
 */
function compileLinear(pattern: string): LinearPattern | null {
  if (pattern.length > MAX_LENGTH || sizeOf(pattern) > MAX_SIZE) return null;
  try {
    const program = RE2JS.compile(RE2JS.translateRegExp(pattern));
    return { work: program.programSize(), matches: text => program.test(text) };
  } catch {
    return null;
  }
}

function sizeOf(pattern: string): number {
  if (pattern.length > MAX_LENGTH) return 0;
  let repetitions = 1;
  for (const [, least = '', most = ''] of pattern.matchAll(/\{(\d{1,9})(?:,(\d{0,9}))?\}/g)) {
    repetitions += Math.max(Number(least), Number(most));
  }
  return pattern.length * repetitions;
}
