import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = new URL('../../', import.meta.url);

/** The path of the program that the global setup has built from a source file. */
export function built(source: string): string {
  const file = fileURLToPath(new URL(`test-results/programs/${source.replace(/\.ts$/, '.js')}`, ROOT));
  if (!existsSync(file)) throw new Error(`${source} is not built: add it to test/support/build-programs.ts.`);
  return file;
}
