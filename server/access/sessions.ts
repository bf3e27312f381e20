import { randomBytes } from 'node:crypto';
import type { Caller } from '../../access/caller.ts';
import { type Host, sleep } from '../../engine/host/host.ts';

const LASTS_MS = 7 * 24 * 3_600_000;
const MOST_SESSIONS = 1_000;

/** A sign-in. `ended` is aborted when the caller signs out, and when the session expires or is dropped. */
export type Session = { readonly caller: Caller; readonly ended: AbortSignal };

type Kept = Session & { until: number; end(): void };

/** The sign-in sessions of this process. Session ids are random and independent of the token. */
export class Sessions {
  readonly #host: Host;
  readonly #sessions = new Map<string, Kept>();

  constructor(host: Host) {
    this.#host = host;
  }

  /** Creates a session of the caller and returns its id; beyond 1000 sessions the oldest is dropped. */
  begin(caller: Caller): string {
    const id = randomBytes(32).toString('base64url');
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size >= MOST_SESSIONS && oldest !== undefined) this.end(oldest);
    const ending = new AbortController();
    const cancelTimer = this.#host.setTimer(LASTS_MS, () => this.end(id), { keepAlive: false });
    const end = () => {
      cancelTimer();
      ending.abort();
    };
    this.#sessions.set(id, { caller, until: this.#host.now() + LASTS_MS, ended: ending.signal, end });
    return id;
  }

  find(id: string): Session | undefined {
    const session = this.#sessions.get(id);
    return session !== undefined && session.until > this.#host.now() ? session : undefined;
  }

  end(id: string): void {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    session?.end();
  }
}

/** A body that closes when the signal is aborted. Its source is cancelled then, as when the reader leaves. */
export function closeOn(ended: AbortSignal, body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const source = body.getReader();
  let stop = () => {};
  return new ReadableStream(
    {
      start(controller) {
        stop = () => {
          controller.close();
          source.cancel().catch(() => {});
        };
        ended.addEventListener('abort', stop, { once: true });
        if (ended.aborted) stop();
      },
      async pull(controller) {
        const { done, value } = await source.read();
        if (ended.aborted) return;
        if (!done) return controller.enqueue(value);
        ended.removeEventListener('abort', stop);
        controller.close();
      },
      async cancel(reason) {
        ended.removeEventListener('abort', stop);
        await source.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

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

  forget(): void {
    this.#clearAt -= INTERVAL_MS;
  }
}
