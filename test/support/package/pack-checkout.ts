import { execFile } from 'node:child_process';
import { cpSync, symlinkSync } from 'node:fs';
import { delimiter, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** Folders that no part of the package is made from. */
const NOT_COPIED =
  /^(node_modules|\.git|\.agentchart|dist|test-results|bench|examples|test\/.*node_modules|docs\/\.vitepress)$/;

/**
 * Packs a copy of the sources, made in the new folder `checkout`, so that packing changes nothing here. Returns the
 * name of the tarball in the folder `target`.
 */
export async function packCheckout(checkout: string, target: string): Promise<string> {
  cpSync(ROOT, checkout, { recursive: true, filter: file => !NOT_COPIED.test(relative(ROOT, file)) });
  symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'));
  const { stdout } = await promisify(execFile)('npm', ['pack', '--silent', '--pack-destination', target], {
    cwd: checkout,
    env: {
      ...process.env,
      PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
      NO_COLOR: '1',
    },
  });
  return stdout.trim().split('\n').at(-1) ?? '';
}
