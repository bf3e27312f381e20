import { expect, test } from 'vitest';
import { diffLines } from '../../visualizer/page/calls/diff-lines.ts';
import { cutText, shorten, showSafely } from '../../visualizer/page/render/show-safely.ts';

test('controls, terminal commands and marks that reorder text are escaped; letters and emoji are not', () => {
  expect(showSafely('\u001b[31mred\u0007')).toBe('␛[31mred␇');
  expect(showSafely('a\u202eb\u2066c\u200fd\ufeff')).toBe('a\\u{202e}b\\u{2066}c\\u{200f}d\\u{feff}');
  expect(showSafely('\u009b1m\u007f\u2028')).toBe('\\x9b1m␡\\u{2028}');
  const plain = 'tabs\tand\nlines, مرحبا, 👩‍👩‍👧, naïve';
  expect(showSafely(plain)).toBe(plain);
});

test('a text is never cut inside a surrogate pair, and a cut text is marked as cut', () => {
  expect(cutText('ab😀', 3)).toBe('ab');
  expect(cutText('ab😀', 4)).toBe('ab😀');
  expect(shorten('x'.repeat(1_000_000), 10)).toBe(`${'x'.repeat(10)}…`);
  expect(shorten('one\n two', 10)).toBe('one two');
});

test('a diff keeps equal values and names each changed line', () => {
  const marks = { same: ' ', removed: '-', added: '+' };
  const show = (a: string, b: string) => diffLines(a, b).map(({ kind, text }) => `${marks[kind]}${text}`);
  expect(show('a\nb\nc', 'a\nB\nc\nd')).toEqual([' a', '-b', '+B', ' c', '+d']);
  expect(show('a', 'a')).toEqual([' a']);
  const [old, now] = ['o\n'.repeat(5_000), 'n\n'.repeat(5_000)];
  expect(diffLines(old, now)).toHaveLength(10_002);
});
