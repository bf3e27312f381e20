import { createAnchorNamer, readHeadingText } from '../steward/heading-anchors.ts';

/** A document to search and to cite: `id` is its path, with the anchor of its heading behind a `#`. */
export type Section = { id: string; title: string; text: string };

const HEADING = /^(#{1,6})[ \t]+(.+?)[ \t]*#*$/;
/** A longer line is no heading. */
const LONGEST_HEADING = 1_000;
const FENCE = /^\s*(```|~~~)/;

/** A Markdown file in sections, cut at its headings of level 2; a section that is only a heading is left out. */
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
      (fence === undefined && line.length <= LONGEST_HEADING && HEADING.exec(line)) || [];
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
