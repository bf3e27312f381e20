import { spawnSync } from 'node:child_process';
import { type Desk, MAIN, Started } from './desk.ts';

/** A pseudo-terminal needs `script` of util-linux; -e makes it pass on a command's exit code. */
export const HAS_TERMINAL = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;

/** Starts a command on a pseudo-terminal. */
export function onTerminal(
  desk: Desk,
  args: readonly string[],
  environment: Record<string, string> = {},
  { columns = 80, rows = 24 }: { columns?: number; rows?: number } = {},
): Started {
  const command = [process.execPath, MAIN, ...args].map(word => `'${word}'`).join(' ');
  const line = `stty cols ${columns} rows ${rows}; exec ${command}`;
  return new Started('script', ['-qec', line, '/dev/null'], desk.folder, {
    PATH: process.env.PATH,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    HOME: desk.folder,
    TERM: 'xterm',
    ...desk.model,
    ...environment,
  });
}
