import { type ProviderContext, stalled, tookTooLong } from '../http/provider-errors.ts';

/**
 * How long a model is waited for: until it begins to answer, then from one part of its stream to the
 * next.
 *
 * P1 `signal` is aborted when the caller's is, and when the wait is over.
 * P2 A reader that takes its time does not count: the wait for a part begins when it is asked for.
 * P3 The whole call has a limit too, which does not begin anew.
 */
export class Patience {
  readonly signal: AbortSignal;
  /** Why the wait is over; `undefined` while it is not. */
  end: Error | undefined;
  readonly #over = new AbortController();
  readonly #context: ProviderContext;
  readonly #idleMs: number;
  readonly #deadline: NodeJS.Timeout;
  #timer: NodeJS.Timeout;

  constructor(
    caller: AbortSignal,
    context: ProviderContext,
    {
      timeoutMs = 600_000,
      idleTimeoutMs = 300_000,
      totalTimeoutMs = 1_800_000,
    }: { timeoutMs?: number; idleTimeoutMs?: number; totalTimeoutMs?: number },
  ) {
    this.signal = AbortSignal.any([caller, this.#over.signal]);
    this.#context = context;
    this.#idleMs = idleTimeoutMs;
    this.#deadline = setTimeout(() => this.#give(tookTooLong(totalTimeoutMs, context)), totalTimeoutMs);
    this.#timer = setTimeout(() => this.#give(new DOMException('timed out', 'TimeoutError')), timeoutMs);
  }

  /** Waits for the next part of the stream. */
  async forPart<Part>(read: () => Promise<Part>): Promise<Part> {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#give(stalled(this.#idleMs, this.#context)), this.#idleMs);
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

  #give(end: Error): void {
    this.end = end;
    this.#over.abort(end);
  }
}

/** The value, or the signal's reason as soon as it is aborted; a value that comes `late` is given up. */
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
