import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { RestateAddress } from '../../hosts/restate/index.ts';

const HERE = dirname(fileURLToPath(import.meta.url));
/** The server itself. The command of the package is a wrapper: killing it may leave the server behind. */
const BINARY = `@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`;

/** Installs the server here, as the lock file says; `RESTATE_MODULES` names a folder that has it already. */
function findBinary(): string {
  const installed = process.env.RESTATE_MODULES;
  if (installed !== undefined) return join(installed, BINARY);
  const words = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel', 'error'];
  execFileSync('npm', words, { cwd: HERE, stdio: ['ignore', 'ignore', 'inherit'] });
  return join(HERE, 'node_modules', BINARY);
}

/** A free port of this machine. */
export async function findPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

/** A Restate server on loopback, with its data in a folder of its own. */
export class RestateServer {
  readonly address: Required<Pick<RestateAddress, 'ingress' | 'admin'>>;
  readonly #start: () => ChildProcess;
  #process: ChildProcess;

  private constructor(start: () => ChildProcess, ports: { ingress: number; admin: number }) {
    this.#start = start;
    this.#process = start();
    this.address = { ingress: urlOf(ports.ingress), admin: urlOf(ports.admin) };
  }

  static async start(folder: string): Promise<RestateServer> {
    const binary = findBinary();
    const [ingress, admin, node] = [await findPort(), await findPort(), await findPort()];
    mkdirSync(folder, { recursive: true });
    const config = join(folder, 'restate.toml');
    const lines = [
      'disable-telemetry = true',
      'default-num-partitions = 4',
      'rocksdb-total-memory-size = "512MB"',
      `bind-port = ${node}`,
      `[ingress]\nbind-port = ${ingress}`,
      `[admin]\nbind-port = ${admin}`,
    ];
    writeFileSync(config, lines.join('\n'));
    const words = ['--no-logo', '--config-file', config, '--base-dir', join(folder, 'data')];
    const network = ['--bind-ip', '127.0.0.1', '--listen-mode', 'tcp', '--node-name', 'n1'];
    const env = { ...process.env, DO_NOT_TRACK: '1', RUST_LOG: 'error' };
    const start = () => spawn(binary, [...words, ...network], { stdio: ['ignore', 'ignore', 'ignore'], env });
    const server = new RestateServer(start, { ingress, admin });
    await server.#isReady();
    return server;
  }

  /** Kills the server, waits, and starts it again on the same data. */
  async restart(downMs: number): Promise<void> {
    await this.kill();
    await sleep(downMs);
    this.#process = this.#start();
    await this.#isReady();
  }

  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.kill('SIGKILL');
    await once(this.#process, 'exit');
  }

  /** Makes a worker known. */
  async register(uri: string): Promise<void> {
    const body = JSON.stringify({ uri, force: true });
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(new URL('/deployments', this.address.admin), {
      method: 'POST',
      headers,
      body,
    });
    if (!response.ok) throw new Error(`register: ${response.status} ${await response.text()}`);
  }

  async #isReady(): Promise<void> {
    const urls = [new URL('/health', this.address.admin), new URL('/restate/health', this.address.ingress)];
    for (const end = Date.now() + 60_000; Date.now() < end; await sleep(100)) {
      const answers = await Promise.all(urls.map(url => fetch(url).catch(() => null)));
      if (answers.every(answer => answer?.ok === true)) return;
    }
    throw new Error('Restate did not start within a minute.');
  }
}

function urlOf(port: number): string {
  return `http://127.0.0.1:${port}`;
}
