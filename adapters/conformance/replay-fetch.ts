import { type Answer, Answers, type SeenRequest, SSE_HEADERS } from './answer.ts';

/** A replayed `fetch` and the requests it received. */
export type ReplayFetch = {
  fetch: typeof fetch;
  /** The requests in order. */
  requests: SeenRequest[];
};

/**
 * Creates a `fetch` that returns the given answers without a socket, each chunk as one piece of the body. The
 * last answer is repeated. An abort ends the call and its body, as with a real `fetch`.
 *
 * @example
 * const { fetch, requests } = replayFetch({ chunks: oneByOne(recording) });
 */
export function replayFetch(...answers: readonly Answer[]): ReplayFetch {
  const queue = new Answers(answers);
  const requests: SeenRequest[] = [];
  const replay: typeof fetch = async (input, init) => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    signal?.throwIfAborted();
    const answer = queue.next();
    const sent = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    requests.push({ ...(await read(input, init)), sent: sent.promise, closed: closed.promise });
    const body = bodyOf(answer, signal, { sent: sent.resolve, closed: closed.resolve });
    return new Response(body, { status: answer.status ?? 200, headers: answer.headers ?? SSE_HEADERS });
  };
  return { fetch: replay, requests };
}

async function read(
  input: Parameters<typeof fetch>[0],
  init: RequestInit | undefined,
): Promise<Pick<SeenRequest, 'path' | 'headers' | 'body'>> {
  const { pathname, search } = new URL(input instanceof Request ? input.url : String(input));
  const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : {}));
  const body = typeof init?.body === 'string' ? init.body : await new Request(input, init).text();
  return {
    path: `${pathname}${search}`,
    headers: Object.fromEntries(headers),
    body: JSON.parse(body || '{}'),
  };
}

function bodyOf(
  { chunks, cut, end }: Answer,
  signal: AbortSignal | null | undefined,
  { sent, closed }: { sent: () => void; closed: () => void },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let next = 0;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const abort = () => {
        closed();
        controller.error(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
    },
    async pull(controller) {
      const chunk = chunks[next++];
      if (chunk !== undefined) {
        controller.enqueue(typeof chunk === 'string' ? encoder.encode(chunk) : chunk);
        return;
      }
      sent();
      if (end) await end;
      closed();
      if (signal?.aborted) return;
      if (cut) controller.error(new TypeError('terminated'));
      else controller.close();
    },
    cancel: closed,
  });
}
