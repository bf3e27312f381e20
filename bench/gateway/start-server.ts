import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Target } from './client.ts';
import type { Asked, Spent } from './server.ts';

export type ServerProcess = Target & {
  measure(): Promise<Spent>;
  /** Its heap and buffers in bytes. Not before what `measure` measures. */
  usedBytes(): Promise<number>;
  stop(): Promise<void>;
};

/** Starts `server.ts` for a contender in a process of its own, in front of an upstream. */
export async function startServer(contender: string, upstream: string): Promise<ServerProcess> {
  const script = fileURLToPath(new URL('server.ts', import.meta.url));
  const child: ChildProcess = fork(script, [contender, upstream], {
    execArgv: ['--expose-gc'],
    // Portkey prints a greeting.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const [target] = (await once(child, 'message')) as [Target];
  const ask = async (message: Asked): Promise<unknown> => {
    const answered = once(child, 'message');
    child.send(message);
    return (await answered)[0];
  };
  return {
    ...target,
    measure: async () => (await ask('spent')) as Spent,
    usedBytes: async () => (await ask('memory')) as number,
    stop: async () => {
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}
