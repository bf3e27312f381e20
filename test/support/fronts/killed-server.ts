import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** Servers of one fixture over one database, one after the other; each dies by `kill -9`. */
export class KilledServer {
  readonly #fixture: string;
  readonly #db: string;
  #child: ChildProcess | undefined;
  /** The address of the current server. */
  url = '';

  /** `fixture` is a file of this folder; it takes the database and prints its port. */
  constructor(fixture: string, db: string) {
    this.#fixture = fileURLToPath(new URL(fixture, import.meta.url));
    this.#db = db;
  }

  async start(): Promise<string> {
    const child = spawn(process.execPath, [this.#fixture, this.#db], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    const [port] = await once(child.stdout, 'data');
    this.url = `http://127.0.0.1:${String(port).trim()}/`;
    return this.url;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
}
