import type { Host } from '../../engine/driver/host.ts';

/** How long a stream is silent before it sends a comment, in ms. */
const KEEP_ALIVE_MS = 15_000;

/**
 * A body of server-sent events, one for each value, at the reader's pace, with a comment when there is nothing to send.
 * `failed` makes the last event of a stream that throws. `leave` is called when the reader has left, to end `values`.
 */
export function eventBody<Value>(
  values: AsyncGenerator<Value>,
  {
    host,
    frame,
    failed,
    leave,
  }: { host: Host; frame(value: Value): string; failed(error: unknown): string; leave(): void },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let next: Promise<string | null> | null = null;
  const read = async () => {
    try {
      const step = await values.next();
      return step.done === true ? null : frame(step.value);
    } catch (error) {
      await values.return(undefined);
      return failed(error);
    }
  };
  return new ReadableStream(
    {
      async pull(controller) {
        next ??= read();
        const text = await withinTime(next, host);
        if (text === undefined) return controller.enqueue(encoder.encode(': here\n\n'));
        next = null;
        if (text === null) controller.close();
        else controller.enqueue(encoder.encode(text));
      },
      cancel() {
        leave();
        values.return(undefined).catch(() => {});
      },
    },
    { highWaterMark: 0 },
  );
}

/** `undefined` after `KEEP_ALIVE_MS` without a value. */
async function withinTime<Value>(value: Promise<Value>, host: Host): Promise<Value | undefined> {
  let cancel = () => {};
  const timeout = new Promise<undefined>(resolve => {
    cancel = host.setTimer(KEEP_ALIVE_MS, () => resolve(undefined), { keepAlive: false });
  });
  return await Promise.race([value, timeout]).finally(() => cancel());
}
