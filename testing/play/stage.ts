import { setImmediate as turn } from 'node:timers/promises';
import type { RecordedEvent } from '../../engine/replay/record-run.ts';

/** Turns of the event loop after which nothing more happens: a played run does no I/O. */
const IDLE_TURNS = 2_000;

type Request = { fulfil(event: RecordedEvent): void };

/**
 * Matches the requests of a played run with its recorded events: the model, the tools and the finishers request
 * their outcome, and receive it when the recording reaches it.
 */
export class Stage {
  readonly #requests = new Map<string, Request>();

  /** Returns the recorded event for a source (`MODEL`, `FINISHER` or `sourceOf(callId)`). Rejects if `signal` aborts. */
  request(source: string, signal: AbortSignal): Promise<RecordedEvent> {
    return new Promise((resolve, reject) => {
      const forget = () => {
        this.#requests.delete(source);
        signal.removeEventListener('abort', abort);
      };
      const abort = () => {
        forget();
        reject(signal.reason);
      };
      if (signal.aborted) return reject(signal.reason);
      signal.addEventListener('abort', abort);
      const fulfil = (event: RecordedEvent) => {
        forget();
        resolve(event);
      };
      this.#requests.set(source, { fulfil });
    });
  }

  /** Delivers a recorded event once the source requests it. Throws if it does not. */
  async deliver(source: string, event: RecordedEvent): Promise<void> {
    await this.waitFor(
      () => this.#requests.has(source),
      () => `the run has no ${source}`,
    );
    this.#requests.get(source)?.fulfil(event);
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

/** The source of a tool call's outcome. */
export function sourceOf(callId: string): string {
  return `running call ${callId}`;
}
