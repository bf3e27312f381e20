/** The largest message that is accepted from an MCP server, in bytes: a result, or a list of tools. */
export const LARGEST_MESSAGE_BYTES = 16 * 1024 * 1024;

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * Wraps `fetch` so that reading a response body fails with an `Error` once one message exceeds `maxBytes`. In an
 * event stream each event is one message; any other body is one message.
 */
export function boundAnswers(fetch: Fetch, maxBytes: number): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (response.body === null) return response;
    const isStream = /^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '');
    const size = isStream ? new EventSize() : new BodySize();
    const body = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          if (size.add(chunk) > maxBytes)
            throw new Error(`it sent a message of more than ${maxBytes} bytes, which is the limit`);
          controller.enqueue(chunk);
        },
      }),
    );
    const { status, statusText, headers } = response;
    const bounded = new Response(body, { status, statusText, headers });
    Object.defineProperty(bounded, 'url', { value: response.url });
    return bounded;
  };
}

/** Counts the bytes of the message being received. */
interface MessageSize {
  /** Counts a chunk; returns the size in bytes of the largest message that the chunk belongs to. */
  add(chunk: Uint8Array): number;
}

class BodySize implements MessageSize {
  #bytes = 0;

  add(chunk: Uint8Array): number {
    this.#bytes += chunk.length;
    return this.#bytes;
  }
}

const [LF, CR] = [10, 13];

/** The size of one server-sent event: an event ends with an empty line. */
class EventSize implements MessageSize {
  #bytes = 0;
  #line = 0;

  add(chunk: Uint8Array): number {
    let largest = 0;
    for (const byte of chunk) {
      this.#bytes += 1;
      if (byte !== LF && byte !== CR) this.#line += 1;
      if (byte !== LF) continue;
      largest = Math.max(largest, this.#bytes);
      if (this.#line === 0) this.#bytes = 0;
      this.#line = 0;
    }
    return Math.max(largest, this.#bytes);
  }
}
