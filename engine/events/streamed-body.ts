import { oncePer } from '../../protocol/once-per.ts';
import type { Host } from '../host/host.ts';

/** How long a body is silent before it sends its keep-alive text, in ms. Proxies cut connections that are silent longer. */
const KEEP_ALIVE_MS = 15_000;

/** A keep-alive text of server-sent events: a comment, which readers ignore. */
export const KEEP_ALIVE_COMMENT = ': here\n\n';

/** The headers of server-sent events: proxies must not hold them back. */
export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'X-Accel-Buffering': 'no',
};

type Framed = string | Uint8Array;

/** How values become a body. */
export type BodyFormat<Value> = {
  /** What the reader gets of a value, in one chunk; nothing is sent for an empty one. */
  frame(value: Value): Framed;
  begin?: Framed;
  /** The text that is sent after each `ms` (default 15 s) without a value. Default: none. */
  keepAlive?: { text: string; host: Pick<Host, 'setTimer'>; ms?: number };
  end?: string;
  /** What the reader gets when the values fail, before `end`. By default, or if it throws, the body fails too. */
  failed?(error: unknown): Framed;
  /** Called when the reader leaves, to end what the next value waits for. */
  leave?(): void;
};

/** A response body of values at the reader's pace: none is requested early or split. Ends the values when the reader leaves. */
export function streamedBody<Value>(
  values: AsyncGenerator<Value>,
  format: BodyFormat<Value>,
): ReadableStream<Uint8Array> {
  const { frame, begin = '', keepAlive, end = '' } = format;
  let cancelTimer = () => {};
  const read = async (): Promise<Framed | null> => {
    try {
      for (;;) {
        const step = await values.next();
        if (step.done === true) return null;
        const framed = frame(step.value);
        if (framed.length > 0) return framed;
      }
    } catch (error) {
      await values.return(undefined).catch(() => {});
      if (format.failed === undefined) throw error;
      const framed = format.failed(error);
      return framed.length > 0 ? framed : null;
    }
  };
  /** While the next value is awaited: sends the keep-alive text after each silence, unless the last one was not read. */
  const fillSilence = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (keepAlive === undefined) return;
    const { host, text, ms = KEEP_ALIVE_MS } = keepAlive;
    const fire = () => {
      if (controller.desiredSize === 0) controller.enqueue(bytesOf(text));
      fillSilence(controller);
    };
    cancelTimer = host.setTimer(ms, fire, { keepAlive: false });
  };
  return new ReadableStream(
    {
      start(controller) {
        if (begin.length > 0) controller.enqueue(bytesOf(begin));
      },
      async pull(controller) {
        fillSilence(controller);
        const framed = await read().finally(() => cancelTimer());
        if (framed !== null) return controller.enqueue(bytesOf(framed));
        if (end !== '') controller.enqueue(bytesOf(end));
        controller.close();
      },
      cancel() {
        cancelTimer();
        format.leave?.();
        values.return(undefined).catch(() => {});
      },
    },
    { highWaterMark: 0 },
  );
}

/** Returns a `frame` that encodes a value once for all bodies that share it. */
export function frameOnce<Value extends object>(
  write: (value: Value) => string,
): (value: Value) => Uint8Array {
  return oncePer(value => bytesOf(write(value)));
}

const encoder = new TextEncoder();

function bytesOf(framed: Framed): Uint8Array {
  return typeof framed === 'string' ? encoder.encode(framed) : framed;
}
