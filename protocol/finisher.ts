import type { BlobReference, Item } from './item.ts';
import type { JsonValue } from './json.ts';

/** The result of one tool call, for finishers and reports. `input` includes a person's edits. */
export type ToolResult = {
  callId: string;
  name: string;
  input: JsonValue;
  /** For a large result: the head and the tail, with a note between them; see `blob`. */
  output: JsonValue;
  isError: boolean;
  /** The full result, if it is too large for the journal; `run.output(callId)` returns it. */
  blob?: BlobReference;
};

/** `RunContext` is the type of the run's context. */
export type FinisherInput<RunContext = unknown> = {
  runId: string;
  /** What `agent.start` was given for this run; `undefined` for an agent without a `runContext`. */
  runContext: RunContext;
  text: string;
  results: ToolResult[];
  transcript: readonly Item[];
  /**
   * Returns the full output of a result; reads large ones from the store. Call it for one result at a time, because
   * all together may not fit in memory. Rejects with `result-missing` if the store does not have the result.
   */
  wholeOutput(result: Pick<ToolResult, 'output' | 'blob'>): Promise<JsonValue>;
};

/** Checks the answer before it is final: may change its text, or reject it with feedback for the model. */
export type Finisher<RunContext = unknown> = (
  input: FinisherInput<RunContext>,
  options: { signal: AbortSignal },
) => FinisherOutcome | undefined | Promise<FinisherOutcome | undefined>;

/** A changed `text`, or the feedback for the model in `reject`. */
export type FinisherOutcome = { text?: string } | { reject: string };
