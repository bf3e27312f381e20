/** The files of the web page: already built, with no external resources. */
export interface PageAssets {
  /** The document of a view, by its URL path, such as `/runs/run_1`: they differ only in the files they load first. */
  html(path: string): string;
  /** The file at a path such as `/assets/page.js`. `immutable`: its name changes with its content. */
  find(path: string): { body: string | Uint8Array; type: string; immutable?: boolean } | undefined;
}

/** Whether an `Accept` header asks for a page: browsers name `text/html`, programs do not. */
export function prefersPage(accept: string | undefined): boolean {
  return accept?.includes('text/html') === true;
}
