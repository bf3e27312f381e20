import type { Host } from '../../engine/driver/host.ts';
import type { Run, RunHappening } from '../../engine/run/run.ts';
import { messageOf } from '../../protocol/error.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ResponseHead } from './wire/response-object.ts';
import { RESPONSES } from './wire/response-spec.ts';
import type { WireEvent } from './wire/response-writer.ts';
import { Translation } from './wire/translation.ts';

/** A response while it comes about. */
export type LiveResponse = {
  id: string;
  runId: string;
  /** Its events; leaving them early changes nothing for the run, unless it is not stored. */
  events(): AsyncGenerator<WireEvent, void>;
  /** What the events add up to, once they are over. */
  finished(): Promise<JsonObject>;
  /** See `Translation.retryAfter`. */
  retryAfter(): number | null;
  /** Nobody waits for it any more: its events end. */
  leave(): void;
};

export type FollowOptions = {
  host: Host;
  /** Of the response's first entry. */
  from: number;
  /** Settles with the driving; rejects when nobody can go on with the run here. */
  settled?: Promise<unknown>;
  cancelWhenLeft?: boolean;
  log?(line: string): void;
};

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

  /** The run would wait for a process that is set up for it: nobody will start one for a response. */
  async function* giveUp(error: unknown): AsyncGenerator<WireEvent, void> {
    const message = 'The server failed on this response. Its log says why.';
    log(`The response of run ${run.id} is given up: ${messageOf(error)}`);
    await cancel(message).catch(() => {});
    yield* translation.fail(host.now(), { code: 'server_error', message });
  }

  async function cancel(reason: string): Promise<void> {
    await run.cancel({ by: RESPONSES, reason });
  }
}
