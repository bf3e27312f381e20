import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkDocuments } from '../../../examples/steward/check-documents.ts';
import { writeReport } from '../../../examples/steward/write-report.ts';

const FILES = [
  { path: 'sub/b.md', text: '## B\n\n[a](../a.md#gone)\n' },
  { path: 'a.md', text: '# A\n\n[none](none.md)\n\n## Twice\n\n## Twice\n' },
];

test('a report has the number of documents, every finding under its document, and unread documents', () => {
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

test('a report without findings says that there are none', () => {
  expect(writeReport([{ path: 'a.md', text: '# A' }], [])).toContain('1 document checked: no findings.');
});

test('the report does not depend on the order in which documents were read', () => {
  const reversed = [...FILES].reverse();
  expect(writeReport(reversed, checkDocuments(reversed))).toBe(writeReport(FILES, checkDocuments(FILES)));
});

test('for any document names and contents, the report is a valid document itself', () => {
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
