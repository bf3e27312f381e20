import { spawn } from 'node:child_process';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { makeTemporaryFolder } from '../temporary-folders.ts';
import { findPort } from './postgres-server.ts';

/** The program of PgBouncer, as Debian installs it or on the path; `undefined` if there is none. */
export const PGBOUNCER: string | undefined = ['/usr/sbin', ...(process.env.PATH ?? '').split(':')]
  .map(folder => join(folder, 'pgbouncer'))
  .find(program => existsSync(program));

/** Starts a transaction pooler of the test's own in front of the server at `url`. */
export async function startPooler(url: string): Promise<{ url: string; stop(): Promise<void> }> {
  const { hostname, port: serverPort, username, pathname } = new URL(url);
  const folder = makeTemporaryFolder('pooler');
  const port = await findPort();
  const [config, users] = [join(folder, 'pgbouncer.ini'), join(folder, 'users.txt')];
  writeFileSync(users, `"${username}" ""\n`);
  writeFileSync(
    config,
    `[databases]
* = host=${hostname} port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = transaction
default_pool_size = 5
max_client_conn = 200
`,
  );
  chmodSync(folder, 0o755);
  const isRoot = process.getuid?.() === 0;
  // PgBouncer refuses to run as root.
  const args = isRoot ? ['-u', 'postgres', config] : [config];
  const child = spawn(PGBOUNCER ?? '', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', text => {
    log += text;
  });
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()));
  for (let attempts = 0; !(await accepts(port)); attempts += 1) {
    if (child.exitCode !== null || attempts > 1_200) throw new Error(`PgBouncer did not start: ${log}`);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  return {
    url: `postgres://${username}@127.0.0.1:${port}${pathname}`,
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const isOpen = await new Promise<boolean>(resolve => {
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
  });
  socket.destroy();
  return isOpen;
}
