import { type Host, sleep } from '../engine/driver/host.ts';

/** So many failures cost nothing; each is forgotten after `INTERVAL_MS`. */
const FREE = 5;
const INTERVAL_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/**
 * The pace at which a server tries tokens that are given to sign in, whoever gives them: one a second once
 * several were wrong.
 *
 * A1 An attempt counts before it is looked at, so that no number of them at once goes faster.
 * A2 Attempts that wait come in the order they arrived, each within `LONGEST_WAIT_MS`; what would have to wait
 *    longer is refused and counts for nothing. However many fail, the wait grows no longer: nobody is locked out
 *    once they stop.
 */
export class SignInPace {
  readonly #host: Host;
  /** On the monotonic clock: when every attempt so far is forgotten. */
  #clearAt = Number.NEGATIVE_INFINITY;

  constructor(host: Host) {
    this.#host = host;
  }

  /** Resolves when the attempt may be looked at; or gives the ms after which to try again. */
  async takeTurn(): Promise<{ type: 'go' } | { type: 'refused'; retryAfterMs: number }> {
    const now = this.#host.monotonic();
    const clearAt = Math.max(this.#clearAt, now) + INTERVAL_MS;
    const waitMs = clearAt - now - FREE * INTERVAL_MS;
    if (waitMs > LONGEST_WAIT_MS) return { type: 'refused', retryAfterMs: waitMs - LONGEST_WAIT_MS };
    this.#clearAt = clearAt;
    if (waitMs > 0) await sleep(this.#host, waitMs);
    return { type: 'go' };
  }

  /** The attempt was right: it costs nothing. */
  forget(): void {
    this.#clearAt -= INTERVAL_MS;
  }
}
