import type { Host } from '../../../engine/driver/host.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { WireEvent } from '../wire/response-writer.ts';

/**
 * One reader of a response, which may be in progress. `batches` and `finished` throw an `ApiError` if this process stops
 * following the run before it has ended: `shutting-down`, or the code of the store's or lease's error.
 */
export type LiveResponse = {
  id: string;
  runId: string;
  /** The timers of the server, for the keep-alives of a stream. */
  host: Host;
  /** The response object after the events that readers have requested so far. */
  readonly response: JsonObject;
  /**
   * The events with a `sequence_number` above `after`, by default all, in batches of the available events. Readers at the
   * same place get the same batch. Stopping early does not affect the run.
   */
  batches(after?: number): AsyncGenerator<readonly WireEvent[], void>;
  /** The response object of the journal, after all events: as a later `GET` returns it, without failed attempts. */
  finished(): Promise<JsonObject>;
  /** See `Translation.retryAfter`. */
  retryAfter(): number | null;
  /** Ends this reader, because its client left. If the run is not stored, the last reader that leaves cancels it. */
  leave(): void;
};
