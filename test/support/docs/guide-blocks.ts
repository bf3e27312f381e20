import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A TypeScript block of a guide. */
export type GuideBlock = {
  /** The page and the number of the block on it, such as `approvals-2`. */
  title: string;
  page: string;
  /** The file that the block becomes: named in its first line (`// agent.ts`). */
  file: string;
  /** Whether it names its file, so that the other blocks of the page can import it. */
  isNamed: boolean;
  code: string;
  /** Whether it is only compiled. */
  isOnlyCompiled: boolean;
  /** The turns of the scripted model in `AGENTCHART_MODEL`. */
  turns: readonly unknown[];
  /** What it prints, from the `text` block that follows it; `undefined` without one. */
  prints: string | undefined;
};

/**
 * In front of a block, a comment that readers do not see gives the turns of its model: `<!-- model: [{ "text": "…" }] -->`.
 * `<!-- compiled -->` marks a block that needs a server or a key.
 */
const BLOCK =
  /(?:<!-- (compiled|model: [\s\S]*?) -->\n+)?```ts\n([\s\S]*?)```(?:\n+```text\n([\s\S]*?)```)?/g;

/** Returns the blocks of docs/guide, docs/index.md and docs/embedding.md, page by page. */
export function guideBlocks(): GuideBlock[] {
  const docs = new URL('../../../docs/', import.meta.url);
  const guides = readdirSync(new URL('guide/', docs))
    .toSorted()
    .map(file => `guide/${file}`);
  const files = ['index.md', 'embedding.md', ...guides].filter(file => file.endsWith('.md'));
  return files.flatMap(file => {
    const page = basename(file, '.md');
    return [...readFileSync(new URL(file, docs), 'utf8').matchAll(BLOCK)].map((match, index) => {
      const [, note = '', code = '', prints] = match;
      const turns = note.startsWith('model: ') ? JSON.parse(note.slice('model: '.length)) : [];
      const named = /^\/\/ ([\w-]+\.ts)\n/.exec(code)?.[1];
      return {
        title: `${page}-${index + 1}`,
        page,
        file: named ?? 'block.ts',
        isNamed: named !== undefined,
        code,
        isOnlyCompiled: note === 'compiled',
        turns,
        prints,
      };
    });
  });
}

/**
 * Writes each block into a folder of its own below test-results/guides, with the files that its page names and the
 * turns of its model (`script.json`). Returns the path of test-results/guides.
 */
export function writeBlocks(blocks: readonly GuideBlock[]): string {
  const root = fileURLToPath(new URL('../../../test-results/guides', import.meta.url));
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
