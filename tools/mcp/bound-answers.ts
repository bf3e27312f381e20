/** The largest message that is accepted from an MCP server, in bytes: a result, or a list of tools. */
export const LARGEST_MESSAGE_BYTES = 16 * 1024 * 1024;

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** `fetch` whose bodies fail once one message exceeds `maxBytes`; in a stream each event is one. */
export function boundAnswers(fetch: Fetch, maxBytes: number): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (response.body === null) return response;
    const isStream = /^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '');
    const sizeWith = isStream ? countEvents() : countBody();
    const body = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          if (sizeWith(chunk) > maxBytes)
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

const [LF, CR] = [10, 13];

/** Returns what takes a chunk and returns the size of the largest message that it belongs to. An empty line ends an event. */
function countEvents(): (chunk: Uint8Array) => number {
  let [bytes, line] = [0, 0];
  return chunk => {
    let largest = 0;
    for (const byte of chunk) {
      bytes += 1;
      if (byte !== LF && byte !== CR) line += 1;
      if (byte !== LF) continue;
      largest = Math.max(largest, bytes);
      if (line === 0) bytes = 0;
      line = 0;
    }
    return Math.max(largest, bytes);
  };
}

function countBody(): (chunk: Uint8Array) => number {
  let bytes = 0;
  return chunk => {
    bytes += chunk.length;
    return bytes;
  };
}
