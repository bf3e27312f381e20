import { setImmediate as turn } from 'node:timers/promises';
import type { RecordedEvent } from '../../engine/replay/record-run.ts';

/** Turns of the event loop after which nothing more happens: a played run does no I/O. */
const IDLE_TURNS = 2_000;

/** Matches the requests of the model, the tools and the finishers with the recorded events that fulfil them. */
export class Stage {
  /** By source: what fulfils the request. */
  readonly #requests = new Map<string, (event: RecordedEvent) => void>();

  /** Returns the recorded event for a source (`MODEL`, `FINISHER` or `sourceOf(callId)`). Rejects if `signal` aborts. */
  async request(source: string, signal: AbortSignal): Promise<RecordedEvent> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<RecordedEvent>();
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort);
    this.#requests.set(source, resolve);
    return await promise.finally(() => {
      if (this.#requests.get(source) === resolve) this.#requests.delete(source);
      signal.removeEventListener('abort', abort);
    });
  }

  /** Throws if the source does not request it. */
  async deliver(source: string, event: RecordedEvent): Promise<void> {
    await this.waitFor(
      () => this.#requests.has(source),
      () => `the run has no ${source}`,
    );
    const fulfil = this.#requests.get(source);
    this.#requests.delete(source);
    fulfil?.(event);
  }

  /** Waits until `holds` returns true. Throws an `Error` with the description if nothing more happens. */
  async waitFor(holds: () => boolean | Promise<boolean>, describe: () => string): Promise<void> {
    for (let turns = 0; turns < IDLE_TURNS; turns += 1) {
      if (await holds()) return;
      await turn();
    }
    throw new Error(describe());
  }

  async rest(): Promise<void> {
    for (let turns = 0; turns < 50; turns += 1) await turn();
  }
}

export const MODEL = 'model call';
export const FINISHER = 'finisher';

export function sourceOf(callId: string): string {
  return `running call ${callId}`;
}
