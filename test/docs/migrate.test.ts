import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { installPeers } from '../../bench/install-peers.ts';
import { itemSchema } from '../../protocol/item.ts';
import { startDeskProvider } from '../support/docs/desk-provider.ts';
import { allBlocks } from '../support/docs/guide-blocks.ts';
import { inAll } from '../support/sample.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const blocks = allBlocks().filter(({ page }) => page.startsWith('migrate/'));
const PAGES = [...new Set(blocks.map(({ page }) => page))];
const PEER_PAGES = [...new Set(blocks.filter(({ kind }) => kind === 'peers').map(({ page }) => page))];

/** The folder of a page's files, from which the packages of the page's framework are found. */
function folderOf(page: string): string {
  return `${root}${PEER_PAGES.includes(page) ? 'bench/peers/' : ''}test-results/${page}`;
}

function writePage(page: string): string {
  const folder = folderOf(page);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const block of blocks) if (block.page === page) writeFileSync(`${folder}/${block.file}`, block.code);
  return folder;
}

/** Runs files of a page, each in a process of its own, and compares what they print. Returns the calls of the model. */
async function play(page: string, files: readonly string[]): Promise<number> {
  await using provider = await startDeskProvider();
  const env = {
    ...process.env,
    OPENAI_API_KEY: 'stand-in',
    OPENAI_BASE_URL: provider.url,
    OPENAI_AGENTS_DISABLE_TRACING: '1',
    MASTRA_TELEMETRY_DISABLED: '1',
  };
  for (const file of files) {
    const args = ['--import', `${root}test/support/use-sources.ts`, file];
    const { stdout } = await run(process.execPath, args, { cwd: folderOf(page), env });
    expect(stdout, file).toBe(blocks.find(block => block.page === page && block.file === file)?.prints ?? '');
  }
  return provider.calls();
}

/** Theirs, then what is moved. */
async function playTheirs(page: string): Promise<void> {
  expect(await play(page, ['before-start.ts', 'before-decide.ts'])).toBe(3);
  if (!blocks.some(block => block.page === page && block.file === 'before-export.ts')) return;
  await play(page, ['before-export.ts']);
  const items = z.array(itemSchema).parse(JSON.parse(readFileSync(`${folderOf(page)}/items.json`, 'utf8')));
  const types = items.map(({ type }) => type);
  const call = ['tool_call', 'tool_result'];
  expect(types).toEqual(['message', ...call, ...call, 'message']);
  expect(await play(page, ['move.ts'])).toBe(1);
}

test('our app runs and prints what the pages say', async () => {
  const page = 'migrate/ai-sdk';
  writePage(page);
  expect(await play(page, ['start.ts', 'decide.ts'])).toBe(3);
});

test('the app of Agentchart is the same on each page', () => {
  const appOf = (name: string) =>
    blocks
      .filter(({ page, file }) => page === name && /^(desk|start|decide)\.ts$/.test(file))
      .map(({ code, prints }) => [code, prints]);
  expect(appOf(PAGES[0] ?? '')).toHaveLength(3);
  for (const page of PAGES) expect(appOf(page)).toEqual(appOf(PAGES[0] ?? ''));
});

test.each(PAGES.filter(page => !PEER_PAGES.includes(page)))(
  '%s: their app runs and prints what the page says, and its conversation moves',
  async page => {
    writePage(page);
    await playTheirs(page);
  },
);

inAll(
  'the apps that need packages of bench/peers compile, run, and their conversations move',
  async ({ skip }) => {
    try {
      installPeers();
    } catch (error) {
      if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH/.test(String(error)))
        skip('bench/peers is not installed, and the registry cannot be reached');
      throw error;
    }
    const files = PEER_PAGES.flatMap(page => {
      const folder = writePage(page);
      return blocks
        .filter(block => block.page === page && block.kind === 'peers')
        .map(({ file }) => `${folder}/${file}`);
    });
    const config = `${root}bench/peers/test-results/tsconfig.json`;
    writeFileSync(config, JSON.stringify({ compilerOptions: THEIR_OPTIONS, files }));
    const compiled = await run(process.execPath, [
      `${root}node_modules/typescript/bin/tsc`,
      '-p',
      config,
    ]).catch(error => error);
    expect(compiled.stdout).toBe('');
    for (const page of PEER_PAGES) await playTheirs(page);
  },
);

/** Strict, without `exactOptionalPropertyTypes`, which their types do not have. */
const THEIR_OPTIONS = {
  target: 'es2023',
  lib: ['es2024', 'dom'],
  module: 'nodenext',
  types: ['node'],
  typeRoots: [`${root}node_modules/@types`],
  strict: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  erasableSyntaxOnly: true,
  allowImportingTsExtensions: true,
  skipLibCheck: true,
  noEmit: true,
};
