/**
 * `npm run test:runtimes`: the same agent, from the packed package, in every runtime that can be installed here. Prints
 * a table of what works where. Exits with 1 if a check fails.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build } from 'esbuild';
import { packCheckout } from '../support/package/pack-checkout.ts';
import { CHROMIUM, launchChromium } from '../support/visualizer/browser.ts';
import { checkProcesses } from './check-processes.ts';
import { checkWorker } from './check-worker.ts';
import { findRuntimes } from './find-runtimes.ts';
import type { Outcome } from './program/outcome.ts';
import { type StandIn, startStandIn } from './stand-in.ts';
import { type Column, formatTable, listFailures } from './table.ts';

const HERE = dirname(fileURLToPath(import.meta.url));

const project = mkdtempSync(join(tmpdir(), 'agentchart-runtimes-'));
try {
  await install();
  const columns = await checkAll();
  console.log(`\n${formatTable(columns)}`);
  const failures = listFailures(columns);
  for (const failure of failures) console.error(`\n${failure}`);
  if (failures.length > 0) process.exitCode = 1;
} finally {
  rmSync(project, { recursive: true, force: true });
}

/** Installs the runtimes here, and the packed package in an empty project. */
async function install(): Promise<void> {
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel', 'error'];
  npm(HERE, 'ci', ...quiet);
  const tarball = await packCheckout(join(project, 'checkout'), project);
  writeFileSync(join(project, 'package.json'), '{ "type": "module", "private": true }');
  npm(project, 'install', ...quiet, `./${tarball}`);
  mkdirSync(join(project, 'program'));
  cpSync(join(HERE, 'program'), join(project, 'program'), { recursive: true });
}

function npm(cwd: string, ...words: string[]): void {
  execFileSync('npm', words, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Compiles programs of the project. */
async function compile(names: readonly string[], options: BuildOptions): Promise<void> {
  await build({
    absWorkingDir: project,
    entryPoints: names.map(name => `program/${name}.ts`),
    outdir: '.',
    outbase: 'program',
    bundle: true,
    format: 'esm',
    logLevel: 'warning',
    ...options,
  });
}

async function checkAll(): Promise<Column[]> {
  await compile(['process', 'killed', 'cli-agent'], { platform: 'node', packages: 'external' });
  await compile(['page'], { platform: 'browser' });
  await using standIn = await startStandIn({
    '/': '<!doctype html><title>Agentchart</title><script type="module" src="page.js"></script>',
    '/page.js': readFileSync(join(project, 'page.js'), 'utf8'),
  });
  const provider = standIn.origin;
  await compile(['worker'], { platform: 'browser', define: { PROVIDER: JSON.stringify(provider) } });
  const { processes, workerd, skipped } = findRuntimes(join(HERE, 'node_modules'));
  for (const line of skipped) console.log(line);
  const columns: Column[] = [];
  const add = async (name: string, outcome: Promise<Outcome>) => {
    columns.push({ name, outcome: await outcome.catch(error => ({ 'it starts': String(error.stack) })) });
    console.log(`${name}: checked.`);
  };
  for (const runtime of processes) await add(runtime.name, checkProcesses(runtime, { project, provider }));
  if (workerd !== undefined) await add(workerd.name, checkWorker(workerd.file, project));
  if (CHROMIUM === undefined) console.log('Chromium: skipped, there is none on this machine.');
  else await add('Chromium', checkPage(standIn));
  return columns;
}

async function checkPage({ origin }: StandIn): Promise<Outcome> {
  const browser = await launchChromium();
  try {
    const page = await browser.newPage();
    await page.goto(origin);
    return await page.evaluate('globalThis.outcome');
  } finally {
    await browser.close();
  }
}
