import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** A TypeScript block of a page. */
export type GuideBlock = {
  /** The page and the number of the block on it, such as `guide/approvals-2`. */
  title: string;
  /** The path of its page in docs/, without the extension; `README` is that of the repository. */
  page: string;
  /** The file that the block becomes: named in its first line (`// agent.ts`). */
  file: string;
  /** Whether it names its file, so that the other blocks of the page can import it. */
  isNamed: boolean;
  code: string;
  /** `hidden`: a file that the page does not show. `test`: it runs in vitest. `peers`: it imports packages of bench/peers. */
  kind: 'run' | 'test' | 'compiled' | 'hidden' | 'peers';
  /** The turns of the scripted model in `AGENTCHART_MODEL`. */
  turns: readonly unknown[];
  /** What it prints, from the `text` block that follows it; `undefined` without one. */
  prints: string | undefined;
};

/**
 * In front of a block, a comment that readers do not see gives the turns of its model: `<!-- model: [{ "text": "…" }] -->`.
 * `<!-- compiled -->` marks a block that needs a server, a key, a browser or minutes, `<!-- peers -->` one that needs the
 * packages of bench/peers. `<!-- file: agent.ts`, code and `-->` give a file that blocks of the page import and that it does
 * not show. A block whose file is called `….test.ts` is a test.
 */
const BLOCK =
  /<!-- file: ([\w.-]+)\n([\s\S]*?)-->|(?:<!-- (compiled|peers|model: [\s\S]*?) -->\n+)?^```(tsx?)\n([\s\S]*?)^```(?:\n+```text\n([\s\S]*?)```)?/gm;

const DOCS = new URL('../../../docs/', import.meta.url);

/** `adding-a-provider` quotes sources, which `adding-a-provider.test.ts` compares; the others are made from sources. */
const APART = ['adding-a-provider.md', 'api/**', 'errors/**', 'reference/**'];

/** Returns the blocks of the README and of docs/, page by page, except those that need the packages of bench/peers. */
export function guideBlocks(): GuideBlock[] {
  return allBlocks().filter(({ kind }) => kind !== 'peers');
}

/** As `guideBlocks`, with all blocks. */
export function allBlocks(): GuideBlock[] {
  const pages = globSync('**/*.md', { cwd: DOCS, exclude: APART }).toSorted();
  return ['../README.md', ...pages].flatMap(path => {
    const page = path.replaceAll('\\', '/').replace(/^\.\.\/|\.md$/g, '');
    return [...readFileSync(new URL(path, DOCS), 'utf8').matchAll(BLOCK)].map((match, index) => {
      const [, hidden, support = '', note = '', language = 'ts', code = support, prints] = match;
      const named = hidden ?? /^\/\/ ([\w.-]+\.tsx?)\n/.exec(code)?.[1];
      const file = named ?? `block.${language}`;
      return {
        title: `${page}-${index + 1}`,
        page,
        file,
        isNamed: named !== undefined,
        code,
        kind: kindOf({ hidden, note, file }),
        turns: note.startsWith('model: ') ? JSON.parse(note.slice('model: '.length)) : [],
        prints,
      };
    });
  });
}

function kindOf({ hidden, note, file }: { hidden: string | undefined; note: string; file: string }) {
  if (hidden !== undefined) return 'hidden';
  if (note === 'compiled' || note === 'peers') return note;
  return file.endsWith('.test.ts') ? 'test' : 'run';
}

const RESULTS = new URL('../../../test-results/', import.meta.url);

/**
 * Writes each block into a folder of its own below test-results/guides, with the files that its page names and the
 * turns of its model (`script.json`). Returns the path of test-results/guides.
 */
export function writeBlocks(blocks: readonly GuideBlock[]): string {
  const root = fileURLToPath(new URL('guides', RESULTS));
  rmSync(root, { recursive: true, force: true });
  for (const { title, page, turns } of blocks) {
    const folder = `${root}/${title}`;
    mkdirSync(folder, { recursive: true });
    const files = blocks.filter(other => other.title === title || (other.page === page && other.isNamed));
    for (const { file, code } of files) writeFileSync(`${folder}/${file}`, code);
    writeFileSync(`${folder}/script.json`, JSON.stringify(turns));
  }
  return root;
}

/** Imports a file that a page names, for tests of what the page claims beyond what it prints. */
export async function importNamed(page: string, file: string) {
  // Not below test-results/guides, which another test file may be writing.
  const folder = fileURLToPath(new URL(`pages/${page}/`, RESULTS));
  mkdirSync(folder, { recursive: true });
  const named = guideBlocks().filter(block => block.page === page && block.isNamed);
  for (const block of named) writeFileSync(`${folder}${block.file}`, block.code);
  await import('../use-sources.ts');
  return await import(pathToFileURL(`${folder}${file}`).href);
}
