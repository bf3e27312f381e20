const COMMENT = /<!--[\s\S]*?-->/g;
/** With the info string; a fence ends with as many marks as it began with. */
const FENCE = /^(`{3,})[^\n]*\n[\s\S]*?^\1[ \t]*$/gm;
/** A heading, a table, markup, a quote, a list. */
const NO_PROSE = /^(?:#|\||<|>|[-*] |\d+\. )/;
const LAST_SENTENCE = /(?<=[.?!] )[^.?!]*:$/;

/** The first paragraph of a page, for lists of pages: without a last sentence that leads to what follows it. */
export function summarizePage(source: string): string {
  const blocks = source
    .replace(COMMENT, '')
    .replace(FENCE, '')
    .split(/\n\s*\n/);
  const prose = blocks.map(block => block.trim()).find(block => block !== '' && !NO_PROSE.test(block)) ?? '';
  return prose
    .replaceAll(/\s*\n\s*/g, ' ')
    .replace(LAST_SENTENCE, '')
    .trim();
}
