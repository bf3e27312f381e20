import { randomBytes } from 'node:crypto';
import type { Host } from '../engine/driver/host.ts';

const LASTS_MS = 7 * 24 * 3_600_000;
const MOST_SESSIONS = 1_000;

/** The sign-in sessions of this process. Session ids are random and independent of the token. */
export class Sessions {
  readonly #host: Host;
  readonly #until = new Map<string, number>();

  constructor(host: Host) {
    this.#host = host;
  }

  /** Creates a session and returns its id; beyond 1000 sessions the oldest is dropped. */
  begin(): string {
    const id = randomBytes(32).toString('base64url');
    const [oldest] = this.#until.keys();
    if (this.#until.size >= MOST_SESSIONS && oldest !== undefined) this.#until.delete(oldest);
    this.#until.set(id, this.#host.now() + LASTS_MS);
    return id;
  }

  /** Whether the session exists and has not expired. */
  has(id: string): boolean {
    return (this.#until.get(id) ?? 0) > this.#host.now();
  }

  /** Ends the session, if it exists. */
  end(id: string): void {
    this.#until.delete(id);
  }
}
