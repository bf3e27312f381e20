/** The longest message of an MCP server that is read, in bytes: a result, or a list of tools. */
export const LARGEST_MESSAGE_BYTES = 16 * 1024 * 1024;

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * A `fetch` whose answers fail with an `Error` as soon as one message in them is larger than `maxBytes`. In an
 * event stream each event is a message; any other body is one.
 */
export function boundAnswers(fetch: Fetch, maxBytes: number): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (response.body === null) return response;
    const isStream = /^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '');
    const size = isStream ? new EventSize() : new BodySize();
    const bounded = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          if (size.add(chunk) > maxBytes)
            throw new Error(`it sent a message of more than ${maxBytes} bytes, which is not read`);
          controller.enqueue(chunk);
        },
      }),
    );
    const { status, statusText, headers } = response;
    const answer = new Response(bounded, { status, statusText, headers });
    Object.defineProperty(answer, 'url', { value: response.url });
    return answer;
  };
}

/** How much of one message has come. */
interface MessageSize {
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

/** An event ends with an empty line. */
class EventSize implements MessageSize {
  #bytes = 0;
  #line = 0;

  /** The largest the event was that is going on, or that ended in this chunk. */
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
