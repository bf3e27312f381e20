/** The files of the web page: already built, with no external resources. */
export interface PageAssets {
  /** The document of every view. */
  html: string;
  /** The file at a path such as `/assets/page.js`. `immutable`: its name changes with its content. */
  find(path: string): { body: string | Uint8Array; type: string; immutable?: boolean } | undefined;
}

/** The style that is in the document. */
export function styleOf(html: string): string {
  const begin = html.indexOf('<style>');
  return begin < 0 ? '' : html.slice(begin + '<style>'.length, html.indexOf('</style>', begin));
}

/** Whether an `Accept` header asks for a page: browsers name `text/html`, programs do not. */
export function prefersPage(accept: string | undefined): boolean {
  return accept?.includes('text/html') === true;
}
