import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from '../../../server/error-envelope.ts';
import type { Round } from '../round.ts';

/** How long a request waits for a restarting process, in ms. */
const RESTART_TIMEOUT_MS = 10_000;

/** The delay before a request is retried, in ms. */
const RETRY_MS = 20;

/** Tells an EventSource to reconnect after 100 ms. */
const RECONNECT = new TextEncoder().encode('retry: 100\n\n');

const FORWARDED_HEADERS = ['accept', 'content-type', 'last-event-id'];

/**
 * Forwards a request to the runs API of the current process, or of the next one while it restarts. A GET is
 * retried when the process is killed before it responds; a stream of events ends. Throws an `ApiError`
 * `shutting-down` for any other request whose process is killed, and when no process starts.
 */
export async function forwardRequest(request: Request, round: Round): Promise<Response> {
  const { method, signal } = request;
  const body = method === 'GET' ? null : await request.text();
  for (;;) {
    const origin = await round.findChart(RESTART_TIMEOUT_MS);
    if (origin === null) throw gone('did not restart');
    try {
      return await ask(request, origin, body);
    } catch {
      if (method !== 'GET' || signal.aborted)
        throw gone('was killed before it responded; check the run before you repeat the command');
      await delay(RETRY_MS);
    }
  }
}

async function ask(request: Request, origin: string, body: string | null): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const headers = new Headers();
  for (const name of FORWARDED_HEADERS) {
    const value = request.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  const { method, signal } = request;
  const answer = await fetch(`${origin}${pathname}${search}`, {
    method,
    headers,
    body,
    signal,
    redirect: 'error',
  });
  const type = answer.headers.get('content-type') ?? '';
  const isStream = type.startsWith('text/event-stream') && answer.body !== null;
  return new Response(isStream ? endQuietly(answer.body) : await answer.arrayBuffer(), {
    status: answer.status,
    headers: type === '' ? {} : { 'Content-Type': type },
  });
}

/** Returns the stream, but ends it without an error when its source fails, so that the reader reconnects. */
function endQuietly(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
      controller.enqueue(value ?? RECONNECT);
      if (done) controller.close();
    },
    cancel: reason => reader.cancel(reason).catch(() => {}),
  });
}

function gone(what: string): ApiError {
  return new ApiError('shutting-down', `The process that serves the run ${what}.`);
}
