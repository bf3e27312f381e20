import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from '../../../server/error-envelope.ts';
import type { Round } from '../round.ts';

/** How long a request waits for a process that is being started again, in ms. */
const PATIENCE_MS = 10_000;

/** Between a kill and the next try, in ms. */
const AGAIN_MS = 20;

const COME_BACK = new TextEncoder().encode('retry: 100\n\n');

const TAKEN_ALONG = ['accept', 'content-type', 'last-event-id'];

/**
 * Asks the runs API of the process there is now, or of the next one. What only reads is asked again when the
 * process is killed before it has answered, and a stream of events ends. Throws an `ApiError` for what was
 * told to a process that is killed, and where none comes.
 */
export async function forwardRequest(request: Request, round: Round): Promise<Response> {
  const { method, signal } = request;
  const body = method === 'GET' ? null : await request.text();
  for (;;) {
    const origin = await round.findChart(PATIENCE_MS);
    if (origin === null) throw gone('does not come back');
    try {
      return await ask(request, origin, body);
    } catch {
      if (method !== 'GET' || signal.aborted)
        throw gone('was killed before it answered; look at the run before you say it again');
      await delay(AGAIN_MS);
    }
  }
}

async function ask(request: Request, origin: string, body: string | null): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const headers = new Headers();
  for (const name of TAKEN_ALONG) {
    const value = request.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  const { method, signal } = request;
  const answer = await fetch(`${origin}${pathname}${search}`, {
    ...{ method, headers, body, signal },
    redirect: 'error',
  });
  const type = answer.headers.get('content-type') ?? '';
  const isStream = type.startsWith('text/event-stream') && answer.body !== null;
  return new Response(isStream ? endQuietly(answer.body) : await answer.arrayBuffer(), {
    status: answer.status,
    headers: type === '' ? {} : { 'Content-Type': type },
  });
}

/** The same, that ends where the other breaks off: its reader comes back for the rest, and soon. */
function endQuietly(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
      controller.enqueue(value ?? COME_BACK);
      if (done) controller.close();
    },
    cancel: reason => reader.cancel(reason).catch(() => {}),
  });
}

function gone(what: string): ApiError {
  return new ApiError('shutting-down', `The process that serves the run ${what}.`);
}
