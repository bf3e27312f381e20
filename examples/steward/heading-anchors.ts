const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00A0' };

/** In characters. The rest of a longer heading is ignored. */
const MAX_HEADING = 1_000;

/** Returns the visible text of a heading: link texts, code without backticks, no emphasis, HTML or images. */
export function readHeadingText(markdown: string): string {
  return markdown
    .slice(0, MAX_HEADING)
    .split(/(`+[^`]+`+)/)
    .map((piece, index) => (index % 2 === 1 ? piece.replace(/^`+ ?| ?`+$/g, '') : stripInline(piece)))
    .join('')
    .trim();
}

/** Returns a function that names the anchors of one document's headings in order, as GitHub does: repeated ones get -1, -2, … */
export function createAnchorNamer(): (heading: string) => string {
  const taken = new Map<string, number>();
  return heading => {
    const name = anchorOf(heading);
    let anchor = name;
    let repeats = taken.get(name) ?? 0;
    while (taken.has(anchor)) {
      repeats += 1;
      anchor = `${name}-${repeats}`;
    }
    taken.set(name, repeats);
    taken.set(anchor, taken.get(anchor) ?? 0);
    return anchor;
  };
}

function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-');
}

function stripInline(markdown: string): string {
  return markdown
    .replace(/!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])?/g, '')
    .replace(/\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])/g, '$1')
    .replace(/<!--.*?-->|<\/?[A-Za-z][^<>]*>/g, '')
    .replace(/(?<![\p{L}\p{N}\\])(_{1,3})(?=\S)(.+?)(?<=[^\s\\])\1(?![\p{L}\p{N}])/gu, '$2')
    .replace(/(?<!\\)\*+/g, '')
    .replace(/\\([!-/:-@[-`{-~])/g, '$1')
    .replace(/&(amp|lt|gt|quot|nbsp);/g, (entity, name: string) => ENTITIES[name] ?? entity);
}
