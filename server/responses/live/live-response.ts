import type { JsonObject } from '../../../protocol/json.ts';
import type { WireEvent } from '../wire/response-writer.ts';

/**
 * One reader of a response, which may be in progress. When the server shuts down, `batches` and `finished` throw
 * `shutting-down`: the run goes on in the next process.
 */
export type LiveResponse = {
  id: string;
  runId: string;
  /** The response object as far as its events were read by anybody. */
  readonly response: JsonObject;
  /**
   * The events with a `sequence_number` above `after`, by default all, in batches of what is available. Stopping early has
   * no effect on the run.
   */
  batches(after?: number): AsyncGenerator<readonly WireEvent[], void>;
  /** The final response object, after all events. */
  finished(): Promise<JsonObject>;
  /** See `Translation.retryAfter`. */
  retryAfter(): number | null;
  /** Ends this reader, because its client left. If the run is not stored, the last reader that leaves cancels it. */
  leave(): void;
};
