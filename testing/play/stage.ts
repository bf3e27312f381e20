import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { ManualHost } from '../manual-host.ts';

/** The clock of a played run: it stands at the time of the recording. */
export class StageHost extends ManualHost {
  readonly leaseMs = Number.MAX_SAFE_INTEGER;

  moveTo(now: number): void {
    this.jump(Math.max(0, now - this.now()));
    this.setWallClock(now);
  }
}

/** Turns of the event loop after which nothing more happens in a run that does no I/O. */
const IDLE_TURNS = 2_000;

/** Holds the requests of a played run (for a turn of the model, the result of a call) until the player fulfils them. */
export class Stage<Fulfilment> {
  readonly #requests = new Map<string, (fulfilment: Fulfilment) => void>();
  readonly #patienceMs: number;
  /** Whether the run has ended, so that nothing more can come. */
  isOver = () => false;
  #changed = Promise.withResolvers<void>();

  /** `patienceMs`: how long the user's functions, which may do I/O, can take. */
  constructor({ patienceMs = 0 } = {}) {
    this.#patienceMs = patienceMs;
  }

  /** Returns what the player has for a source. Rejects if `signal` aborts. */
  async request(source: string, signal: AbortSignal): Promise<Fulfilment> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Fulfilment>();
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort);
    this.#requests.set(source, resolve);
    this.notify();
    return await promise.finally(() => {
      if (this.#requests.get(source) === resolve) this.#requests.delete(source);
      signal.removeEventListener('abort', abort);
    });
  }

  has(source: string): boolean {
    return this.#requests.has(source);
  }

  /** Fulfils a request that is there. */
  fulfil(source: string, fulfilment: Fulfilment): void {
    const resolve = this.#requests.get(source);
    this.#requests.delete(source);
    resolve?.(fulfilment);
  }

  notify(): void {
    this.#changed.resolve();
  }

  /** Resolves with the next request, or once `notify` is called. */
  async changed(): Promise<void> {
    this.#changed = Promise.withResolvers();
    await this.#changed.promise;
  }

  /** Waits for a request, and fulfils it. Throws if none comes. */
  async deliver(source: string, fulfilment: Fulfilment): Promise<void> {
    await this.waitFor(
      () => this.has(source),
      () => `the run has no ${source}`,
    );
    this.fulfil(source, fulfilment);
  }

  /** Waits until `holds` returns true. Throws an `Error` with the description if nothing more happens. */
  async waitFor(holds: () => boolean | Promise<boolean>, describe: () => string): Promise<void> {
    const end = performance.now() + this.#patienceMs;
    for (let turns = 0; turns < IDLE_TURNS || (performance.now() < end && !this.isOver()); turns += 1) {
      if (await holds()) return;
      await (turns < IDLE_TURNS ? turn() : sleep(1));
    }
    throw new Error(describe());
  }

  async rest(): Promise<void> {
    for (let turns = 0; turns < 50; turns += 1) await turn();
  }
}

export const MODEL = 'model call';
export const ANSWER_CHECK = 'check of the answer';

export function sourceOf(callId: string): string {
  return `running call ${callId}`;
}
