import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export type CommandEnd = { pid: number; code: number | null; signal: NodeJS.Signals | null };

/** The `agentchart` command of this checkout. */
export const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../cli/main.ts');

/** Runs `agentchart ARGS` in its own process on this terminal. Resolves to its exit code or signal. */
export async function runCommand(args: readonly string[], env: Record<string, string>): Promise<CommandEnd> {
  const child = spawn(process.execPath, [COMMAND, ...args], {
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  const pid = child.pid ?? 0;
  process.stdout.write(`\n$ agentchart ${args.map(quote).join(' ')}    (process ${pid})\n`);
  const ignore = () => {};
  process.on('SIGINT', ignore);
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => resolve({ pid, code, signal }));
    });
  } finally {
    process.off('SIGINT', ignore);
    process.stdout.write('\n');
  }
}

function quote(arg: string): string {
  return /^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}
