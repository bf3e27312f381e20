import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { buildPage } from '../../visualizer/build-page.ts';

/** The command line, the library, and the agent modules of the tests. */
const PROGRAMS = [
  'cli/main.ts',
  'agent/index.ts',
  'test/support/cli/fixtures/command-host.ts',
  'test/support/cli/fixtures/desk.ts',
  'test/support/cli/fixtures/family.ts',
  'test/support/cli/fixtures/fallback.ts',
  'test/support/cli/fixtures/crash-loop.ts',
  'test/support/server/fixtures/brief-approval.ts',
  'test/support/server/fixtures/by-input.ts',
  'test/support/workers/fixtures/refunds.ts',
];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = `${ROOT}test-results/programs`;

/** Names the run of the tests, for all its workers. `vitest.config.ts` sets it. */
const RUN = process.env.AGENTCHART_RUN ?? randomUUID();

/** The page as a constant, as in the published package. */
const builtPage: Plugin = {
  name: 'built-page',
  setup({ onLoad }) {
    onLoad({ filter: /visualizer[\\/]build-page\.ts$/ }, async () => ({
      contents: `const page = ${JSON.stringify(await buildPage())};\nexport const buildPage = async () => page;`,
    }));
  },
};

/**
 * Bundles the programs that tests start, because each process would otherwise load hundreds of files. Shared code
 * is in shared chunks, so that agents and the command line have the same classes.
 */
async function buildPrograms(): Promise<void> {
  await build({
    entryPoints: PROGRAMS.map(file => ROOT + file),
    outbase: ROOT,
    outdir: FOLDER,
    plugins: [builtPage],
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'error',
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
    },
  });
}

/** Builds the programs once in a run: the first worker that needs them builds, the others wait for it. */
async function buildOnce(): Promise<void> {
  const state = `${FOLDER}/${RUN}`;
  mkdirSync(FOLDER, { recursive: true });
  try {
    writeFileSync(state, 'building', { flag: 'wx' });
  } catch {
    while (readFileSync(state, 'utf8') === 'building') await delay(20);
    return;
  }
  for (const old of readdirSync(FOLDER).filter(name => name !== RUN))
    rmSync(`${FOLDER}/${old}`, { recursive: true, force: true });
  await buildPrograms().finally(() => writeFileSync(state, 'ended'));
}

await buildOnce();

/** The path of the program that is built from a source file. */
export function built(source: string): string {
  const file = `${FOLDER}/${source.replace(/\.ts$/, '.js')}`;
  if (!existsSync(file))
    throw new Error(`${source} is not built: expected it in PROGRAMS of test/support/built.ts.`);
  return file;
}
