import { execFile } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** Folders that no part of the package is made from. */
const NOT_COPIED =
  /^(node_modules|\.git|\.agentchart|dist|test-results|bench|examples|test\/.*node_modules|docs\/\.vitepress)$/;

/**
 * Packs a copy of the sources, made in the new folder `checkout`, so that packing changes nothing here; with a `homepage`,
 * as at a release. Returns the name of the tarball in the folder `target`.
 */
export async function packCheckout(checkout: string, target: string, homepage?: string): Promise<string> {
  cpSync(ROOT, checkout, { recursive: true, filter: file => !NOT_COPIED.test(relative(ROOT, file)) });
  symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'));
  const manifest = join(checkout, 'package.json');
  if (homepage !== undefined)
    writeFileSync(
      manifest,
      JSON.stringify({ ...JSON.parse(readFileSync(manifest, 'utf8')), homepage }, null, 2),
    );
  return await pack('.', checkout, target);
}

/** Packs `create-agentchart` of a checkout that `packCheckout` made. Returns the name of the tarball in `target`. */
export async function packCreate(checkout: string, target: string): Promise<string> {
  return await pack('./create-agentchart', checkout, target);
}

async function pack(folder: string, checkout: string, target: string): Promise<string> {
  const args = ['pack', '--silent', '--pack-destination', target, folder];
  const { stdout } = await promisify(execFile)('npm', args, {
    cwd: checkout,
    env: {
      ...process.env,
      PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
      NO_COLOR: '1',
    },
  });
  return stdout.trim().split('\n').at(-1) ?? '';
}
