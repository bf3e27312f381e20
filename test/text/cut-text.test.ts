import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cutText, fitsBytes, utf8Length } from '../../text/cut-text.ts';

const NOTE = /\n\[(\d+) of (\d+) bytes were left out here\. Ask for less at a time\.\]\n/;
const anyText = fc.string({ unit: 'grapheme', maxLength: 2000 });
const longText = fc.string({ unit: 'grapheme', minLength: 1001, maxLength: 3000, size: 'max' });

test('a text that fits is unchanged', () => {
  fc.assert(
    fc.property(anyText, text => {
      expect(cutText(text, utf8Length(text))).toBe(text);
      expect(fitsBytes(text, utf8Length(text))).toBe(true);
    }),
  );
});

test('a cut text keeps its head and its tail as whole characters, and fits with its note', () => {
  fc.assert(
    fc.property(longText, fc.integer({ min: 100, max: 1000 }), (text, maxBytes) => {
      const cut = cutText(text, maxBytes);
      expect(utf8Length(cut)).toBeLessThanOrEqual(maxBytes);
      const [note = '', left, of] = NOTE.exec(cut) ?? [];
      const [head = '', tail = ''] = cut.split(note);
      expect(text.startsWith(head)).toBe(true);
      expect(text.endsWith(tail)).toBe(true);
      expect(utf8Length(head) + utf8Length(tail) + Number(left)).toBe(Number(of));
      expect(Number(of)).toBe(utf8Length(text));
      expect(cutText(cut, maxBytes)).toBe(cut);
    }),
  );
});

test('a limit too small for the note leaves only the note', () => {
  expect(cutText('x'.repeat(100), 1)).toMatch(/^\n\[100 of 100 bytes/);
});
