import type { BlobReference } from './item.ts';
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

/** The result of one tool call, for guardrails and reports. `name` and `isError` tell the types apart. */
export type ToolResult<Name extends string = string, Input = unknown, Output = unknown> =
  | CallOutput<Name, Input, Output>
  | CallError<Name>;

/** The results of calls of these tools. */
export type ToolResultOf<Tools> =
  Tools extends Tool<infer Name, infer Input, infer Output> ? ToolResult<Name, Input, Output> : ToolResult;
