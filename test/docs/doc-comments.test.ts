import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS =
  'adapters cli engine examples fronts hosts machines protocol server stores text tools visualizer'.split(
    ' ',
  );

const DECLARATION =
  /^export (?:async )?(?:(?:abstract )?class|function\*?) (\w+)|^export const (\w+)[^=\n]*= (?:async )?(?:\(|<|\w+ =>)/gm;

/** Returns the exported functions and classes that no comment precedes. An overload counts with the one before it. */
function findUndocumented(text: string): string[] {
  const found: string[] = [];
  let previous = '';
  for (const { index, 1: declared, 2: assigned } of text.matchAll(DECLARATION)) {
    const name = declared ?? assigned ?? '';
    if (name !== previous && !text.slice(0, index).trimEnd().endsWith('*/')) found.push(name);
    previous = name;
  }
  return found;
}

test('every exported function and class of the sources has a doc comment', () => {
  const files = FOLDERS.flatMap(folder =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map(file => join(folder, file)),
  ).filter(file => /\.tsx?$/.test(file) && !/\.d\.ts$|node_modules/.test(file));
  expect(files.length).toBeGreaterThan(500);
  const undocumented = files.flatMap(file =>
    findUndocumented(readFileSync(join(ROOT, file), 'utf8')).map(name => `${file}: ${name}`),
  );
  expect(undocumented).toEqual([]);
  expect(findUndocumented('/** Adds. */\nexport function add() {}\nexport function take() {}\n')).toEqual([
    'take',
  ]);
});
