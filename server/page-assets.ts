/** The files of the web page: already built, with no external resources. */
export interface PageAssets {
  /** The document for `/` and `/runs/:id`. */
  html(): string;
  /** The file at a URL path such as `/assets/page.js`; `type` is its media type. */
  find(path: string): { body: string | Uint8Array; type: string } | undefined;
}

/** Whether an `Accept` header asks for a page: browsers name `text/html`, programs do not. */
export function prefersPage(accept: string | undefined): boolean {
  return accept?.includes('text/html') === true;
}
