/** Targets of links to documents: a path, and perhaps a heading. `SECURITY.md` is a page of the site too. */
const LINK = /(?<=\]\()(docs\/[^)#\s]+|SECURITY)\.md(#[^)\s]*)?(?=\))/g;

/**
 * README.md with the addresses of the site in the place of its links to pages of docs/, so that they lead there from a
 * registry. `named`: the pages that docs/contents.json names. Throws for a page that the site does not have.
 */
export function linkToSite(readme: string, site: string, named: readonly string[]): string {
  return readme.replace(LINK, (_, path: string, heading = '') => {
    const page = path === 'SECURITY' ? 'security' : path.slice('docs/'.length);
    if (page !== 'index' && !named.some(name => isNamed(name, page)))
      throw new Error(`README.md links to ${path}.md, which docs/contents.json does not name.`);
    return `${site}/${fileOf(page)}${heading}`;
  });
}

/** `decisions/0*` names every page of the folder that begins so. */
function isNamed(name: string, page: string): boolean {
  if (!name.endsWith('*')) return name === page;
  const begin = name.slice(0, -1);
  return page.startsWith(begin) && !page.slice(begin.length).includes('/');
}

/** As VitePress names the files of pages; the address of an index is its folder. */
function fileOf(page: string): string {
  return /(?:^|\/)(?:README|index)$/.test(page) ? page.replace(/(?:README|index)$/, '') : `${page}.html`;
}
