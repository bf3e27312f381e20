import type { BlobReference, Item } from './item.ts';
import type { JsonValue } from './json.ts';
import type { Tool } from './tool.ts';

interface ResultFacts<Name extends string> {
  callId: string;
  name: Name;
  /** The full result, if it is too large for the journal; `run.output(callId)` returns it. */
  blob?: BlobReference;
}

/** The result of a call that succeeded. `input` includes a person's edits. */
export interface CallOutput<Name extends string = string, Input = unknown, Output = unknown>
  extends ResultFacts<Name> {
  isError: false;
  input: Input;
  /** For a large result, a text of its head and tail; see `blob`. */
  output: Output;
}

/** The result of a call that failed or did not run. `input` is what the model sent, and may be invalid. */
export interface CallError<Name extends string = string> extends ResultFacts<Name> {
  isError: true;
  input: unknown;
  /** Usually a text that says what went wrong. */
  output: unknown;
}

/** The result of one tool call, for finishers and reports. `name` and `isError` tell the types apart. */
export type ToolResult<Name extends string = string, Input = unknown, Output = unknown> =
  | CallOutput<Name, Input, Output>
  | CallError<Name>;

/** The results of calls of these tools. */
export type ToolResultOf<Tools> =
  Tools extends Tool<infer Name, infer Input, infer Output> ? ToolResult<Name, Input, Output> : ToolResult;

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
