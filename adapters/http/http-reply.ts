import { type ProviderContext, responseTooLarge, stalled, tookTooLong } from './provider-errors.ts';

/** Limits on the size and the duration of a response body. */
type ReplyLimits = {
  /** The longest pause between two pieces of a body, in ms. */
  idleTimeoutMs: number;
  /** The time limit from the first read to the end of the body, in ms. */
  totalTimeoutMs: number;
  /** The maximum size of a body in bytes, after decompression. */
  maxResponseBytes: number;
};

/**
 * A response whose body can be read once, with `chunks` or `text`. Both throw a `ProviderError` when a limit
 * is exceeded.
 */
export type HttpReply = {
  status: number;
  headers: Headers;
  chunks(): AsyncIterable<Uint8Array>;
  /** Returns the body, cut to `maxLength` characters. */
  text(maxLength?: number): Promise<string>;
};

/**
 * Wraps a response. `onEnd` is called, possibly more than once, when the body ends, fails, or is abandoned by
 * its reader.
 */
export function httpReply(
  response: Response,
  limits: ReplyLimits,
  context: ProviderContext,
  onEnd: () => void = () => undefined,
): HttpReply {
  const { status, headers, body } = response;
  if (!body) onEnd();
  const guard = () => body && new BodyGuard(body.getReader(), limits, context, onEnd);
  return { status, headers, chunks: () => chunksOf(guard()), text: maxLength => textOf(guard(), maxLength) };
}

async function textOf(guard: BodyGuard | null, maxLength = Number.POSITIVE_INFINITY): Promise<string> {
  let text = '';
  const decoder = new TextDecoder();
  for (let chunk = await guard?.read(); chunk; chunk = await guard?.read()) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length <= maxLength) continue;
    guard?.abandon();
    return text.slice(0, maxLength);
  }
  return text + decoder.decode();
}

/** How long an abandoned body is drained before its connection is closed, in ms. */
const GRACE_MS = 1_000;

/**
 * Iterates over the chunks of a response body. When the reader stops early, the rest is drained in the
 * background for up to a second, so that the connection can be reused if the server ends the body in time.
 */
function chunksOf(guard: BodyGuard | null): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]: () => ({
      async next() {
        const value = await guard?.read();
        return value ? { done: false, value } : ENDED;
      },
      async return() {
        guard?.abandon();
        return ENDED;
      },
    }),
  };
}

const ENDED: IteratorReturnResult<undefined> = { done: true, value: undefined };

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * Reads a body and enforces its limits.
 *
 * G1 A body that exceeds a limit is cancelled, which closes its connection; every later read throws the same
 *    error.
 * G2 The idle limit counts from the start of a read, while it waits. The total limit counts from the first read.
 * G3 One timer per body, set for whichever limit comes first, and set again only when it fires: a read costs no
 *    timer. It stops when the body ends or fails.
 */
class BodyGuard {
  readonly #reader: Reader;
  readonly #limits: ReplyLimits;
  readonly #context: ProviderContext;
  readonly #onEnd: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** The start of the first read and of the read that waits, in ms on a monotonic clock. */
  #firstRead: number | undefined;
  #waitingSince: number | undefined;
  #bytes = 0;
  #error: Error | undefined;

  constructor(reader: Reader, limits: ReplyLimits, context: ProviderContext, onEnd: () => void) {
    this.#reader = reader;
    this.#limits = limits;
    this.#context = context;
    this.#onEnd = onEnd;
  }

  /** Returns the next chunk, or `undefined` at the end. */
  async read(): Promise<Uint8Array | undefined> {
    this.#waitingSince = performance.now();
    if (this.#firstRead === undefined) this.#watch(this.#waitingSince);
    try {
      const { value } = await this.#reader.read();
      if (this.#error) throw this.#error;
      if (value === undefined) this.#stop();
      else this.#count(value.byteLength);
      return value;
    } catch (error) {
      this.#stop();
      throw this.#error ?? error;
    } finally {
      this.#waitingSince = undefined;
    }
  }

  #count(bytes: number): void {
    const { maxResponseBytes } = this.#limits;
    this.#bytes += bytes;
    if (this.#bytes > maxResponseBytes) throw this.#fail(responseTooLarge(maxResponseBytes, this.#context));
  }

  /** Abandons the body: stops the timers and drains the rest in the background. */
  abandon(): void {
    this.#stop();
    void drain(this.#reader);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#onEnd();
  }

  #watch(now: number): void {
    const { totalTimeoutMs, idleTimeoutMs } = this.#limits;
    this.#firstRead ??= now;
    const untilTotal = this.#firstRead + totalTimeoutMs - now;
    const untilIdle = (this.#waitingSince ?? now) + idleTimeoutMs - now;
    if (untilTotal <= 0) this.#fail(tookTooLong(totalTimeoutMs, this.#context));
    else if (untilIdle <= 0) this.#fail(stalled(idleTimeoutMs, this.#context));
    // A timer may fire a fraction of a millisecond early.
    else
      this.#timer = setTimeout(
        () => this.#watch(performance.now()),
        Math.ceil(Math.min(untilTotal, untilIdle)),
      );
  }

  #fail(error: Error): Error {
    this.#error = error;
    this.#stop();
    this.#reader.cancel(error).catch(() => undefined);
    return error;
  }
}

async function drain(reader: Reader): Promise<void> {
  const deadline = setTimeout(() => reader.cancel().catch(() => undefined), GRACE_MS);
  try {
    let read = await reader.read();
    while (!read.done) read = await reader.read();
  } catch {
    // The connection is already closed.
  } finally {
    clearTimeout(deadline);
  }
}
