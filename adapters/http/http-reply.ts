import { type ProviderContext, responseTooLarge, stalled, tookTooLong } from './provider-errors.ts';

/** How much, and how slowly, a response may come. */
export type ReplyLimits = {
  /** The longest pause between two pieces of a body, in ms. */
  idleTimeoutMs: number;
  /** The longest time from the first piece asked for to the end, in ms. */
  totalTimeoutMs: number;
  /** The most bytes a body may have, after decompression. */
  maxResponseBytes: number;
};

/** A response whose body is read once, by `chunks` or by `text`. Both throw a `ProviderError` past a limit. */
export type HttpReply = {
  status: number;
  headers: Headers;
  chunks(): AsyncIterable<Uint8Array>;
  /** The body, or its beginning where it has more than `longest` characters. */
  text(longest?: number): Promise<string>;
};

/** `onEnd` is called when the body has ended, was left or broke; perhaps more than once. */
export function httpReply(
  response: Response,
  limits: ReplyLimits,
  context: ProviderContext,
  onEnd: () => void = () => undefined,
): HttpReply {
  const { status, headers, body } = response;
  if (!body) onEnd();
  const guard = () => body && new BodyGuard(body.getReader(), limits, context, onEnd);
  return { status, headers, chunks: () => chunksOf(guard()), text: longest => textOf(guard(), longest) };
}

async function textOf(guard: BodyGuard | null, longest = Number.POSITIVE_INFINITY): Promise<string> {
  let text = '';
  const decoder = new TextDecoder();
  for (let chunk = await guard?.read(); chunk; chunk = await guard?.read()) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length <= longest) continue;
    guard?.leave();
    return text.slice(0, longest);
  }
  return text + decoder.decode();
}

/** How long a server may take to end a body that nobody reads any more, in ms. */
const GRACE_MS = 1_000;

/**
 * The chunks of a response body. When the reader stops early, the rest is drained in the background
 * for up to a second: a server that ends in time has its connection used again, another is cut off.
 */
function chunksOf(guard: BodyGuard | null): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]: () => ({
      async next() {
        const value = await guard?.read();
        return value ? { done: false, value } : ENDED;
      },
      async return() {
        guard?.leave();
        return ENDED;
      },
    }),
  };
}

const ENDED: IteratorReturnResult<undefined> = { done: true, value: undefined };

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * Reads a body within its limits.
 *
 * G1 A body that breaks a limit is cancelled, so that its connection closes, and says so ever after.
 * G2 One timer per body for its pauses, re-armed by each chunk; it counts only while a chunk is waited for.
 * G3 One timer per body for the whole of it, set by the first read. Both are stopped when the body ends or breaks.
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
  #broken: Error | undefined;

  constructor(reader: Reader, limits: ReplyLimits, context: ProviderContext, onEnd: () => void) {
    this.#reader = reader;
    this.#limits = limits;
    this.#context = context;
    this.#onEnd = onEnd;
  }

  /** The next chunk; `undefined` at the end. */
  async read(): Promise<Uint8Array | undefined> {
    this.#watch();
    try {
      const { value } = await this.#reader.read();
      if (this.#broken) throw this.#broken;
      if (value === undefined) this.#stop();
      else this.#count(value.byteLength);
      return value;
    } catch (error) {
      this.#stop();
      throw this.#broken ?? error;
    } finally {
      this.#waiting = false;
    }
  }

  #count(bytes: number): void {
    const { maxResponseBytes } = this.#limits;
    this.#bytes += bytes;
    if (this.#bytes > maxResponseBytes) throw this.#break(responseTooLarge(maxResponseBytes, this.#context));
  }

  leave(): void {
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
      () => this.#break(tookTooLong(totalTimeoutMs, this.#context)),
      totalTimeoutMs,
    );
    if (this.#timer) this.#timer.refresh();
    else this.#timer = setTimeout(() => this.#onIdle(), this.#limits.idleTimeoutMs);
  }

  #onIdle(): void {
    if (this.#waiting) this.#break(stalled(this.#limits.idleTimeoutMs, this.#context));
  }

  #break(error: Error): Error {
    this.#broken = error;
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
    // The connection is gone, which is what was wanted.
  } finally {
    clearTimeout(deadline);
  }
}
