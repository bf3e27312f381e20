import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isJsonObject } from '../../protocol/json.ts';

/** The clients and their versions: the only place that has them. */
const VERSIONS: Readonly<Record<string, string>> = JSON.parse(
  readFileSync(new URL('./versions.json', import.meta.url), 'utf8'),
);

/** Clients that were found, by the name of their package: the file that starts each. */
export type Installed = { commands: ReadonlyMap<string, string>; skipped: string[] };

/**
 * Installs the clients into a folder of the user's cache, or takes those of `CLIENT_MODULES`, a `node_modules` folder.
 * What cannot be installed is skipped by name.
 */
export function installClients(packages: readonly string[]): Installed {
  const modules = process.env.CLIENT_MODULES ?? join(cacheFolder(), 'node_modules');
  const commands = new Map<string, string>();
  const skipped: string[] = [];
  for (const name of packages) {
    const version = VERSIONS[name] ?? '';
    const named = `${name}@${version}`;
    const isHere = process.env.CLIENT_MODULES !== undefined || versionIn(modules, name) === version;
    const problem = isHere ? undefined : install(named);
    const found = versionIn(modules, name);
    if (found === version) commands.set(name, commandOf(modules, name));
    else skipped.push(`${named}: ${problem ?? `${modules} has ${found ?? 'none'}`}`);
  }
  return { commands, skipped };
}

function cacheFolder(): string {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'agentchart', 'clients');
  mkdirSync(folder, { recursive: true });
  return folder;
}

/**
 * Returns what went wrong. Some clients copy the program of this platform to their command in a script of their own.
 * Without a registry, npm would wait more than a minute for each client.
 */
function install(named: string): string | undefined {
  const cwd = cacheFolder();
  const file = join(cwd, 'package.json');
  if (!existsSync(file)) writeFileSync(file, '{ "private": true }\n');
  const quiet = ['--no-audit', '--no-fund', '--loglevel', 'error'];
  const retries = ['--fetch-retry-mintimeout', '1000', '--fetch-retry-maxtimeout', '5000'];
  const words = ['install', '--save-exact', ...quiet, ...retries, named];
  try {
    execFileSync('npm', words, { cwd, stdio: ['ignore', 'ignore', 'pipe'], timeout: 600_000 });
    return undefined;
  } catch (error) {
    const [line] = String(error instanceof Error && 'stderr' in error ? error.stderr : error).split('\n');
    return `not installed (${line})`;
  }
}

function versionIn(modules: string, name: string): string | undefined {
  const file = join(modules, name, 'package.json');
  return existsSync(file) ? String(JSON.parse(readFileSync(file, 'utf8')).version) : undefined;
}

function commandOf(modules: string, name: string): string {
  const { bin } = JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8'));
  const [file] = isJsonObject(bin) ? Object.values(bin) : [bin];
  return join(modules, name, String(file));
}
