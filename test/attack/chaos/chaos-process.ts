import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DIED } from './chaos-agent.ts';

const MAIN = fileURLToPath(new URL('../../../cli/main.ts', import.meta.url));
const DRIVER = fileURLToPath(new URL('chaos-driver.ts', import.meta.url));
const AGENT = fileURLToPath(new URL('chaos-agent.ts', import.meta.url));
const METER = pathToFileURL(fileURLToPath(new URL('report-blocks.ts', import.meta.url))).href;

const UNSHARE = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'] as const;

/** Whether this machine allows separate PID namespaces. */
export function mayUnshare(): boolean {
  const [command, ...args] = UNSHARE;
  return spawnSync(command, [...args, 'true']).status === 0;
}

export type Place = { folder: string; db: string; compiled: string };

/** A process of the chaos with its children, stopped and killed as one group. */
export class ChaosProcess {
  readonly #child: ChildProcess;
  readonly ended: Promise<number | null>;
  isStopped = false;
  isOver = false;
  wasKilled = false;
  #output = '';

  constructor(place: Place, script: string, args: readonly string[], inNamespace = false) {
    const flags = ['--disable-warning=ExperimentalWarning', '--import', METER];
    const line = [...(inNamespace ? UNSHARE : []), process.execPath, ...flags, script, ...args];
    this.#child = spawn(line[0] ?? '', line.slice(1), {
      cwd: place.folder,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, ATTACK_FOLDER: place.folder, NODE_COMPILE_CACHE: place.compiled },
    });
    this.#child.stderr?.on('data', chunk => {
      this.#output = `${this.#output}${chunk}`.slice(-4_000);
    });
    this.ended = once(this.#child, 'close').then(([code, signal]) => {
      this.isOver = true;
      this.wasKilled = signal === 'SIGKILL' || code === DIED;
      return typeof code === 'number' ? code : null;
    });
  }

  get errors(): string {
    return this.#output;
  }

  /** Resolves with the first match group of `pattern` on stderr; `null` if the process ends without a match. */
  async says(pattern: RegExp): Promise<string | null> {
    const found = Promise.withResolvers<string | null>();
    const look = () => {
      const [, match] = pattern.exec(this.#output) ?? [];
      if (match !== undefined) found.resolve(match);
    };
    this.#child.stderr?.on('data', look);
    look();
    return await Promise.race([found.promise, this.ended.then(() => null)]);
  }

  signal(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    if (this.isOver || this.#child.pid === undefined) return;
    this.isStopped = signal === 'SIGSTOP';
    try {
      process.kill(-this.#child.pid, signal);
    } catch {
      // The process has just ended.
    }
  }
}

/** Starts `agentchart serve`. Resolves with its URL once it listens, `null` if it ends before. */
export function startServer(place: Place, inNamespace: boolean): [ChaosProcess, Promise<string | null>] {
  const args = ['serve', '--agent', AGENT, '--db', place.db, '--port', '0'];
  const server = new ChaosProcess(place, MAIN, args, inNamespace);
  return [server, server.says(/listening on (\S+)/)];
}

/** Starts a program that drives, decides, forks and edits through the library. */
export function startDriver(place: Place, seed: number, inNamespace: boolean): ChaosProcess {
  return new ChaosProcess(place, DRIVER, [place.db, String(seed)], inNamespace);
}

/** Starts `agentchart worker`. */
export function startWorker(place: Place, inNamespace: boolean): ChaosProcess {
  return new ChaosProcess(place, MAIN, ['worker', '--agent', AGENT, '--db', place.db], inNamespace);
}

export function startCommand(place: Place, args: readonly string[]): ChaosProcess {
  return new ChaosProcess(place, MAIN, [...args, '--db', place.db]);
}

export const AGENT_ARGS = ['--agent', AGENT] as const;
