import * as z from 'zod';

/** The progress of the plain loop: a `LoopState`. */
const plainReportSchema = z.strictObject({
  type: z.literal('plain'),
  at: z.enum(['model', 'askPerson', 'refund', 'finished']),
  said: z.string(),
  recorded: z.number().int(),
});

/** A message from a worker process to the demo. */
export const reportSchema = z.discriminatedUnion('type', [
  /** `port` is that of its runs API, if it has one. */
  z.strictObject({ type: z.literal('ready'), port: z.exactOptional(z.number().int()) }),
  z.strictObject({ type: z.literal('run'), runId: z.string() }),
  plainReportSchema,
]);
export type Report = z.infer<typeof reportSchema>;

/** A message from the demo to a worker process. */
export type Order = 'begin' | 'approve';

/** Sends a message to the demo's process. */
export function report(message: Report): void {
  process.send?.(message);
}

/** Receives orders; each is returned once. Exits this process when the demo's process has ended. */
export function readOrders(): { next(order: Order): Promise<void> } {
  const received: unknown[] = [];
  let look = () => {};
  process.on('message', message => {
    received.push(message);
    look();
  });
  process.on('disconnect', () => process.exit());
  return {
    next: order =>
      new Promise(resolve => {
        look = () => {
          const place = received.indexOf(order);
          if (place < 0) return;
          received.splice(place, 1);
          look = () => {};
          resolve();
        };
        look();
      }),
  };
}
