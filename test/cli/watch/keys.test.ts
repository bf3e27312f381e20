import { describe, expect, test } from 'vitest';
import { KeyPresses } from '../../../cli/watch/key-presses.ts';
import { KeyReader } from '../../../cli/watch/keys.ts';
import { fitText, widthOf, wrapText, wrapWords } from '../../../cli/watch/text-width.ts';

/** Presses of keys at times in ms, of a clock that waits for what was scheduled. */
class Presses {
  readonly acted: string[] = [];
  #timers: { at: number; run(): void }[] = [];
  #now = 0;
  readonly #presses = new KeyPresses((ms, run) => {
    const timer = { at: this.#now + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter(one => one !== timer);
    };
  });

  press(at: number, key = 'a', id = key): this {
    this.wait(at);
    if (key === 'Enter') this.#presses.confirm(at);
    else this.#presses.press(key, { id, words: id, act: () => this.acted.push(id) }, at);
    return this;
  }

  wait(until: number): this {
    for (const { at, run } of this.#timers.filter(one => one.at <= until)) {
      this.#now = at;
      run();
    }
    this.#timers = this.#timers.filter(one => one.at > until);
    this.#now = until;
    return this;
  }
}

describe('two presses of a key', () => {
  test('act when they are 600 ms apart', () => {
    expect(new Presses().press(0).press(600).wait(10_000).acted).toEqual(['a']);
    expect(new Presses().press(0).press(599).wait(10_000).acted).toEqual([]);
  });

  test('act a press and Enter, but not in one burst', () => {
    expect(new Presses().press(0).press(100, 'Enter').acted).toEqual(['a']);
    expect(new Presses().press(0).press(0, 'Enter').wait(10_000).acted).toEqual([]);
  });

  test.each([250, 400, 660, 1_000])('a key that is held counts for nothing, repeated after %i ms', delay => {
    const held = new Presses().press(0);
    for (let repeat = 0; repeat < 100; repeat += 1) held.press(delay + repeat * 40);
    expect(held.wait(100_000).acted).toEqual([]);
  });

  test('after a held key, another press acts', () => {
    const held = new Presses().press(0).press(660).press(700).press(740);
    expect(held.press(1_400).wait(2_000).acted).toEqual(['a']);
  });

  test('about two things decide neither', () => {
    expect(new Presses().press(0, 'a', 'one').press(700, 'a', 'two').wait(10_000).acted).toEqual([]);
  });

  test('a held Enter confirms nothing', () => {
    const presses = new Presses().press(0, 'Enter').press(300).press(450, 'Enter');
    expect(presses.wait(10_000).acted).toEqual([]);
  });
});

describe('keys of a terminal', () => {
  const read = (...chunks: string[]) => {
    const reader = new KeyReader();
    return chunks.flatMap(chunk => reader.read(chunk)).map(({ name, text }) => text ?? name);
  };

  test('are read with their names, and unknown sequences are left out', () => {
    expect(read('a\u001b[B\u001b[5~\u001bOA\r\t\u001b[1;5C\u001b[?62c\u0001é漢')).toEqual([
      ...['a', 'Down', 'PageUp', 'Up', 'Enter', 'Tab', 'é', '漢'],
    ]);
    expect(read('\u001b')).toEqual(['Escape']);
    expect(read('\u0003')).toEqual(['Ctrl+C']);
  });

  test('a paste is one key, also in several chunks', () => {
    expect(read('\u001b[200~a\ra', 'a\r', '\u001b[201~q')).toEqual(['a\raa\r', 'q']);
  });
});

describe('widths', () => {
  test('count cells: wide characters, emoji and marks', () => {
    expect(['abc', '漢字', '👩‍👩‍👧', 'e\u0301', '한', '⚠️', ''].map(widthOf)).toEqual([3, 4, 2, 1, 2, 2, 0]);
  });

  test('a fitted text has exactly its width', () => {
    for (const text of ['abc', '漢字かな', 'a漢b字c', '👍👍👍', 'e\u0301e\u0301', ''])
      for (let width = 0; width < 12; width += 1) expect(widthOf(fitText(text, width))).toBe(width);
    expect(fitText('abcdef', 4)).toBe('abc…');
  });

  test('a text is wrapped between its words', () => {
    expect(wrapWords('one two 漢字漢字 three', 7)).toEqual(['one two', '漢字漢', '字', 'three']);
    expect(wrapWords('', 7)).toEqual(['']);
  });

  test('a wrapped text loses nothing', () => {
    for (const text of ['abcdefgh', 'a漢b字c👍', ''])
      for (let width = 2; width < 9; width += 1) {
        const lines = wrapText(text, width);
        expect(lines.join('')).toBe(text);
        for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(width);
      }
  });
});
