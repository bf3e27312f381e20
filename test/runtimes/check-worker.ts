import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expectSame, type Outcome } from './program/outcome.ts';

/** A worker without flags: nothing of Node. The network is this machine's only. */
const CONFIGURATION = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main), (name = "internet", network = (allow = ["local"]))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = "2026-11-01",
);
`;

/** Runs the checks in workerd. `folder` has the bundled \`worker.js\`. */
export async function checkWorker(file: string, folder: string): Promise<Outcome> {
  writeFileSync(join(folder, 'worker.capnp'), CONFIGURATION);
  const server = spawn(file, ['serve', 'worker.capnp', '--control-fd=3'], {
    cwd: folder,
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
  const closed = once(server, 'close');
  try {
    const [control] = await Promise.race([once(server.stdio[3] ?? server, 'data'), closed]);
    const { port } = JSON.parse(String(control).split('\n')[0] ?? '');
    const ask = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).json();
    const outcome = (await ask('/checks')) as Outcome;
    const { runId } = (await ask('/start')) as { runId: string };
    expectSame(typeof runId, 'string');
    return { ...outcome, ...((await ask(`/finish?run=${runId}`)) as Outcome) };
  } finally {
    server.kill();
    await closed;
  }
}
