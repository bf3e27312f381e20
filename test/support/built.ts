import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { buildPage } from '../../visualizer/build-page.ts';

/** The command line, the library, and the agent modules of the tests. */
const PROGRAMS = [
  'cli/main.ts',
  'agent/index.ts',
  'tools/mcp.ts',
  'test/support/cli/fixtures/command-host.ts',
  'test/support/cli/fixtures/desk.ts',
  'test/support/cli/fixtures/booking.ts',
  'test/support/cli/fixtures/offer.ts',
  'test/support/cli/fixtures/payout.ts',
  'test/support/cli/fixtures/family.ts',
  'test/support/cli/fixtures/fallback.ts',
  'test/support/cli/fixtures/crash-loop.ts',
  'test/support/server/fixtures/brief-approval.ts',
  'test/support/server/fixtures/by-input.ts',
  'test/support/workers/fixtures/refunds.ts',
  'test/support/examples/fixtures/supervised-chat.ts',
  'test/support/durability/chat-fixture.ts',
  'tools/mcp.ts',
];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAMS_OF_RUNS = `${ROOT}test-results/programs`;

/** The folder of this run of the tests, whose workers share it: `vitest.config.ts` names it. */
const FOLDER = `${PROGRAMS_OF_RUNS}/${process.env.AGENTCHART_RUN ?? randomUUID()}`;

/** A run that is older has ended. */
const LONGEST_RUN_MS = 3 * 3_600_000;

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
  const ended = `${FOLDER}/ended`;
  mkdirSync(PROGRAMS_OF_RUNS, { recursive: true });
  try {
    mkdirSync(FOLDER);
  } catch {
    while (!existsSync(ended)) await delay(20);
    return;
  }
  for (const name of readdirSync(PROGRAMS_OF_RUNS)) {
    const folder = `${PROGRAMS_OF_RUNS}/${name}`;
    if (Date.now() - statSync(folder).mtimeMs > LONGEST_RUN_MS)
      rmSync(folder, { recursive: true, force: true });
  }
  await buildPrograms().finally(() => writeFileSync(ended, ''));
}

await buildOnce();

/** The path of the program that is built from a source file. */
export function built(source: string): string {
  const file = `${FOLDER}/${source.replace(/\.ts$/, '.js')}`;
  if (!existsSync(file))
    throw new Error(`${source} is not built: expected it in PROGRAMS of test/support/built.ts.`);
  return file;
}
