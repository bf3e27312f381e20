import { codeSpan } from './code-span.ts';
import { createAnchorNamer, readHeadingText } from './heading-anchors.ts';
import { readBlocks } from './markdown-blocks.ts';
import { type MarkdownLink, type ReferenceUse, readInline, takeDefinitions } from './markdown-links.ts';

/** A Markdown file: `path` is relative to the folder, with `/` between its parts. */
export type DocumentFile = { path: string; text: string };

export const FINDING_KINDS = ['broken-link', 'dead-anchor', 'missing-title', 'duplicated-heading'] as const;
export type FindingKind = (typeof FINDING_KINDS)[number];

/** `line` counts from 1. `message` is one clause of Markdown that quotes the document as code. */
export type Finding = { path: string; line: number; kind: FindingKind; message: string };

/** The steward's report at the top of its folder. It is not checked itself. */
export const REPORT_NAME = 'REPORT.md';

type Heading = { text: string; line: number; level: number };
type Outline = {
  path: string;
  headings: Heading[];
  anchors: Set<string>;
  links: MarkdownLink[];
  uses: ReferenceUse[];
  labels: Set<string>;
  hasTitle: boolean;
};

/**
 * Checks the links and headings of Markdown files. `paths` lists all existing files and folders of any type: the
 * target of a link exists if it is in the list, or is a folder that contains an entry. Links with a scheme
 * (`https:`, `mailto:`) are not checked. Returns the findings sorted by path, then line.
 */
export function checkDocuments(files: readonly DocumentFile[], paths: readonly string[] = []): Finding[] {
  const checked = files.filter(file => file.path !== REPORT_NAME);
  const outlines = checked.map(readOutline);
  const known = collectPaths([...paths, ...files.map(file => file.path)]);
  const byPath = new Map(outlines.map(outline => [outline.path.normalize(), outline]));
  return outlines
    .flatMap(outline => [
      ...outline.links.flatMap(link => checkLink(outline, link, known, byPath)),
      ...checkUses(outline),
      ...checkHeadings(outline),
    ])
    .sort((a, b) => compare(a.path, b.path) || a.line - b.line || compare(a.kind, b.kind));
}

function readOutline(file: DocumentFile): Outline {
  const document = readBlocks(file.text);
  const nameAnchor = createAnchorNamer();
  const outline: Outline = {
    path: file.path,
    headings: [],
    anchors: new Set(['', 'top']),
    links: [],
    uses: [],
    labels: new Set(),
    hasTitle: document.hasFrontMatterTitle,
  };
  for (const block of document.blocks) {
    let { text, line } = block;
    if (block.type === 'heading') {
      const heading = { text: readHeadingText(text), line, level: block.level };
      outline.headings.push(heading);
      outline.anchors.add(nameAnchor(heading.text));
      if (heading.level === 1 && heading.text !== '') outline.hasTitle = true;
    } else {
      const definitions = takeDefinitions(text, line);
      for (const label of definitions.labels) outline.labels.add(label);
      outline.links.push(...definitions.links);
      ({ rest: text, line } = definitions);
    }
    const inline = readInline(text, line);
    outline.links.push(...inline.links);
    outline.uses.push(...inline.uses);
    for (const anchor of inline.anchors) outline.anchors.add(anchor);
  }
  return outline;
}

function checkLink(
  from: Outline,
  link: MarkdownLink,
  known: Set<string>,
  outlines: Map<string, Outline>,
): Finding[] {
  if (/^(?:[a-z][a-z0-9+.-]*:|\/\/)/i.test(link.target)) return [];
  const at = { path: from.path, line: link.line };
  if (link.target === '') return [{ ...at, kind: 'broken-link', message: 'a link has no target' }];
  const target = codeSpan(link.target);
  const hash = link.target.indexOf('#');
  const fragment = hash === -1 ? null : decode(link.target.slice(hash + 1));
  const written = decode((hash === -1 ? link.target : link.target.slice(0, hash)).replace(/\?.*$/s, ''));
  const resolved = written === '' ? from.path.normalize() : resolvePath(from.path, written);
  if (resolved === null) {
    return [{ ...at, kind: 'broken-link', message: `${target} leads out of the folder` }];
  }
  if (!known.has(resolved)) {
    const hint = suggestPath(resolved, known);
    const leads =
      written === resolved
        ? `${target} does not exist`
        : `${target} leads to ${codeSpan(resolved)}, which does not exist`;
    const message = hint ? `${leads}; there is ${codeSpan(hint)}` : leads;
    return [{ ...at, kind: 'broken-link', message }];
  }
  const outline = outlines.get(resolved);
  if (fragment === null || !outline || outline.anchors.has(fragment)) return [];
  const lower = fragment.toLowerCase();
  const hint = outline.anchors.has(lower) ? `; there is ${codeSpan(`#${lower}`)}` : '';
  const message = `${target} leads to a heading that ${codeSpan(resolved)} does not have${hint}`;
  return [{ ...at, kind: 'dead-anchor', message }];
}

function checkUses(outline: Outline): Finding[] {
  return outline.uses
    .filter(use => !outline.labels.has(use.label))
    .map(use => ({
      path: outline.path,
      line: use.line,
      kind: 'broken-link' as const,
      message: `${codeSpan(`[${use.label}]`)} is used as a link, but nothing defines it`,
    }));
}

function checkHeadings(outline: Outline): Finding[] {
  const findings: Finding[] = [];
  if (!outline.hasTitle) {
    const message = 'the document has no title (a heading of the first level)';
    findings.push({ path: outline.path, line: 1, kind: 'missing-title', message });
  }
  const first = new Map<string, Heading>();
  for (const heading of outline.headings) {
    const key = heading.text.normalize().toLowerCase();
    const earlier = first.get(key);
    if (!earlier) first.set(key, heading);
    else if (key !== '') {
      const message = `${codeSpan(heading.text)} is the heading of line ${earlier.line} too`;
      findings.push({ path: outline.path, line: heading.line, kind: 'duplicated-heading', message });
    }
  }
  return findings;
}

function collectPaths(paths: string[]): Set<string> {
  const known = new Set(['']);
  for (const path of paths) {
    const parts = path.normalize().split('/').filter(Boolean);
    for (let end = 1; end <= parts.length; end += 1) known.add(parts.slice(0, end).join('/'));
  }
  return known;
}

function resolvePath(from: string, target: string): string | null {
  const parts = target.startsWith('/') ? [] : from.split('/').slice(0, -1);
  for (const part of target.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') parts.push(part);
    else if (parts.pop() === undefined) return null;
  }
  return parts.join('/').normalize();
}

function suggestPath(missing: string, known: Set<string>): string | undefined {
  const wanted = nameOf(missing);
  const candidates = [...known].filter(path => [wanted, `${wanted}.md`].includes(nameOf(path)));
  return candidates.length === 1 ? candidates[0] : undefined;
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1).toLowerCase();
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Compares two strings by code units, for `sort`. */
export function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
