import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkDocuments } from '../../../examples/steward/check-documents.ts';
import { writeReport } from '../../../examples/steward/write-report.ts';

const FILES = [
  { path: 'sub/b.md', text: '## B\n\n[a](../a.md#gone)\n' },
  { path: 'a.md', text: '# A\n\n[none](none.md)\n\n## Twice\n\n## Twice\n' },
];

test('a report says how much was checked, every finding under its document, and what was not read', () => {
  const unread = [{ path: 'locked.md', reason: "EACCES: permission denied, open '/x/locked.md'" }];
  expect(writeReport(FILES, checkDocuments(FILES), unread)).toBe(`# Documentation report

2 documents checked: 4 findings (1 broken link, 1 dead anchor, 1 missing title, 1 duplicated heading).

## Findings

### \`a.md\`

- line 3, broken link: \`none.md\` does not exist
- line 7, duplicated heading: \`Twice\` is the heading of line 5 too

### \`sub/b.md\`

- line 1, missing title: the document has no title (a heading of the first level)
- line 3, dead anchor: \`../a.md#gone\` leads to a heading that \`a.md\` does not have

## Not read

These documents could not be read, so nothing in them was checked.

- \`locked.md\`: \`EACCES: permission denied, open '/x/locked.md'\`

## Documents

| Document | Lines | Findings |
| --- | --- | --- |
| \`a.md\` | 7 | 2 |
| \`sub/b.md\` | 3 | 2 |
`);
});

test('without findings the report says so', () => {
  expect(writeReport([{ path: 'a.md', text: '# A' }], [])).toContain('1 document checked: no findings.');
});

test('the order in which documents were read does not show', () => {
  const reversed = [...FILES].reverse();
  expect(writeReport(reversed, checkDocuments(reversed))).toBe(writeReport(FILES, checkDocuments(FILES)));
});

test('whatever documents are named and hold, the report is a sound document itself', () => {
  const name = fc.string({ minLength: 1 }).filter(part => !/[/\r\n]/.test(part) && part.trim() === part);
  const text = fc
    .array(fc.constantFrom('# <b>`x`</b>', '# <b>`x`</b>', '[a](<`# [b](c)`>)', '', '|'))
    .map(lines => lines.join('\n'));
  fc.assert(
    fc.property(fc.uniqueArray(fc.record({ path: name, text }), { selector: file => file.path }), files => {
      const report = writeReport(files, checkDocuments(files));
      const own = checkDocuments([{ path: 'about.md', text: report }]);
      expect(own.filter(finding => finding.kind !== 'duplicated-heading')).toEqual([]);
    }),
  );
});
