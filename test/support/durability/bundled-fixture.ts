import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll } from 'vitest';

/** Bundles a fixture of this folder into one file, to start it in half the time. Its folders are removed after the tests. */
export class BundledFixture {
  readonly file: string;
  readonly #root: string;

  constructor(name: string) {
    this.#root = mkdtempSync(join(tmpdir(), `agentchart-${name}-`));
    this.file = join(this.#root, `${name}.mjs`);
    beforeAll(async () => {
      await build({
        entryPoints: [fileURLToPath(new URL(`${name}.ts`, import.meta.url))],
        outfile: this.file,
        bundle: true,
        platform: 'node',
        format: 'esm',
        logLevel: 'error',
        banner: { js: "import { createRequire } from 'node:module'; const require = createRequire('/');" },
      });
    });
    afterAll(() => rmSync(this.#root, { recursive: true, force: true, maxRetries: 5 }));
  }

  makeFolder(): string {
    return mkdtempSync(join(this.#root, 'run-'));
  }
}
