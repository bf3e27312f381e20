import { type Host, sleep } from '../../engine/host/host.ts';

/** The number of recent failures without a delay; each is forgotten after `INTERVAL_MS`. */
const FREE = 5;
const INTERVAL_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/**
 * Limits sign-in attempts across all clients to one per second after several failures.
 *
 * A1 An attempt counts before its token is checked, so parallel attempts are not faster.
 * A2 Attempts are checked in order of arrival, each within `LONGEST_WAIT_MS`. An attempt that would wait longer is
 *    refused and does not count, so the wait does not grow: once an attack stops, signing in works again.
 */
export class SignInPace {
  readonly #host: Host;
  /** When all attempts so far are forgotten, on the monotonic clock. */
  #clearAt = Number.NEGATIVE_INFINITY;

  constructor(host: Host) {
    this.#host = host;
  }

  /** Resolves with `go` when the attempt may be checked, or with `refused` and the ms to wait before a retry. */
  async takeTurn(): Promise<{ type: 'go' } | { type: 'refused'; retryAfterMs: number }> {
    const now = this.#host.monotonic();
    const clearAt = Math.max(this.#clearAt, now) + INTERVAL_MS;
    const waitMs = clearAt - now - FREE * INTERVAL_MS;
    if (waitMs > LONGEST_WAIT_MS) return { type: 'refused', retryAfterMs: waitMs - LONGEST_WAIT_MS };
    this.#clearAt = clearAt;
    if (waitMs > 0) await sleep(this.#host, waitMs);
    return { type: 'go' };
  }

  /** Uncounts an attempt with the right token. */
  forget(): void {
    this.#clearAt -= INTERVAL_MS;
  }
}
