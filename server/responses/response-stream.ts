import type { LiveResponse } from './follow-response.ts';
import type { WireEvent } from './wire/response-writer.ts';

/** How long a stream may be silent, in ms. */
const KEEP_ALIVE_MS = 15_000;
const KEEP_ALIVE = ': here\n\n';

/** Server-sent events, each in one write, as fast as they are read; `[DONE]` is the last. */
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

/** JSON has no line ends of its own. */
function frame(event: WireEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

async function withinTime<Value>(value: Promise<Value>): Promise<Value | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>(resolve => {
    timer = setTimeout(() => resolve(null), KEEP_ALIVE_MS);
    timer.unref();
  });
  try {
    return await Promise.race([value, late]);
  } finally {
    clearTimeout(timer);
  }
}
