import type { ResponseLibrary } from '../response-library.ts';

/**
 * The last response with `store: false` of one connection. It can be continued on that connection only, and is forgotten
 * with it.
 */
export class UnstoredChain {
  readonly #library: ResponseLibrary;
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
    if (last.runId !== this.runId) this.forget();
    this.#last = { responseId: last.id, runId: last.runId };
  }

  /** Forgets the last response, if it is this one; without an id, whichever it is. */
  forget(responseId?: string): void {
    if (this.#last === null || (responseId !== undefined && responseId !== this.#last.responseId)) return;
    this.#library.forgetUnstored(this.#last.runId);
    this.#last = null;
  }
}
