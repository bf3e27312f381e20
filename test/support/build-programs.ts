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
export async function setup(): Promise<void> {
  await build({
    entryPoints: PROGRAMS.map(file => ROOT + file),
    outbase: ROOT,
    outdir: `${ROOT}test-results/programs`,
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
