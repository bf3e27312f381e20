import type { ResponseLibrary } from '../response-library.ts';

/**
 * The last response with `store: false` of one connection. It can be continued on that connection only, and is forgotten
 * with it. So are the runs of earlier ones that still wait: clients that keep the history themselves return their items.
 */
export class UnstoredChain {
  readonly #library: ResponseLibrary;
  readonly #waiting = new Set<string>();
  #last: { responseId: string; runId: string } | null = null;

  constructor(library: ResponseLibrary) {
    this.#library = library;
  }

  /** The run of the last response. */
  get runId(): string | undefined {
    return this.#last?.runId;
  }

  /** Replaces the last response. */
  keep(last: { id: string; runId: string }): void {
    const replaced = last.runId === this.runId ? undefined : this.runId;
    if (replaced !== undefined && !this.#waiting.has(replaced)) this.#library.forgetUnstored(replaced);
    this.#waiting.delete(last.runId);
    this.#last = { responseId: last.id, runId: last.runId };
  }

  /** Keeps a run that waits until the chain is forgotten as a whole. */
  keepWaiting(runId: string): void {
    this.#waiting.add(runId);
  }

  /** Forgets the last response, if it is this one; without an id, the whole chain. */
  forget(responseId?: string): void {
    if (responseId === undefined) {
      for (const runId of this.#waiting) this.#library.forgetUnstored(runId);
      this.#waiting.clear();
    }
    if (this.#last === null || (responseId !== undefined && responseId !== this.#last.responseId)) return;
    this.#library.forgetUnstored(this.#last.runId);
    this.#last = null;
  }
}
