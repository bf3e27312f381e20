import { backOffMs } from '../../protocol/back-off.ts';
import { messageOf } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { type Host, sleep } from '../host/host.ts';

/** The calls of `persist` for one actor, by all its services. `returned` resolves once the latest has returned. */
export type PersistCalls = { returned: Promise<unknown> };

type BarrierOptions = {
  persist(snapshot: JsonValue, options: { signal: AbortSignal }): void | Promise<void>;
  patienceMs: number;
  host: Host;
  calls: PersistCalls;
  snapshot(): JsonValue;
  /** Aborted when the service has to stop. */
  stopped: AbortSignal;
};

/** The waits between calls of `persist` that fail. */
const BACK_OFF = { baseMs: 200, maxMs: 5_000 };

type Outcome = { type: 'stored' } | { type: 'failed'; error: unknown } | { type: 'unanswered' };

/**
 * The barrier of a service that an actor runs: stores the actor's snapshot.
 *
 * K1 `persist` is called once at a time for an actor, so an older snapshot never replaces a newer one. A call that does
 *    not return holds up the next one.
 * K2 `pass` resolves only after a `persist` that began after the call of `pass` and succeeded. Calls of `pass` during a
 *    `persist` share the next one.
 * K3 Once a pass has failed, the later ones fail too, without a call of `persist`.
 */
export class SnapshotBarrier {
  readonly #options: BarrierOptions;
  #latest: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;

  constructor(options: BarrierOptions) {
    this.#options = options;
  }

  /**
   * Resolves once everything reported so far is stored. Rejects with the reason when patience ends, and when the service
   * has to stop.
   */
  pass(): Promise<void> {
    if (this.#next === null) {
      this.#next = this.#latest.then(() => this.#store());
      this.#latest = this.#next;
    }
    return this.#next;
  }

  async #store(): Promise<void> {
    const { host, patienceMs, stopped } = this.#options;
    const begun = host.monotonic();
    const leftMs = () => patienceMs - (host.monotonic() - begun);
    for (let failures = 1; ; failures += 1) {
      const outcome = await this.#call(leftMs());
      if (outcome.type === 'stored') return;
      if (outcome.type === 'unanswered') throw new Error(`persist has not returned within ${patienceMs} ms`);
      const waitMs = backOffMs(failures, BACK_OFF, host.random());
      if (waitMs >= leftMs()) {
        const times = failures === 1 ? 'once' : `${failures} times within ${patienceMs} ms`;
        throw new Error(`persist failed ${times}, at last: ${messageOf(outcome.error)}`);
      }
      await sleep(host, waitMs, stopped);
    }
  }

  /** Calls `persist` once no earlier call is in progress, and waits for it up to `ms`. */
  async #call(ms: number): Promise<Outcome> {
    const { host, calls, persist, snapshot, stopped } = this.#options;
    if (stopped.aborted) return { type: 'unanswered' };
    let outcome: Outcome = { type: 'unanswered' };
    const over = new AbortController();
    const abandoned = new AbortController();
    calls.returned = calls.returned
      .then(async () => {
        if (abandoned.signal.aborted) return;
        this.#next = null;
        await persist(snapshot(), { signal: abandoned.signal });
        outcome = { type: 'stored' };
      })
      .catch(error => {
        outcome = { type: 'failed', error };
      })
      .then(() => over.abort());
    await sleep(host, ms, AbortSignal.any([stopped, over.signal]));
    if (!over.signal.aborted) abandoned.abort();
    return outcome;
  }
}
