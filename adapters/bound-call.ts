/**
 * A call that its caller's signal and a time limit end. Instead of `AbortSignal.any`, which costs as much as
 * the rest of a request.
 *
 * B1 The beginning fails with the signal's reason or a `TimeoutError`, also where who makes it heeds no signal.
 * B2 Until `end`, the caller's signal aborts what was begun; from then on it holds nothing of the call.
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

  /** Whoever has the value calls `end` when it is read; where none came the call has ended. */
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
