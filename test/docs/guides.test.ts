import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { type GuideBlock, guideBlocks, writeBlocks } from '../support/docs/guide-blocks.ts';

const run = promisify(execFile);
const program = fileURLToPath(new URL('../support/docs/run-blocks.ts', import.meta.url));
const isRun = ({ isOnlyCompiled }: GuideBlock) => !isOnlyCompiled;
const blocks = guideBlocks();
let results: { printed: string; error?: string }[] = [];

beforeAll(async () => {
  const folder = writeBlocks(blocks);
  const jobs = blocks.filter(isRun).map(({ title, file }) => ({ folder: `${folder}/${title}`, file }));
  const { stdout } = await run(process.execPath, [program, JSON.stringify(jobs)]);
  results = JSON.parse(stdout);
});

test.each(blocks.filter(isRun).map((block, index) => ({ ...block, index })))(
  '$title runs and prints what the document says',
  ({ prints, index }) => {
    const { printed, error } = results[index] ?? {};
    expect(error).toBeUndefined();
    if (prints !== undefined) expect(printed).toBe(prints);
  },
);
