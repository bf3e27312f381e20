import type { Context } from '@restatedev/restate-sdk';
import type { Deliveries, Delivery } from './drive-run.ts';
import { json } from './json-serde.ts';
import { DRIVE_SERVICE, type Parked, RUN_OBJECT, TEXT_OBJECT } from './requests.ts';
import { runHandlers, sharedRunHandlers } from './run-object.ts';
import { sharedTextHandlers, textHandlers } from './text-object.ts';

/** A drive does not use Restate's context while it works, so Restate must not take it for stuck. */
const LONGEST_DRIVE = { days: 30 };
/** A worker that comes back is soon used again, however long it was away. */
const retryPolicy = { initialInterval: 100, exponentiationFactor: 2, maxInterval: 2_000, maxAttempts: 1e6 };
/** Lost answers are asked for again within a minute. */
const SHORT = { minutes: 10 };

/** Returns the services of a worker that drives these deliveries. Loads Restate's SDK. */
export async function makeServices(deliveries: Deliveries) {
  const { handlers, object, service } = await import('@restatedev/restate-sdk');
  const { shared } = handlers.object;
  const sharedRun = {
    get: shared(sharedRunHandlers.get),
    isCurrent: shared(sharedRunHandlers.isCurrent),
    read: shared(sharedRunHandlers.read),
    loadSnapshot: shared(sharedRunHandlers.loadSnapshot),
    readBlob: shared(sharedRunHandlers.readBlob),
    changed: shared(sharedRunHandlers.changed),
  };
  const sharedText = { peek: shared(sharedTextHandlers.peek) };
  const options = {
    journalRetention: 0,
    idempotencyRetention: SHORT,
    enableLazyState: true,
    retryPolicy,
  } as const;
  return [
    object({
      name: RUN_OBJECT,
      handlers: { ...runHandlers, ...sharedRun },
      options,
    }),
    object({
      name: TEXT_OBJECT,
      handlers: { ...textHandlers, ...sharedText },
      options,
    }),
    service({
      name: DRIVE_SERVICE,
      handlers: {
        drive: async (ctx: Context, delivery: Delivery) => await deliver(ctx, deliveries, delivery),
      },
      options: { inactivityTimeout: LONGEST_DRIVE, abortTimeout: SHORT, ingressPrivate: true, retryPolicy },
    }),
  ];
}

/** What was the outcome is kept, so that a repeated invocation sends the same. */
async function deliver(ctx: Context, deliveries: Deliveries, delivery: Delivery): Promise<void> {
  const parked = await ctx
    .run('drive', () => deliveries.drive(delivery))
    .catch((error: unknown): Parked => {
      if (!isTerminal(error)) throw error;
      deliveries.abandon(delivery);
      return { code: 'refused', message: `Its delivery was cancelled in Restate: ${error.message}` };
    });
  const over = { delivery: delivery.delivery, ...(parked !== null && { parked }) };
  ctx.genericSend({
    service: RUN_OBJECT,
    key: delivery.runId,
    method: 'left',
    parameter: over,
    inputSerde: json(),
  });
}

/** Whether Restate does not try again. */
function isTerminal(error: unknown): error is Error {
  return error instanceof Error && ['TerminalError', 'CancelledError'].includes(error.name);
}
