import type { Host } from '../../../engine/host/host.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { AnswerEnd } from '../answer/answer-event.ts';
import type { WireEvent } from '../wire/response-writer.ts';

/** How a response ended, and as one object. */
export type FinishedResponse<Whole> = {
  whole: Whole;
  end: AnswerEnd;
  /** See `AnswerEvent`. */
  retryAfter: number | null;
};

/**
 * One reader of a response, which may be in progress, in the protocol of its writer. `batches` and `finished` throw an
 * `ApiError` if this process stops following the run before it has ended: `shutting-down`, or the code of the store's or
 * lease's error.
 */
export type LiveResponse<Wire = WireEvent, Whole = JsonObject> = {
  id: string;
  runId: string;
  /** For the timers of what follows the response. */
  host: Host;
  /** How the response ended, as far as its readers have requested its events; `null` before. */
  readonly end: AnswerEnd | null;
  /**
   * The events after number `after`, by default all, in batches of the available events. Readers at the same place get
   * the same batch. Stopping early does not affect the run.
   */
  batches(after?: number): AsyncGenerator<readonly Wire[], void>;
  /** The response of the journal, after all events: as a later `GET` returns it, without failed attempts. */
  finished(): Promise<FinishedResponse<Whole>>;
  /** Ends this reader, because its client left. If the run is not stored, the last reader that leaves cancels it. */
  leave(): void;
};
