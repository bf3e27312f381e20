/** The page as the server shows it: built elsewhere, and self-contained. */
export interface PageAssets {
  /** The document for `/` and `/runs/:id`. */
  html(): string;
  /** What stands at a path as it is in the URL, such as `/assets/page.js`; `type` is its media type. */
  find(path: string): { body: string | Uint8Array; type: string } | undefined;
}

/** Whether a request would rather have a page than JSON: browsers name `text/html`, programs do not. */
export function prefersPage(accept: string | undefined): boolean {
  return accept?.includes('text/html') === true;
}
