import type { RunEvent } from '../../protocol/event.ts';
import { refuse, type SubmitResult } from '../run/explain-refusal.ts';

/** How many ids are remembered. */
const MOST_IDS = 2_000;

/**
 * The ids of the requests in the entries that a log has read or written. A request that another process carries out at
 * the same time is found here before it is appended again.
 */
export class RequestIds {
  readonly #ids = new Set<string>();

  /** Remembers the id of an entry's request, if it has one. */
  add(event: RunEvent): void {
    if (!('requestId' in event) || event.requestId === undefined || event.type === 'run.started') return;
    this.#ids.add(event.requestId);
    const [oldest] = this.#ids;
    if (oldest !== undefined && this.#ids.size > MOST_IDS) this.#ids.delete(oldest);
  }

  /** Returns the refusal if one of these events is of a request that was carried out; otherwise `null`. */
  findRepeated(events: readonly RunEvent[]): Exclude<SubmitResult, { accepted: true }> | null {
    const index = events.findIndex(
      event => 'requestId' in event && event.requestId !== undefined && this.#ids.has(event.requestId),
    );
    if (index < 0) return null;
    const message = 'A command with this request id was already carried out on this run.';
    return { ...refuse('refused', message), index };
  }
}
