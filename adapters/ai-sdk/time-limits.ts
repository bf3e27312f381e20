import type { callLimits } from '../http/connection.ts';
import { type ProviderContext, stalled, tookTooLong } from '../http/provider-errors.ts';

/**
 * Time limits of a call: until the answer starts, between two parts of the stream, and for the whole call.
 *
 * P1 `signal` is aborted with the caller's signal, and when a limit is exceeded.
 * P2 A slow reader does not count: the wait for a part begins when the part is requested.
 * P3 The limit of the whole call is never restarted.
 */
export function limitTime(
  caller: AbortSignal,
  context: ProviderContext,
  { timeoutMs, idleTimeoutMs, totalTimeoutMs }: Omit<ReturnType<typeof callLimits>, 'maxResponseBytes'>,
) {
  const controller = new AbortController();
  const failAfter = (ms: number, error: () => Error) => setTimeout(() => controller.abort(error()), ms);
  const deadline = failAfter(totalTimeoutMs, () => tookTooLong(totalTimeoutMs, context));
  let timer = failAfter(timeoutMs, () => new DOMException('timed out', 'TimeoutError'));
  return {
    signal: AbortSignal.any([caller, controller.signal]),
    /** The error for the limit that was exceeded; `undefined` while none was. */
    timeout: (): unknown => controller.signal.reason,
    async forPart<Part>(read: () => Promise<Part>): Promise<Part> {
      clearTimeout(timer);
      timer = failAfter(idleTimeoutMs, () => stalled(idleTimeoutMs, context));
      try {
        return await read();
      } finally {
        clearTimeout(timer);
      }
    },
    stop(): void {
      clearTimeout(timer);
      clearTimeout(deadline);
    },
  };
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
