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
 * G2 One idle timer per body, set again by each read; it only counts while a read is waiting.
 * G3 One total timer per body, started by the first read. Both timers stop when the body ends or fails.
 */
class BodyGuard {
  readonly #reader: Reader;
  readonly #limits: ReplyLimits;
  readonly #context: ProviderContext;
  readonly #onEnd: () => void;
  #timer: NodeJS.Timeout | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #waiting = false;
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
    this.#watch();
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
      this.#waiting = false;
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
    clearTimeout(this.#deadline);
    this.#timer = undefined;
    this.#onEnd();
  }

  #watch(): void {
    const { totalTimeoutMs } = this.#limits;
    this.#waiting = true;
    this.#deadline ??= setTimeout(
      () => this.#fail(tookTooLong(totalTimeoutMs, this.#context)),
      totalTimeoutMs,
    );
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#onIdle(), this.#limits.idleTimeoutMs);
  }

  #onIdle(): void {
    if (this.#waiting) this.#fail(stalled(this.#limits.idleTimeoutMs, this.#context));
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
