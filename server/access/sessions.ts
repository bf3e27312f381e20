import { randomBytes } from 'node:crypto';
import type { Caller } from '../../access/caller.ts';
import type { Host } from '../../engine/driver/host.ts';

const LASTS_MS = 7 * 24 * 3_600_000;
const MOST_SESSIONS = 1_000;

/** The sign-in sessions of this process. Session ids are random and independent of the token. */
export class Sessions {
  readonly #host: Host;
  readonly #sessions = new Map<string, { caller: Caller; until: number }>();

  constructor(host: Host) {
    this.#host = host;
  }

  /** Creates a session of the caller and returns its id; beyond 1000 sessions the oldest is dropped. */
  begin(caller: Caller): string {
    const id = randomBytes(32).toString('base64url');
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size >= MOST_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    this.#sessions.set(id, { caller, until: this.#host.now() + LASTS_MS });
    return id;
  }

  /** The caller who signed in; `undefined` if the session does not exist or has expired. */
  find(id: string): Caller | undefined {
    const session = this.#sessions.get(id);
    return session !== undefined && session.until > this.#host.now() ? session.caller : undefined;
  }

  /** Ends the session, if it exists. */
  end(id: string): void {
    this.#sessions.delete(id);
  }
}
