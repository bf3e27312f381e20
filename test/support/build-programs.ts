import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { buildPage } from '../../visualizer/build-page.ts';

/** The command line, the library, and the agents that tests give to the command line. */
const PROGRAMS = [
  'cli/main.ts',
  'tools/agent/index.ts',
  'test/support/cli/fixtures/desk.ts',
  'test/support/cli/fixtures/family.ts',
  'test/support/cli/fixtures/crash-loop.ts',
  'test/support/server/fixtures/brief-approval.ts',
];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** As in the package: the page is a text, made now. */
const builtPage: Plugin = {
  name: 'built-page',
  setup({ onLoad }) {
    onLoad({ filter: /visualizer[\\/]build-page\.ts$/ }, async () => ({
      contents: `const page = ${JSON.stringify(await buildPage())};\nexport const buildPage = async () => page;`,
    }));
  },
};

/**
 * Before all tests: the programs that they start, each process of which would load hundreds of files. What they
 * share is shared here too, so that a class is the same one to an agent and to the command line.
 */
export async function setup(): Promise<void> {
  await build({
    entryPoints: PROGRAMS.map(file => ROOT + file),
    outbase: ROOT,
    outdir: `${ROOT}test-results/programs`,
    plugins: [builtPage],
    ...{ bundle: true, splitting: true, platform: 'node', format: 'esm', logLevel: 'error' },
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
    },
  });
}
