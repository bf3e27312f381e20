/**
 * Binds a call to its caller's abort signal and limits how long the call may take to start. `AbortSignal.any`
 * would do the same, but costs as much as the rest of a request.
 *
 * B1 `begin` rejects with the signal's reason or with a `TimeoutError`, even if `start` ignores its signal.
 * B2 Until `end`, the caller's signal aborts the call. After `end`, the signal has no listener of this call.
 */
export class BoundCall {
  readonly #caller: AbortSignal;
  readonly #timeoutMs: number;
  readonly #controller = new AbortController();
  readonly #interrupted = Promise.withResolvers<never>();
  readonly #onAbort = () => this.#break(this.#caller.reason);

  constructor(caller: AbortSignal, timeoutMs: number) {
    this.#caller = caller;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Runs `start` and returns its value. Call `end` when you are done with the value; after a rejection the
   * call has already ended.
   */
  async begin<Value>(start: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    this.#caller.throwIfAborted();
    this.#caller.addEventListener('abort', this.#onAbort);
    const onTimeout = () => this.#break(new DOMException('timed out', 'TimeoutError'));
    const timer = setTimeout(onTimeout, this.#timeoutMs);
    try {
      return await Promise.race([this.#interrupted.promise, start(this.#controller.signal)]);
    } catch (error) {
      this.end();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Stops listening to the caller's signal. */
  end(): void {
    this.#caller.removeEventListener('abort', this.#onAbort);
  }

  #break(reason: unknown): void {
    this.#interrupted.reject(reason);
    this.#controller.abort(reason);
  }
}
