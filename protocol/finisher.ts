import type { BlobReference, Item } from './item.ts';
import type { JsonValue } from './json.ts';

/** The result of one tool call, as post-processing of a run sees it: `input` as called, after people's edits. */
export type ToolResult = {
  callId: string;
  name: string;
  input: JsonValue;
  /** Of a large result the head and the tail, with a note between them: see `blob`. */
  output: JsonValue;
  isError: boolean;
  /** Where the whole is, if it is too large for the journal: `run.output(callId)` gives it. */
  blob?: BlobReference;
};

export type FinisherInput = {
  runId: string;
  text: string;
  results: ToolResult[];
  transcript: readonly Item[];
  /**
   * The whole output of one of the results, for the large ones read from the store: one at a time, since all
   * together may be more than memory has. Rejects with `result-missing` where the store has it not.
   */
  wholeOutput(result: Pick<ToolResult, 'output' | 'blob'>): Promise<JsonValue>;
};

/** Looks at the answer before it is final: may change its text, or send it back with feedback for the model. */
export type Finisher = (
  input: FinisherInput,
  options: { signal: AbortSignal },
) => FinisherOutcome | undefined | Promise<FinisherOutcome | undefined>;

export type FinisherOutcome = { text?: string } | { reject: string };
