/** A process that blocks its event loop for longer, in ms of processor time, is frozen: half of a default lease. */
export const LONGEST_BLOCK_MS = 5_000;

const TICK_MS = 20;

/**
 * Measures how long this thread works without returning to its event loop. It counts processor time, not
 * wall time, so that a stopped process or a busy machine does not count.
 */
export class BusyMeter {
  #longestMs = 0;
  #last = process.threadCpuUsage();
  readonly #onBlock: (ms: number) => void;
  readonly #timer: NodeJS.Timeout;

  /** `onBlock` is called for each block longer than all earlier ones, in ms. */
  constructor(onBlock: (ms: number) => void = () => {}) {
    this.#onBlock = onBlock;
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#timer.unref();
  }

  /** The longest block so far, in ms, including the current one. */
  stop(): number {
    clearInterval(this.#timer);
    this.#tick();
    return this.#longestMs;
  }

  #tick(): void {
    const { user, system } = process.threadCpuUsage(this.#last);
    this.#last = process.threadCpuUsage();
    const ms = Math.round((user + system) / 1_000);
    if (ms <= this.#longestMs) return;
    this.#longestMs = ms;
    this.#onBlock(ms);
  }
}
