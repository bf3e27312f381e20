import type { LiveResponse } from './follow-response.ts';
import type { WireEvent } from './wire/response-writer.ts';

/** The longest silence in a stream, in ms. */
const KEEP_ALIVE_MS = 15_000;
const KEEP_ALIVE = ': here\n\n';

/** The events of a response as server-sent events at the reader's pace; `[DONE]` is the last. */
export function streamEvents(live: LiveResponse): ReadableStream<Uint8Array> {
  const events = live.events();
  const encoder = new TextEncoder();
  let pending: Promise<IteratorResult<WireEvent, void>> | null = null;
  return new ReadableStream(
    {
      async pull(controller) {
        pending ??= events.next();
        const step = await withinTime(pending);
        if (step === null) return controller.enqueue(encoder.encode(KEEP_ALIVE));
        pending = null;
        if (step.done !== true) return controller.enqueue(encoder.encode(frame(step.value)));
        controller.enqueue(encoder.encode('data: [DONE]\n\n'));
        controller.close();
      },
      cancel: () => live.leave(),
    },
    { highWaterMark: 0 },
  );
}

/** One server-sent event. `JSON.stringify` produces no line breaks, so one data line is enough. */
function frame(event: WireEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** `null` after `KEEP_ALIVE_MS` without a value. */
async function withinTime<Value>(value: Promise<Value>): Promise<Value | null> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<null>(resolve => {
    timer = setTimeout(() => resolve(null), KEEP_ALIVE_MS);
    timer.unref();
  });
  try {
    return await Promise.race([value, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
