import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ProcessState } from '../demo-state.ts';
import { type Order, type Report, reportSchema } from './process-messages.ts';

type WorkerProcessOptions = {
  /** The module to run, relative to this folder. */
  module: string;
  /** The delay before a killed process is restarted, in ms. */
  restartMs: number;
  /** The environment, by the number of the start, from 0. */
  environment(start: number): Record<string, string>;
  onReport(report: Report): void;
  onChange(): void;
};

/**
 * A process that is restarted after it was killed.
 *
 * W1 At most one process runs at a time: the next is started once the previous one has exited.
 * W2 Kills are counted when the process has exited by a signal, regardless of who sent it.
 */
export class WorkerProcess {
  readonly #options: WorkerProcessOptions;
  #child: ChildProcess | null = null;
  #state: ProcessState = { is: 'off' };
  #starts = 0;
  #kills = 0;
  #again: ReturnType<typeof setTimeout> | undefined;
  #isEnding = false;

  constructor(options: WorkerProcessOptions) {
    this.#options = options;
  }

  /** The state of the current process. */
  get state(): ProcessState {
    return this.#state;
  }

  /** The number of kills so far. */
  get kills(): number {
    return this.#kills;
  }

  /** Starts the process. */
  start(): void {
    const { module, environment, onReport } = this.#options;
    const child = spawn(process.execPath, [fileURLToPath(new URL(module, import.meta.url))], {
      env: { ...process.env, ...environment(this.#starts) },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#starts += 1;
    this.#child = child;
    child.on('message', message => {
      const report = reportSchema.parse(message);
      if (report.type === 'ready') this.#set({ is: 'running', pid: child.pid ?? 0 });
      onReport(report);
    });
    child.on('error', error => this.#leave(error.message));
    child.on('exit', (code, signal) =>
      this.#leave(signal === null ? `The process exited with code ${code}.` : null),
    );
    this.#set({ is: 'starting', pid: child.pid ?? 0 });
  }

  /** Sends SIGKILL. Returns `false` if there is no process. */
  kill(): boolean {
    return this.#child?.kill('SIGKILL') ?? false;
  }

  /** Sends an order. Returns `false` if the process is not running. */
  tell(order: Order): boolean {
    if (this.#state.is !== 'running') return false;
    this.#child?.send(order, () => {});
    return true;
  }

  /** Ends the process without a restart. */
  async end(): Promise<void> {
    this.#isEnding = true;
    clearTimeout(this.#again);
    const child = this.#child;
    if (child === null) return;
    const ended = new Promise<void>(resolve => child.once('exit', () => resolve()));
    child.kill('SIGKILL');
    await ended;
  }

  #leave(problem: string | null): void {
    const pid = this.#child?.pid ?? 0;
    this.#child = null;
    if (this.#isEnding) return this.#set({ is: 'off' });
    if (problem !== null) return this.#set({ is: 'broken', message: problem });
    this.#kills += 1;
    this.#again = setTimeout(() => this.start(), this.#options.restartMs);
    this.#set({ is: 'killed', pid });
  }

  #set(state: ProcessState): void {
    this.#state = state;
    this.#options.onChange();
  }
}
