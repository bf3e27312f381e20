import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DemoState, Side } from './demo-state.ts';
import { Round, type RoundOptions } from './round.ts';
import { DEMO_PACE } from './setup.ts';

export type DemoOptions = Partial<Pick<RoundOptions, 'restartMs' | 'paceOf'>> & {
  /** Whether to keep the files after `close`. */
  keep?: boolean;
};

const RESTART_MS = 1_100;

/** Runs rounds, one at a time, in a temporary folder. */
export class Demo {
  readonly folder = mkdtempSync(join(tmpdir(), 'agentchart-kill-'));
  readonly #options: DemoOptions;
  readonly #watchers = new Set<() => void>();
  #number = 1;
  #round: Round;
  #changing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: DemoOptions = {}) {
    this.#options = options;
    this.#round = this.#open();
  }

  /** The state of the current round. */
  get state(): DemoState {
    return { round: this.#number, ...this.#round.state };
  }

  /** The current round. */
  get round(): Round {
    return this.#round;
  }

  /** Calls `notify` after every change. Returns a function that stops it. */
  watch(notify: () => void): () => void {
    this.#watchers.add(notify);
    return () => this.#watchers.delete(notify);
  }

  /** Resolves once `holds` returns true. Rejects if a process ended with an error, or `holds` throws. */
  async until(holds: (state: DemoState) => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const end = this.watch(() => {
      try {
        const broken = [this.state.plain, this.state.chart].find(side => side.process.is === 'broken');
        if (broken?.process.is === 'broken') throw new Error(broken.process.message);
        if (holds(this.state)) resolve();
      } catch (error) {
        reject(error);
      }
    });
    this.#tell();
    await promise.finally(end);
  }

  /** Kills the processes of the given sides. */
  kill(sides: readonly Side[]): void {
    for (const side of sides) this.#round.kill(side);
  }

  /** Ends the current round and starts the next. */
  again(): Promise<void> {
    this.#changing = this.#changing.then(async () => {
      await this.#round.end();
      if (this.#isClosed) return;
      this.#number += 1;
      this.#round = this.#open();
      this.#tell();
    });
    return this.#changing;
  }

  /** Ends all processes and removes the files, unless `keep` is set. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#changing;
    await this.#round.end();
    if (this.#options.keep !== true) rmSync(this.folder, { recursive: true, force: true });
  }

  #open(): Round {
    const { restartMs = RESTART_MS, paceOf = () => DEMO_PACE } = this.#options;
    return new Round({
      folder: join(this.folder, `round-${this.#number}`),
      restartMs,
      paceOf,
      onChange: () => this.#tell(),
    });
  }

  #tell(): void {
    for (const notify of [...this.#watchers]) notify();
  }
}
