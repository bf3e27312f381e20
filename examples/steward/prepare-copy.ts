import { cpSync, existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { formatPath } from '../../cli/render/format.ts';

const LEFT_OUT = new Set(['node_modules', '.git', '.agentchart']);

/** Copies `folder` into `home`, replacing an earlier copy. Returns the copy's path. Throws if the two overlap. */
export function prepareCopy(folder: string, home: string): string {
  const source = resolve(folder);
  if (!existsSync(source) || !statSync(source).isDirectory()) {
    throw new Error(
      `Expected a folder of Markdown files, got ${formatPath(source)}: there is no such folder.`,
    );
  }
  const copy = join(home, basename(source) || 'documents');
  if (!relative(source, copy).startsWith('..') && !relative(copy, source).startsWith('..')) {
    throw new Error(
      `${formatPath(source)} and its copy ${formatPath(copy)} overlap. Run npm start from another folder.`,
    );
  }
  rmSync(copy, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  cpSync(source, copy, { recursive: true, filter: path => path === source || !LEFT_OUT.has(basename(path)) });
  return copy;
}
