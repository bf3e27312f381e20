import { expect, test } from 'vitest';
import { showValue } from '../../cli/render/format.ts';
import { content } from '../../protocol/content/content.ts';
import { describeBreakpoint } from '../../protocol/debugger/describe-breakpoint.ts';
import { formatCost } from '../../protocol/listing/cost.ts';
import { sketchValue } from '../../visualizer/page/model/state-diff.ts';
import { describeShownCall } from '../../visualizer/page/render/describe-call.ts';
import { diffLines } from '../../visualizer/page/render/diff-lines.ts';
import {
  formatLine,
  formatOutput,
  formatPreview,
  formatState,
  showSafe,
  takeCharacters,
  takePages,
} from '../../visualizer/page/render/format.ts';

test('controls, terminal commands and marks that reorder text are escaped; letters and emoji are not', () => {
  expect(showSafe('\u001b[31mred\u0007')).toBe('␛[31mred␇');
  expect(showSafe('a\u202eb\u2066c\u200fd\ufeff')).toBe('a\\u{202e}b\\u{2066}c\\u{200f}d\\u{feff}');
  expect(showSafe('\u009b1m\u007f\u2028')).toBe('\\x9b1m␡\\u{2028}');
  const plain = 'tabs\tand\nlines, مرحبا, 👩‍👩‍👧, naïve';
  expect(showSafe(plain)).toBe(plain);
});

test('a text is never cut inside a surrogate pair, and a cut text is marked as cut', () => {
  expect(takeCharacters('ab😀', 3)).toBe('ab');
  expect(takeCharacters('ab😀', 4)).toBe('ab😀');
  expect(formatLine('x'.repeat(1_000_000), 10)).toBe(`${'x'.repeat(10)}…`);
  expect(formatLine('one\n two', 10)).toBe('one two');
});

test('a diff keeps equal values and names each changed line', () => {
  const marks = { same: ' ', removed: '-', added: '+' };
  const show = (a: string, b: string) => diffLines(a, b).map(({ kind, text }) => `${marks[kind]}${text}`);
  expect(show('a\nb\nc', 'a\nB\nc\nd')).toEqual([' a', '-b', '+B', ' c', '+d']);
  expect(show('a', 'a')).toEqual([' a']);
  const [old, now] = ['o\n'.repeat(5_000), 'n\n'.repeat(5_000)];
  expect(diffLines(old, now)).toHaveLength(10_002);
});

test('in a preview, images and files of a result are a few words', () => {
  const output = content(
    [
      'Here:',
      { type: 'image', data: new Uint8Array(3_000), mediaType: 'image/png' },
      { type: 'image', url: 'https://x.test/dot.png' },
      { type: 'file', data: new Uint8Array(2_000_000), mediaType: 'application/pdf', name: 'paper.pdf' },
    ],
    { data: { width: 3 } },
  );
  expect(formatOutput(output)).toBe(
    'Here:\n[image/png image, 3 KiB]\n[image, https://x.test/dot.png]\n[application/pdf file "paper.pdf", 1.9 MiB]',
  );
  expect(showValue(output, 60)).toMatch(/^Here: \[image\/png image, 3 KiB\]/);
});

test('a preview takes the beginning of a value, whatever its size', () => {
  expect(formatPreview({ a: [1, 'x\u202e', null], b: {}, c: [] }, 90)).toBe(
    '{ "a": [ 1, "x\\u{202e}", null ], "b": {}, "c": [] }',
  );
  const large = { rows: Array.from({ length: 1_000_000 }, (_, at) => at), text: 'x'.repeat(1_000_000) };
  expect(formatPreview(large, 24)).toBe('{ "rows": [ 0, 1, 2, 3,…');
  expect(formatPreview([{ text: 'x'.repeat(1_000_000) }], 24)).toMatch(/^\[ \{ "text": "x{11}…$/);
});

test('the pages of a text end at lines, add up to it, and split no character', () => {
  const text = `${'line\n'.repeat(9_000)}${'😀'.repeat(30_001)}`;
  const { pages, left } = takePages(text, 100);
  expect(pages.join('')).toBe(text);
  expect(left).toBe(0);
  expect(pages[0]?.endsWith('line\n')).toBe(true);
  for (const page of pages) expect(page.length).toBeLessThanOrEqual(10_000);
  for (const page of pages) expect(page.isWellFormed()).toBe(true);
  expect(takePages(text, 2)).toEqual({ pages: pages.slice(0, 2), left: text.length - 20_000 });
});

test.each([
  [{ orderId: 'B-2', cents: 4200, note: 'parcel 2 of 6' }, 'refund of $42.00 for B-2'],
  [{ cents: 199, currency: 'EUR' }, 'refund of €1.99'],
  [{ orderId: 'B-2', cents: 4200, currency: 'JPY' }, 'refund (orderId B-2, cents 4200, currency JPY)'],
  [{ from_id: 1, to_id: 2, cents: 4200 }, 'refund (from_id 1, to_id 2, cents 4200)'],
  [{ orderId: 'B-2', cents: '4200' }, 'refund (orderId B-2, cents 4200)'],
  [{ a: 1, b: 'x\u202ey', c: null, d: 4 }, 'refund (a 1, b x\\u{202e}y, c null, …)'],
  [{}, 'refund'],
  ['all', 'refund (all)'],
])('a call with the input %j is "%s" in the words of a decision', (input, words) => {
  expect(describeShownCall('refund', input)).toBe(words);
});

test('a breakpoint whose value was left out of a shared run is shown without it', () => {
  const breakpoint = JSON.parse('{ "tool": "refund", "where": { "path": "input.cents", "op": ">" } }');
  expect(describeBreakpoint(breakpoint)).toBe('before calls of refund, where input.cents > …');
});

test('numbers show what a person writes, not what binary fractions add', () => {
  expect(formatState({ cost: 0.0021999999999999997, of: [0.1 + 0.2, 4200] })).toBe(
    '{"cost":0.0022,"of":[0.3,4200]}',
  );
  expect(sketchValue(0.0045449999999999996)).toBe('0.004545');
  expect([0, 0.00001, 0.0022, 12.3].map(formatCost)).toEqual([
    '$0',
    'less than $0.0001',
    '$0.0022',
    '$12.30',
  ]);
});
