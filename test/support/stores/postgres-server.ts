import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, globSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { makeTemporaryFolder } from '../temporary-folders.ts';

/** PostgreSQL refuses to run as root: then its processes are this user's, whom Debian's package creates. */
const UNPRIVILEGED = 'postgres';

/**
 * The folder of the newest PostgreSQL of this machine, as Debian installs it or on the path. `undefined` if there is
 * none that can be run.
 */
export const POSTGRES_BIN: string | undefined = mayRun()
  ? [...globSync('/usr/lib/postgresql/*/bin').sort().reverse(), ...(process.env.PATH ?? '').split(':')].find(
      folder => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
    )
  : undefined;

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

function mayRun(): boolean {
  return !isRoot() || spawnSync('id', ['-u', UNPRIVILEGED]).status === 0;
}

/** A PostgreSQL server of a test's own on a free port of 127.0.0.1. */
export type PostgresServer = {
  url: string;
  /** The process of the server. */
  pid(): number;
  /** Stops the server at once, as a crash would. */
  crash(): Promise<void>;
  start(): Promise<void>;
  /** Ends all connections to the server. */
  cutConnections(): Promise<void>;
  stop(): Promise<void>;
};

/** Starts a new server. `settings` are `name=value`; by default a commit does not wait for the disk. */
export async function startPostgres(settings: readonly string[] = []): Promise<PostgresServer> {
  const folder = makeTemporaryFolder('postgres');
  const ids = isRoot() ? findIds() : {};
  if (isRoot()) chownSync(folder, ids.uid ?? 0, ids.gid ?? 0);
  const data = join(folder, 'data');
  const program = (name: string) => join(POSTGRES_BIN ?? '', name);
  const initialize = ['-D', data, '-U', 'test', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  execFileSync(program('initdb'), initialize, { ...ids, cwd: folder, stdio: 'ignore' });
  let port = await findPort();
  const options = [
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${folder}`,
    'fsync=off',
    ...settings,
  ];
  let server = launch();
  function launch() {
    const args = ['-D', data, ...[...options, `port=${port}`].flatMap(option => ['-c', option])];
    const child = spawn(program('postgres'), args, {
      ...ids,
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = new Promise<void>(resolve => child.once('close', () => resolve()));
    let log = '';
    const ready = new Promise<void>((resolve, reject) => {
      child.stderr.on('data', text => {
        log += text;
        if (log.includes('ready to accept connections')) resolve();
      });
      void ended.then(() => reject(new Error(`PostgreSQL has ended: ${log.slice(-2000)}`)));
    });
    ready.catch(() => {});
    return { child, ended, ready };
  }
  // Another process may take the port before the server does.
  for (let attempt = 1; !(await server.ready.then(isReady, isTaken)); attempt += 1) {
    if (attempt === 5) await server.ready;
    port = await findPort();
    server = launch();
  }
  const url = `postgres://test@127.0.0.1:${port}/postgres`;
  return {
    url,
    pid: () => server.child.pid ?? 0,
    async crash() {
      server.child.kill('SIGQUIT');
      await server.ended;
    },
    async start() {
      server = launch();
      await server.ready;
    },
    async cutConnections() {
      const client = new pg.Client(url);
      await client.connect();
      await client.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IS NOT NULL AND pid <> pg_backend_pid()',
      );
      await client.end();
    },
    async stop() {
      server.child.kill('SIGINT');
      await server.ended;
    },
  };
}

const isReady = () => true;

/** Whether an address is in use. Throws any other error. */
function isTaken(error: Error): false {
  if (/in use/.test(error.message)) return false;
  throw error;
}

function findIds(): { uid?: number; gid?: number } {
  const ask = (flag: string) => Number(execFileSync('id', [flag, UNPRIVILEGED], { encoding: 'utf8' }));
  return { uid: ask('-u'), gid: ask('-g') };
}

/**
 * Returns a free port of 127.0.0.1 for a server that starts later, perhaps twice. No system gives such a port to a
 * client, or to a server that asks for port 0.
 */
export async function findPort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 30_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    await new Promise(resolve => server.close(resolve));
    if (isFree) return port;
  }
}
