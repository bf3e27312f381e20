import type { callLimits } from '../http/connection.ts';
import { type ProviderContext, stalled, tookTooLong } from '../http/provider-errors.ts';

/**
 * Time limits of a call: until the answer starts, between two parts of the stream, and for the whole call.
 *
 * P1 `signal` is aborted with the caller's signal, and when a limit is exceeded.
 * P2 A slow reader does not count: the wait for a part begins when the part is requested.
 * P3 The limit of the whole call is never restarted.
 */
export class TimeLimits {
  readonly signal: AbortSignal;
  /** The error for the limit that was exceeded; `undefined` while none was. */
  timeout: Error | undefined;
  readonly #controller = new AbortController();
  readonly #context: ProviderContext;
  readonly #idleMs: number;
  readonly #deadline: NodeJS.Timeout;
  #timer: NodeJS.Timeout;

  constructor(
    caller: AbortSignal,
    context: ProviderContext,
    { timeoutMs, idleTimeoutMs, totalTimeoutMs }: Omit<ReturnType<typeof callLimits>, 'maxResponseBytes'>,
  ) {
    this.signal = AbortSignal.any([caller, this.#controller.signal]);
    this.#context = context;
    this.#idleMs = idleTimeoutMs;
    this.#deadline = setTimeout(() => this.#fail(tookTooLong(totalTimeoutMs, context)), totalTimeoutMs);
    this.#timer = setTimeout(() => this.#fail(new DOMException('timed out', 'TimeoutError')), timeoutMs);
  }

  async forPart<Part>(read: () => Promise<Part>): Promise<Part> {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fail(stalled(this.#idleMs, this.#context)), this.#idleMs);
    try {
      return await read();
    } finally {
      clearTimeout(this.#timer);
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#deadline);
  }

  #fail(error: Error): void {
    this.timeout = error;
    this.#controller.abort(error);
  }
}

/** Rejects with the signal's reason on abort; a value that arrives later is passed to `giveUp`. */
export async function orAborted<Value>(
  promised: PromiseLike<Value>,
  signal: AbortSignal,
  giveUp?: (late: Value) => unknown,
): Promise<Value> {
  const interrupted = Promise.withResolvers<never>();
  const onAbort = () => {
    interrupted.reject(signal.reason);
    promised.then(
      late => giveUp?.(late),
      () => undefined,
    );
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promised, interrupted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
