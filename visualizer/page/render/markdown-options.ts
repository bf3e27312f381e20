/** How the page reads Markdown: `build-page.ts` makes them constants of the lexer, which loses the code of all others. */
export const MARKDOWN_OPTIONS = { gfm: true, breaks: true, pedantic: false, silent: false, extensions: null };
