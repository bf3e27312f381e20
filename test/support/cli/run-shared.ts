import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { built } from '../built.ts';
import type { Ended, Environment } from './desk.ts';

/** A command line, with `input` on its stdin. */
export type Command = { args: readonly string[]; cwd: string; environment: Environment; input: string };

let host: ChildProcess | undefined;
/** Settles when the latest command has ended. */
let latest: Promise<unknown> = Promise.resolve();

/** Runs a command in the process that the commands of a test worker share, after the commands before it. */
export async function runShared(command: Command): Promise<Ended> {
  const ended = latest.then(() => runInHost(command));
  latest = ended.catch(() => {});
  return await ended;
}

async function runInHost(command: Command): Promise<Ended> {
  host ??= fork(built('test/support/cli/fixtures/command-host.ts'), { execArgv: [], stdio: 'inherit' });
  const over = new AbortController();
  const { signal } = over;
  const answered = once(host, 'message', { signal }).then(([ended]) => ended);
  const died = once(host, 'exit', { signal }).then(() => {
    host = undefined;
    throw new Error(`"${command.args.join(' ')}" ended the process that commands share: use runAlone.`);
  });
  host.send(command);
  try {
    return await Promise.race([answered, died]);
  } finally {
    over.abort();
  }
}
