import { randomBytes } from 'node:crypto';
import type { Caller } from '../../access/caller.ts';
import type { Host } from '../../engine/host/host.ts';

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

  /** The session with this id; `undefined` if it does not exist or has expired. */
  find(id: string): Session | undefined {
    const session = this.#sessions.get(id);
    return session !== undefined && session.until > this.#host.now() ? session : undefined;
  }

  /** Ends the session, if it exists. */
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
