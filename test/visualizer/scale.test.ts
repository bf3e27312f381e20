import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const FOLDER = new URL('../../visualizer/page/styles/', import.meta.url);
const SHEETS = readdirSync(FOLDER).map(name => ({ name, text: readFileSync(new URL(name, FOLDER), 'utf8') }));

/** In CSS px. What is larger is the place of something, not space. */
const SPACES = [0, 1, 2, 4, 8, 12, 16, 24, 32];
const LARGEST = 32;

test.each(SHEETS)('$name has all its space from one scale', ({ text }) => {
  for (const [declaration, value = ''] of text.matchAll(/\b(?:padding|margin|gap)[\w-]*:([^;]+);/g))
    for (const [, size] of value.matchAll(/-?([\d.]+)px/g))
      if (Number(size) <= LARGEST) expect(SPACES, declaration).toContain(Number(size));
});

test.each(SHEETS.filter(({ name }) => name !== 'tokens.css'))(
  '$name has all its type from one scale',
  ({ text }) => {
    const drawn = text.replaceAll(/\.(?:sketch|cursor|crash-mark)[^{]*\{[^}]*\}/g, '');
    for (const [declaration, size = ''] of drawn.matchAll(/\bfont(?:-size)?: ([^;]+);/g))
      expect(size, declaration).toMatch(/^(?:inherit|1rem|var\(--t-(?:small|large|title|figure)\))/);
  },
);
