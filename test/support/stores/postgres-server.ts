import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
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
  /**
   * Stops the processes of the server with SIGSTOP for so many ms, and returns how many they are. Throws if the server
   * answers meanwhile.
   */
  pauseFor(ms: number): Promise<number>;
  /** Creates a database and returns its address. */
  createDatabase(): Promise<string>;
  /** Ends all connections to the server. */
  cutConnections(): Promise<void>;
  /** Makes a synchronous standby of this server: from now on, a commit waits for both. */
  addStandby(): Promise<PostgresServer>;
  /** Makes a standby a server that takes writes. Returns the number of its timeline: that of a server never promoted is 1. */
  promote(): Promise<number>;
  stop(): Promise<void>;
};

/** Starts a new server. `settings` are `name=value`; by default a commit does not wait for the disk. */
export async function startPostgres(settings: readonly string[] = []): Promise<PostgresServer> {
  const folder = makeServerFolder();
  const local = ['-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  runProgram(folder, 'initdb', ['-D', join(folder, 'data'), '-U', 'test', ...local]);
  return await launchServer(folder, settings);
}

/** Copies a server to a standby that follows it, and has the server's commits wait for the standby. */
async function startStandby(url: string, settings: readonly string[]): Promise<PostgresServer> {
  const folder = makeServerFolder();
  const copy = [
    '-D',
    join(folder, 'data'),
    '-d',
    url,
    '--checkpoint=fast',
    '--write-recovery-conf',
    '--no-sync',
  ];
  runProgram(folder, 'pg_basebackup', copy);
  const standby = await launchServer(folder, settings);
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
  await client.query('SELECT pg_reload_conf()');
  for (let attempts = 0; ; attempts += 1) {
    const { rowCount } = await client.query(`SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`);
    if (rowCount === 1) break;
    if (attempts > 600) throw new Error('The standby does not follow the server.');
    await delay(100);
  }
  await client.end();
  return standby;
}

function makeServerFolder(): string {
  const folder = makeTemporaryFolder('postgres');
  const { uid, gid } = ownIds();
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  return folder;
}

function runProgram(folder: string, name: string, args: readonly string[]): void {
  execFileSync(join(POSTGRES_BIN ?? '', name), args, { ...ownIds(), cwd: folder, stdio: 'ignore' });
}

/** Starts a server on the data in the folder. */
async function launchServer(folder: string, settings: readonly string[]): Promise<PostgresServer> {
  let port = await findPort();
  const options = [
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${folder}`,
    'fsync=off',
    ...settings,
  ];
  let databases = 0;
  let server = launch();
  function launch() {
    const args = [
      '-D',
      join(folder, 'data'),
      ...[...options, `port=${port}`].flatMap(option => ['-c', option]),
    ];
    const child = spawn(join(POSTGRES_BIN ?? '', 'postgres'), args, {
      ...ownIds(),
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = new Promise<void>(resolve => child.once('close', () => resolve()));
    let log = '';
    const ready = new Promise<void>((resolve, reject) => {
      child.stderr.on('data', text => {
        log += text;
        if (/ready to accept (read-only )?connections/.test(log)) resolve();
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
  const pid = () => server.child.pid ?? 0;
  return {
    url,
    pid,
    async crash() {
      server.child.kill('SIGQUIT');
      await server.ended;
    },
    async start() {
      server = launch();
      await server.ready;
    },
    async pauseFor(ms) {
      // First the parent, so that no process is added.
      process.kill(pid(), 'SIGSTOP');
      const children = readFileSync(`/proc/${pid()}/task/${pid()}/children`, 'utf8').trim().split(' ');
      const paused = [pid(), ...children.map(Number).filter(child => child > 0)];
      for (const each of paused) process.kill(each, 'SIGSTOP');
      const client = new pg.Client(url);
      const connected = client.connect().then(() => 'connected');
      const answer = await Promise.race([connected, delay(ms, 'silence')]);
      for (const each of paused.reverse()) process.kill(each, 'SIGCONT');
      await connected;
      await client.end();
      if (answer === 'connected') throw new Error('PostgreSQL answered while it was stopped.');
      return paused.length;
    },
    async createDatabase() {
      const client = new pg.Client(url);
      await client.connect();
      databases += 1;
      const name = `database_${databases}`;
      await client.query(`CREATE DATABASE ${name}`);
      await client.end();
      return url.replace(/[^/]*$/, name);
    },
    async cutConnections() {
      const client = new pg.Client(url);
      await client.connect();
      await client.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IS NOT NULL AND pid <> pg_backend_pid()',
      );
      await client.end();
    },
    async promote() {
      const client = new pg.Client(url);
      await client.connect();
      await client.query('SELECT pg_promote()');
      const { rows } = await client.query('SELECT pg_walfile_name(pg_current_wal_lsn()) AS file');
      await client.end();
      return Number.parseInt(String(rows[0]?.file).slice(0, 8), 16);
    },
    addStandby: () => startStandby(url, settings),
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

/** The ids of the user whose processes the servers are; none for this process's user. */
function ownIds(): { uid?: number; gid?: number } {
  if (!isRoot()) return {};
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
