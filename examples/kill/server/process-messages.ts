import * as z from 'zod';

/** Where the plain loop stands: a `LoopState`. */
export const plainReportSchema = z.strictObject({
  type: z.literal('plain'),
  at: z.enum(['model', 'askPerson', 'refund', 'finished']),
  said: z.string(),
  recorded: z.number().int(),
});
export type PlainReport = z.infer<typeof plainReportSchema>;

/** What a worker process tells the one that started it. */
export const reportSchema = z.discriminatedUnion('type', [
  /** `port`: of its runs API, where it has one. */
  z.strictObject({ type: z.literal('ready'), port: z.exactOptional(z.number().int()) }),
  z.strictObject({ type: z.literal('run'), runId: z.string() }),
  plainReportSchema,
]);
export type Report = z.infer<typeof reportSchema>;

/** What it is told. */
export type Order = 'begin' | 'approve';

/** To the process that started this one. */
export function report(message: Report): void {
  process.send?.(message);
}

/** The orders as they come; each is taken once. Without the process that started it, this one ends. */
export function readOrders(): { next(order: Order): Promise<void> } {
  const come: unknown[] = [];
  let look = () => {};
  process.on('message', message => {
    come.push(message);
    look();
  });
  process.on('disconnect', () => process.exit());
  return {
    next: order =>
      new Promise(resolve => {
        look = () => {
          const place = come.indexOf(order);
          if (place < 0) return;
          come.splice(place, 1);
          look = () => {};
          resolve();
        };
        look();
      }),
  };
}
