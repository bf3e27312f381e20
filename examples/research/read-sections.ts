import { createAnchorNamer, readHeadingText } from '../steward/heading-anchors.ts';

/** A document to search and cite. `id` is its path, followed by `#` and the anchor of its heading. */
export type Section = { id: string; title: string; text: string };

const HEADING = /^(#{1,6})[ \t]+(.+?)[ \t]*#*$/;
/** In characters. A longer line is not a heading. */
const MAX_HEADING = 1_000;
const FENCE = /^\s*(```|~~~)/;

/** Splits a Markdown file into sections at its headings of level 2. Sections without text are left out. */
export function readSections(path: string, markdown: string): Section[] {
  const nameAnchor = createAnchorNamer();
  let title = path;
  let section = { id: path, title, lines: [] as string[] };
  const sections = [section];
  let fence: string | undefined;
  for (const line of markdown.split(/\r?\n/)) {
    const mark = FENCE.exec(line)?.[1];
    if (mark !== undefined && (fence === undefined || fence === mark))
      fence = fence === undefined ? mark : undefined;
    const [, level = '', words = ''] =
      (fence === undefined && line.length <= MAX_HEADING && HEADING.exec(line)) || [];
    const heading = readHeadingText(words);
    const anchor = level === '' ? '' : nameAnchor(heading);
    if (level === '#') {
      title = heading;
      section.title = title;
    } else if (level === '##') {
      section = { id: `${path}#${anchor}`, title: `${title}: ${heading}`, lines: [] };
      sections.push(section);
    } else section.lines.push(line);
  }
  return sections
    .map(({ lines, ...rest }) => ({ ...rest, text: lines.join('\n').trim() }))
    .filter(({ text }) => text !== '');
}
