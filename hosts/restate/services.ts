import type { Context } from '@restatedev/restate-sdk';
import type { Deliveries, Delivery } from './drive-run.ts';
import { DRIVE_SERVICE, json, type Quarantine, RUN_OBJECT, TEXT_OBJECT, THREAD_OBJECT } from './requests.ts';
import { runHandlers, sharedRunHandlers } from './run-object.ts';
import { sharedTextHandlers, textHandlers } from './text-object.ts';
import { threadHandlers } from './thread-object.ts';

/** A drive does not use Restate's context while it works, so Restate must not treat it as stuck. */
const LONGEST_DRIVE = { days: 30 };
/** A returning worker is used again soon, even after a long absence. */
const retryPolicy = { initialInterval: 100, exponentiationFactor: 2, maxInterval: 2_000, maxAttempts: 1e6 };
/** For requests that only wait, which callers repeat: they do not wait for a deployment that is gone. */
const soonKilled = { ...retryPolicy, maxAttempts: 4, onMaxAttempts: 'kill' } as const;
/** How long results are kept, and the abort timeout of a drive. Callers repeat within a minute. */
const SHORT = { minutes: 10 };

export async function makeRestateServices(deliveries: Deliveries) {
  const { handlers, object, service } = await import('@restatedev/restate-sdk');
  const { shared } = handlers.object;
  const sharedRun = {
    get: shared(sharedRunHandlers.get),
    isCurrent: shared(sharedRunHandlers.isCurrent),
    read: shared(sharedRunHandlers.read),
    loadSnapshot: shared(sharedRunHandlers.loadSnapshot),
    readBlob: shared(sharedRunHandlers.readBlob),
    listBlobs: shared(sharedRunHandlers.listBlobs),
    changed: shared({ retryPolicy: soonKilled }, sharedRunHandlers.changed),
  };
  const sharedText = { peek: shared(sharedTextHandlers.peek) };
  const options = {
    journalRetention: 0,
    idempotencyRetention: SHORT,
    enableLazyState: true,
    retryPolicy,
  } as const;
  return [
    object({ name: RUN_OBJECT, handlers: { ...runHandlers, ...sharedRun }, options }),
    object({ name: THREAD_OBJECT, handlers: threadHandlers, options }),
    object({ name: TEXT_OBJECT, handlers: { ...textHandlers, ...sharedText }, options }),
    service({
      name: DRIVE_SERVICE,
      handlers: {
        drive: async (ctx: Context, delivery: Delivery) => await deliver(ctx, deliveries, delivery),
      },
      options: { inactivityTimeout: LONGEST_DRIVE, abortTimeout: SHORT, ingressPrivate: true, retryPolicy },
    }),
  ];
}

/** Drives a delivery. Restate stores the outcome, so that a repeated invocation reports the same. */
async function deliver(ctx: Context, deliveries: Deliveries, delivery: Delivery): Promise<void> {
  deliveries.assertTaken(delivery);
  const quarantine = await ctx
    .run('drive', () => deliveries.drive(delivery))
    .catch((error: unknown): Quarantine => {
      if (!isTerminal(error)) throw error;
      deliveries.abandon(delivery);
      return { code: 'refused', message: `Its delivery was cancelled in Restate: ${error.message}` };
    });
  const over = { delivery: delivery.delivery, ...(quarantine !== null && { quarantine }) };
  ctx.genericSend({
    service: RUN_OBJECT,
    key: delivery.runId,
    method: 'left',
    parameter: over,
    inputSerde: json(),
  });
}

function isTerminal(error: unknown): error is Error {
  return error instanceof Error && ['TerminalError', 'CancelledError'].includes(error.name);
}
