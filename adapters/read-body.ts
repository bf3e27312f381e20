/** How long a server may take to end a body that nobody reads any more, in ms. */
const GRACE_MS = 1_000;

/**
 * The chunks of a response body. When the reader stops early, the rest is drained in the background
 * for up to a second: a server that ends in time has its connection used again, another is cut off.
 */
export function readBody(response: Response): AsyncIterable<Uint8Array> {
  const reader = response.body?.getReader();
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () => (reader ? iteratorResult(await reader.read()) : ENDED),
      return: async () => {
        if (reader) void drain(reader);
        return ENDED;
      },
    }),
  };
}

const ENDED: IteratorReturnResult<undefined> = { done: true, value: undefined };

function iteratorResult(read: {
  done: boolean;
  value?: Uint8Array | undefined;
}): IteratorResult<Uint8Array, undefined> {
  return read.done || read.value === undefined ? ENDED : { done: false, value: read.value };
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
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
