import {
  compare,
  type DocumentFile,
  FINDING_KINDS,
  type Finding,
  type FindingKind,
} from './check-documents.ts';
import { codeSpan } from './code-span.ts';
import { readBlocks } from './markdown-blocks.ts';

/** A document that could not be read, and the tool's error. */
export type UnreadFile = { path: string; reason: string };

const KIND_NAMES: Record<FindingKind, [one: string, many: string]> = {
  'broken-link': ['broken link', 'broken links'],
  'dead-anchor': ['dead anchor', 'dead anchors'],
  'missing-title': ['missing title', 'missing titles'],
  'duplicated-heading': ['duplicated heading', 'duplicated headings'],
};

/** Returns the findings as a Markdown document, independent of the order of `files`. */
export function writeReport(
  files: readonly DocumentFile[],
  findings: readonly Finding[],
  unread: readonly UnreadFile[] = [],
): string {
  const sorted = [...files].sort((a, b) => compare(a.path, b.path));
  const sections = [
    '# Documentation report',
    `${countDocuments(files.length)} checked: ${countFindings(findings)}.`,
  ];
  const affected = [...new Set(findings.map(finding => finding.path))].sort(compare);
  if (affected.length > 0) sections.push('## Findings');
  for (const path of affected) {
    const own = findings.filter(finding => finding.path === path);
    sections.push(`### ${codeSpan(path)}`, own.map(writeFinding).join('\n'));
  }
  if (unread.length > 0) {
    const lines = unread.map(file => `- ${codeSpan(file.path)}: ${codeSpan(file.reason)}`);
    sections.push(
      '## Not read',
      'These documents could not be read, so nothing in them was checked.',
      lines.join('\n'),
    );
  }
  if (sorted.length > 0) sections.push('## Documents', writeTable(sorted, findings));
  return `${sections.join('\n\n')}\n`;
}

/** Returns one finding as a list entry, without its path. */
function writeFinding(finding: Finding): string {
  return `- line ${finding.line}, ${nameKind(finding.kind, 1)}: ${finding.message}`;
}

/** Returns a summary such as `3 findings (2 broken links, 1 missing title)`. */
export function countFindings(findings: readonly Finding[]): string {
  if (findings.length === 0) return 'no findings';
  const kinds = FINDING_KINDS.map(kind => ({ kind, count: findings.filter(one => one.kind === kind).length }))
    .filter(({ count }) => count > 0)
    .map(({ kind, count }) => `${count} ${nameKind(kind, count)}`);
  return `${findings.length} ${findings.length === 1 ? 'finding' : 'findings'} (${kinds.join(', ')})`;
}

/** Returns `1 document` or `N documents`. */
export function countDocuments(count: number): string {
  return `${count} ${count === 1 ? 'document' : 'documents'}`;
}

/** Returns the name of a kind of finding, singular or plural. */
export function nameKind(kind: FindingKind, count: number): string {
  return KIND_NAMES[kind][count === 1 ? 0 : 1];
}

function writeTable(files: readonly DocumentFile[], findings: readonly Finding[]): string {
  const rows = files.map(file => {
    const own = findings.filter(finding => finding.path === file.path).length;
    return `| ${codeSpan(file.path).replaceAll('|', '\\|')} | ${readBlocks(file.text).lines} | ${own} |`;
  });
  return ['| Document | Lines | Findings |', '| --- | --- | --- |', ...rows].join('\n');
}
