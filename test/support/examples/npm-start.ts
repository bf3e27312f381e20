import { spawn, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const start = fileURLToPath(new URL('../../../examples/steward/start.ts', import.meta.url));

/** Whether there are pseudo-terminals: `script` of util-linux makes them. */
export const HAS_TERMINAL = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;

/** Runs `npm start` on a terminal in the folder `cwd`, without a key. */
export function startOnTerminal(cwd: string) {
  const { AGENTCHART_MODEL: _, ...env } = process.env;
  const child = spawn('script', ['-qec', `'${process.execPath}' '${start}'`, '/dev/null'], { cwd, env });
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()));
  let output = '';
  let look = () => {};
  child.stdout.on('data', data => {
    output += data;
    look();
  });
  const printed = (pattern: RegExp) =>
    new Promise<string>(resolve => {
      look = () => {
        const match = pattern.exec(output);
        if (match !== null) resolve(match[1] ?? '');
      };
      look();
    });
  return {
    ended,
    printed,
    type: (keys: string) => child.stdin.write(keys),
    close: () => child.kill('SIGTERM'),
  };
}
