/**
 * A call under its caller's signal, with a time limit for its beginning. `AbortSignal.any` would do the same
 * and costs as much as the rest of a request.
 *
 * B1 `begin` rejects with the signal's reason or with a `TimeoutError`, even if `start` ignores its signal.
 * B2 Until `end`, the caller's signal aborts the call. After it, the signal has no listener of the call.
 */
export class BoundCall {
  readonly #caller: AbortSignal;
  readonly #timeoutMs: number;
  readonly #controller = new AbortController();
  readonly #over = Promise.withResolvers<never>();
  readonly #onAbort = () => this.#break(this.#caller.reason);

  constructor(caller: AbortSignal, timeoutMs: number) {
    this.#caller = caller;
    this.#timeoutMs = timeoutMs;
  }

  /** Call `end` when the value is used up. After a rejection the call has ended already. */
  async begin<Value>(start: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    this.#caller.throwIfAborted();
    this.#caller.addEventListener('abort', this.#onAbort);
    const late = () => this.#break(new DOMException('timed out', 'TimeoutError'));
    const timer = setTimeout(late, this.#timeoutMs);
    try {
      return await Promise.race([this.#over.promise, start(this.#controller.signal)]);
    } catch (error) {
      this.end();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  end(): void {
    this.#caller.removeEventListener('abort', this.#onAbort);
  }

  #break(reason: unknown): void {
    this.#over.reject(reason);
    this.#controller.abort(reason);
  }
}
