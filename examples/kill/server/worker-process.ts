import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ProcessState } from '../demo-state.ts';
import { type Order, type Report, reportSchema } from './process-messages.ts';

export type WorkerProcessOptions = {
  /** The module it runs, seen from this folder. */
  module: string;
  /** How long a killed process stays away, in ms. */
  restartMs: number;
  /** Environment of the start with this number, from 0. */
  environment(start: number): Record<string, string>;
  onReport(report: Report): void;
  onChange(): void;
};

/**
 * A process that is killed and comes back.
 *
 * W1 There is at most one at a time, and the next is started only once the last has ended.
 * W2 Whoever killed it, the operating system tells so: a kill is counted when the process has ended of it.
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

  get state(): ProcessState {
    return this.#state;
  }

  /** How often it was killed. */
  get kills(): number {
    return this.#kills;
  }

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
      this.#leave(signal === null ? `It ended by itself, with code ${code}.` : null),
    );
    this.#set({ is: 'starting', pid: child.pid ?? 0 });
  }

  /** SIGKILL, whatever it is doing. `false`: there is none to kill. */
  kill(): boolean {
    return this.#child?.kill('SIGKILL') ?? false;
  }

  /** `false`: there is none to tell. */
  tell(order: Order): boolean {
    if (this.#state.is !== 'running') return false;
    this.#child?.send(order, () => {});
    return true;
  }

  /** Ends it for good. */
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
