import type { LiveResponse } from './live/live-response.ts';
import { errorEvent } from './wire/error-event.ts';
import type { WireEvent } from './wire/response-writer.ts';

/** The longest silence in a stream, in ms. */
const KEEP_ALIVE_MS = 15_000;

/** How a protocol writes a response as server-sent events. */
export type StreamFormat = {
  /** The text for an event of the response; may be empty. */
  write(event: WireEvent): string;
  /** The text after the last event. */
  end: string;
  /** The text after 15 s of silence. */
  keepAlive: string;
};

/** The format of the Responses API. `JSON.stringify` produces no line breaks, so one data line is enough. */
export const RESPONSE_EVENTS: StreamFormat = {
  write: event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  end: 'data: [DONE]\n\n',
  keepAlive: ': here\n\n',
};

/**
 * The events of a response after number `after` as server-sent events of a protocol, at the reader's pace. Events that are
 * available together are one chunk; an event is never split. A stream that breaks off before the response has ended has
 * an `error` event as its last event.
 */
export function streamEvents(
  live: LiveResponse,
  format: StreamFormat,
  after?: number,
): ReadableStream<Uint8Array> {
  const batches = live.batches(after);
  let pending: Promise<IteratorResult<readonly WireEvent[], void>> | null = null;
  let last = after ?? -1;
  return new ReadableStream(
    {
      async pull(controller) {
        for (;;) {
          pending ??= batches
            .next()
            .catch((thrown: unknown) => ({ value: [errorEvent(thrown, last + 1)], done: false }));
          const step = await withinTime(pending);
          if (step === null) return controller.enqueue(encoder.encode(format.keepAlive));
          pending = null;
          if (step.done === true) {
            controller.enqueue(encoder.encode(format.end));
            return controller.close();
          }
          last = step.value.at(-1)?.sequence_number ?? last;
          const bytes = encode(step.value, format);
          if (bytes.length > 0) return controller.enqueue(bytes);
        }
      },
      cancel: () => live.leave(),
    },
    { highWaterMark: 0 },
  );
}

const encoder = new TextEncoder();
const encoded = new WeakMap<readonly WireEvent[], Uint8Array>();

/** Encodes a batch; in the format of the Responses API once for all readers. Writers of other formats have a state. */
function encode(batch: readonly WireEvent[], format: StreamFormat): Uint8Array {
  const known = format === RESPONSE_EVENTS ? encoded.get(batch) : undefined;
  const bytes = known ?? encoder.encode(batch.map(format.write).join(''));
  if (format === RESPONSE_EVENTS) encoded.set(batch, bytes);
  return bytes;
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
