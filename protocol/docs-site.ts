/** The address of the site of docs/; unknown here. The build of a release puts it in the place of this file: see build.ts. */
export const DOCS_SITE: string | undefined = undefined;
