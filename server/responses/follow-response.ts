import type { Host } from '../../engine/driver/host.ts';
import type { Run, RunHappening } from '../../engine/run/run.ts';
import { messageOf } from '../../protocol/error.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ResponseHead } from './wire/response-object.ts';
import { RESPONSES } from './wire/response-spec.ts';
import type { WireEvent } from './wire/response-writer.ts';
import { Translation } from './wire/translation.ts';

/** A response in progress. */
export type LiveResponse = {
  id: string;
  runId: string;
  /** The events of the response. Stopping early does not affect the run, unless the run is not stored. */
  events(): AsyncGenerator<WireEvent, void>;
  /** The final response object, after all events. */
  finished(): Promise<JsonObject>;
  /** See `Translation.retryAfter`. */
  retryAfter(): number | null;
  /** Ends the events, because the client left. */
  leave(): void;
};

type FollowOptions = {
  host: Host;
  /** The `seq` of the response's first entry. */
  from: number;
  /** Settles when the run settles; rejects if this process cannot drive it further. */
  settled?: Promise<unknown>;
  /** Cancels the run if the client leaves before the end. Default false. */
  cancelWhenLeft?: boolean;
  log?(line: string): void;
};

/** Follows a run and translates its events into those of one response. */
export function followResponse(run: Run, head: ResponseHead, options: FollowOptions): LiveResponse {
  const translation = new Translation(head, { runId: run.id, from: options.from });
  const { promise: stop, resolve } = Promise.withResolvers<Stop>();
  options.settled?.catch(error => resolve({ error }));
  const follow = () => readEvents(run, translation, stop, options);
  return {
    id: head.id,
    runId: run.id,
    events: follow,
    async finished() {
      for await (const _event of follow());
      return translation.response;
    },
    retryAfter: () => translation.retryAfter,
    leave: () => resolve('left'),
  };
}

type Stop = 'left' | { error: unknown };

async function* readEvents(
  run: Run,
  translation: Translation,
  stop: Promise<Stop>,
  { host, cancelWhenLeft = false, log = () => {} }: FollowOptions,
): AsyncGenerator<WireEvent, void> {
  const happenings = run.events({ follow: true })[Symbol.asyncIterator]();
  try {
    yield* translation.begin();
    while (!translation.isOver) {
      const step = await Promise.race([happenings.next(), stop]).catch(error => ({ error }));
      if (step === 'left') return;
      if ('error' in step) return yield* giveUp(step.error);
      if (step.done === true) return yield* giveUp(new Error('the run ended before its response did'));
      yield* take(step.value);
    }
  } finally {
    void happenings.return?.(undefined);
    if (cancelWhenLeft && !translation.isOver) await cancel('The client left.').catch(() => {});
  }

  function take(happening: RunHappening): WireEvent[] {
    if (!('seq' in happening)) return translation.takeDelta(happening);
    const { seq, runId: _, ...event } = happening;
    return translation.takeEntry({ seq, event } as JournalEntry);
  }

  /** Cancels the run and fails the response. Otherwise the run would wait for another process to resume it. */
  async function* giveUp(error: unknown): AsyncGenerator<WireEvent, void> {
    const message = 'The server failed on this response. See its log for the cause.';
    log(`The response of run ${run.id} failed: ${messageOf(error)}`);
    await cancel(message).catch(() => {});
    yield* translation.fail(host.now(), { code: 'server_error', message });
  }

  async function cancel(reason: string): Promise<void> {
    await run.cancel({ by: RESPONSES, reason });
  }
}
