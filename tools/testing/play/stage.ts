import { setImmediate as turn } from 'node:timers/promises';
import type { RecordedEvent } from '../../../engine/replay/record-run.ts';

/** Turns of the event loop after which nothing more happens by itself: nothing of a play waits for the outside. */
const IDLE_TURNS = 2_000;

type Question = { answer(event: RecordedEvent): void };

/**
 * Where a run is played: its model, its tools and its finishers ask for their lines here, and get them when
 * their turn has come.
 */
export class Stage {
  readonly #questions = new Map<string, Question>();

  /** The recorded line of a speaker; rejects when the run does not want it any more. */
  ask(speaker: string, signal: AbortSignal): Promise<RecordedEvent> {
    return new Promise((resolve, reject) => {
      const forget = () => {
        this.#questions.delete(speaker);
        signal.removeEventListener('abort', abort);
      };
      const abort = () => {
        forget();
        reject(signal.reason);
      };
      if (signal.aborted) return reject(signal.reason);
      signal.addEventListener('abort', abort);
      const answer = (event: RecordedEvent) => {
        forget();
        resolve(event);
      };
      this.#questions.set(speaker, { answer });
    });
  }

  /** Gives a speaker its line once it asks. Throws when it does not. */
  async cue(speaker: string, event: RecordedEvent): Promise<void> {
    await this.waitFor(
      () => this.#questions.has(speaker),
      () => `nobody asked for it: there is no ${speaker}`,
    );
    this.#questions.get(speaker)?.answer(event);
  }

  /** Throws with the reason when nothing moves any more. */
  async waitFor(holds: () => boolean | Promise<boolean>, describe: () => string): Promise<void> {
    for (let turns = 0; turns < IDLE_TURNS; turns += 1) {
      if (await holds()) return;
      await turn();
    }
    throw new Error(describe());
  }

  /** Lets everything happen that happens by itself. */
  async rest(): Promise<void> {
    for (let turns = 0; turns < 50; turns += 1) await turn();
  }
}

export const MODEL = 'model call';
export const FINISHER = 'finisher';

export function speakerOf(callId: string): string {
  return `call ${callId} under way`;
}
