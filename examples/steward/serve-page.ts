import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { COMMAND } from './run-command.ts';

/** A process that serves the runs API and its page. `ended` resolves when the process has ended. */
type ServedPage = { url: string; ended: Promise<void>; stop(): void };

/** Serves on port 4100, or on a free port if it is taken. Resolves to `null` if both fail. */
export async function servePage(
  args: readonly string[],
  env: Record<string, string>,
): Promise<ServedPage | null> {
  return (await serveOn('4100', args, env)) ?? (await serveOn('0', args, env));
}

async function serveOn(
  port: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<ServedPage | null> {
  const child = spawn(process.execPath, [COMMAND, 'serve', ...args, '--port', port], {
    // Ctrl-C on the terminal interrupts the run, not this process.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
  });
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()));
  const stop = () => void child.kill('SIGTERM');
  process.once('exit', stop);
  // The terminal was closed. By default, these end this process without the event above.
  for (const signal of ['SIGHUP', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
  const url = await readAddress(child, ended);
  return url === null ? null : { url, ended, stop };
}

async function readAddress(child: ChildProcess, ended: Promise<void>): Promise<string | null> {
  if (child.stderr === null) return null;
  const lines = createInterface({ input: child.stderr });
  const listening = new Promise<string>(resolve => {
    lines.on('line', line => {
      const url = /^listening on (\S+)/.exec(line)?.[1];
      if (url !== undefined) resolve(url);
    });
  });
  return await Promise.race([listening, ended.then(() => null)]);
}
