import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';

const FOLDER = fileURLToPath(new URL('peers/', import.meta.url));

const lockSchema = z.object({
  packages: z.record(
    z.string(),
    z.looseObject({ version: z.exactOptional(z.string()), optional: z.exactOptional(z.boolean()) }),
  ),
});

const packageSchema = z.object({ dependencies: z.record(z.string(), z.string()) });

/**
 * Installs the locked packages of `bench/peers` into that folder, without install scripts, unless they are already
 * installed. Returns the versions of those that are measured. Throws an `Error` with npm's output if that fails.
 */
export function installPeers(): Record<string, string> {
  const wanted = readVersions('package-lock.json');
  const found = readVersions('node_modules/.package-lock.json');
  if (wanted !== undefined && wanted === found) return readDependencies();
  process.stderr.write('Installing the packages of bench/peers.\n');
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund'];
  const install = spawnSync(npm, args, { cwd: FOLDER, encoding: 'utf8' });
  if (install.status !== 0)
    throw new Error(`npm ci in bench/peers failed:\n${install.stdout}${install.stderr}`);
  return readDependencies();
}

/** Returns the dependencies of `bench/peers`, which are exact versions. */
function readDependencies(): Record<string, string> {
  return packageSchema.parse(JSON.parse(readFileSync(`${FOLDER}package.json`, 'utf8'))).dependencies;
}

/**
 * Returns the packages of a lock file with their versions, without the optional ones, of which each system gets others;
 * `undefined` if it cannot be read.
 */
function readVersions(lock: string): string | undefined {
  try {
    const { packages } = lockSchema.parse(JSON.parse(readFileSync(`${FOLDER}${lock}`, 'utf8')));
    const installed = Object.entries(packages).filter(
      ([folder, { optional }]) => folder !== '' && optional !== true,
    );
    return installed.map(([folder, { version }]) => `${folder} ${version}`).join('\n');
  } catch {
    return undefined;
  }
}
