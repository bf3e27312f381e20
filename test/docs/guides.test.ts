import { execFile } from 'node:child_process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import '../support/use-sources.ts';
import { guideBlocks, importNamed, writeBlocks } from '../support/docs/guide-blocks.ts';

const node = promisify(execFile);
const program = fileURLToPath(new URL('../support/docs/run-blocks.ts', import.meta.url));
/** Processes that blocks fork use it too. */
const sources = new URL('../support/use-sources.ts', import.meta.url).href;
const blocks = guideBlocks();
const folder = writeBlocks(blocks);
const run = blocks.filter(({ kind }) => kind === 'run');
let results: { printed: string; error?: string }[] = [];

beforeAll(async () => {
  const jobs = run.map(({ title, file }) => ({ folder: `${folder}/${title}`, file }));
  const { stdout } = await node(process.execPath, ['--import', sources, program, JSON.stringify(jobs)]);
  results = JSON.parse(stdout);
});

test.each(run.map((block, index) => ({ ...block, index })))(
  '$title runs and prints what the document says',
  ({ prints, index }) => {
    const { printed, error } = results[index] ?? {};
    expect(error).toBeUndefined();
    if (prints !== undefined) expect(printed).toBe(prints);
  },
);

describe.each(blocks.filter(({ kind }) => kind === 'test'))('$title', async ({ title, file }) => {
  await import(pathToFileURL(`${folder}/${title}/${file}`).href);
});

test('a test can import the files that a page names', async () => {
  const { default: agent, refund } = await importNamed('guide/start', 'refunds.ts');
  expect([agent.name, refund.name]).toEqual(['refunds', 'refund']);
});
