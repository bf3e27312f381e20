import type { DeltaStore } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import { endsText, isText, type RunEvents, type RunHappening, sizeOf, type TextDelta } from './run-events.ts';

/** The time between two writes, in ms: at most five a second. */
const WRITE_MS = 200;
/** How often the store is asked whether the run has followers, in ms. */
const ASK_MS = 500;
/**
 * The size limit of a shared text, in characters of JSON. Readers get a longer text from the journal when its turn is
 * complete.
 */
const MOST_CHARS = 1024 * 1024;

type SharedTextOptions = {
  deltas: DeltaStore;
  runId: string;
  host: Host;
  events: RunEvents;
  /** The last durable entry, and how often the run had been redacted. */
  durable(): { seq: number; redactions: number };
};

/**
 * Shares the text of the current turn with readers in other processes, while this process drives the run.
 *
 * X1 Writes nothing while the run has no followers. Errors of the store are ignored: only a preview is lost.
 * X2 Each write stores the full text so far, at most every 200 ms. It is deleted when its turn is in the journal.
 * X3 The stored text records the seq of the last entry before it, so that readers do not mistake it for the text of a
 *    later turn.
 */
export class SharedText {
  readonly #options: SharedTextOptions;
  readonly #unsubscribe: () => void;
  #cancelTimer: (() => void) | null = null;
  #saving: Promise<void> = Promise.resolve();
  #isSaving = false;
  #nextAt = 0;
  /** Whether the store may hold a text of this run. */
  #isStored = false;
  #isClosed = false;

  constructor(options: SharedTextOptions) {
    this.#options = options;
    this.#unsubscribe = options.events.subscribe({
      receive: happening => this.#receive(happening),
      wake: () => {},
    });
  }

  /** Stops sharing and deletes the stored text. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unsubscribe();
    this.#cancelTimer?.();
    await this.#saving;
    await this.#clear();
  }

  #receive(happening: RunHappening): void {
    if (endsText(happening)) this.#saving = this.#saving.then(() => this.#clear());
    else if (isText(happening) || this.#isStored) this.#schedule();
  }

  #schedule(): void {
    if (this.#isClosed || this.#cancelTimer !== null || this.#isSaving) return;
    const { host } = this.#options;
    const save = () => {
      this.#cancelTimer = null;
      this.#saving = this.#saving.then(() => this.#save());
    };
    this.#cancelTimer = host.setTimer(Math.max(0, this.#nextAt - host.now()), save, { keepAlive: false });
  }

  async #save(): Promise<void> {
    const { deltas, runId, host, events, durable } = this.#options;
    const { number, parts } = events.partialText;
    if (this.#isClosed || parts.length === 0) return;
    const { seq, redactions } = durable();
    const json = JSON.stringify(parts);
    if (json.length > MOST_CHARS) return;
    this.#isSaving = true;
    let isFollowed = false;
    try {
      isFollowed = await deltas.save(runId, { seq, redactions, json }, host.now());
      this.#isStored ||= isFollowed;
    } catch {
      // This write is lost. A later write may succeed.
    }
    this.#isSaving = false;
    this.#nextAt = host.now() + (isFollowed ? WRITE_MS : ASK_MS);
    const now = events.partialText;
    if (now.number !== number) await this.#clear();
    else if (!isFollowed || sizeOfAll(now.parts) !== sizeOfAll(parts)) this.#schedule();
  }

  async #clear(): Promise<void> {
    if (!this.#isStored) return;
    this.#isStored = false;
    await this.#options.deltas.clear(this.#options.runId).catch(() => {});
  }
}

function sizeOfAll(parts: readonly TextDelta[]): number {
  return parts.reduce((sum, part) => sum + sizeOf(part), 0);
}
