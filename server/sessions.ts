import { randomBytes } from 'node:crypto';
import type { Host } from '../engine/driver/host.ts';

const LASTS_MS = 7 * 24 * 3_600_000;
const MOST_SESSIONS = 1_000;

/** Who has signed in, for as long as this process lasts. An id is random and says nothing of the token. */
export class Sessions {
  readonly #host: Host;
  readonly #until = new Map<string, number>();

  constructor(host: Host) {
    this.#host = host;
  }

  begin(): string {
    const id = randomBytes(32).toString('base64url');
    const [oldest] = this.#until.keys();
    if (this.#until.size >= MOST_SESSIONS && oldest !== undefined) this.#until.delete(oldest);
    this.#until.set(id, this.#host.now() + LASTS_MS);
    return id;
  }

  has(id: string): boolean {
    return (this.#until.get(id) ?? 0) > this.#host.now();
  }

  end(id: string): void {
    this.#until.delete(id);
  }
}
