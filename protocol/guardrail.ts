import type { Item, MessageItem } from './item.ts';
import type { JsonValue } from './json.ts';
import type { Approval } from './tool.ts';
import type { ToolResult } from './tool-result.ts';
import type { ModelTurn } from './turn.ts';

/** What a guardrail says about a value. Of a blocked one, the model reads the reason. */
export type Verdict<Value> =
  | { type: 'pass' }
  | { type: 'block'; reason: string }
  | { type: 'replace'; value: Value };

/** What every guardrail gets besides the value. `RunContext` is the type of the run's context. */
export type GuardrailContext<RunContext = unknown> = {
  runId: string;
  /** What `agent.start` was given for this run; `undefined` for an agent without a `runContext`. */
  runContext: RunContext;
  /** The conversation so far, with that of the runs that this one continues. */
  transcript: readonly Item[];
  /** Aborted when the run is cancelled, moves on, or this process stops driving it. */
  signal: AbortSignal;
  /**
   * Counts a model call of the guardrail towards the run's limits on tokens and cost; takes the turn that an adapter
   * returned. Without usage, it counts as a turn that reports none.
   */
  countUsage(turn: Pick<ModelTurn, 'model' | 'usage'>): void;
};

/** What a guardrail of the answer gets besides its text. */
export type AnswerContext<RunContext = unknown> = GuardrailContext<RunContext> & {
  /** The results of all calls of this run. */
  results: ToolResult[];
  /**
   * Returns the full output of a result; reads large ones from the store. Call it for one result at a time, because
   * all together may not fit in memory. Rejects with `result-missing` if the store does not have the result.
   */
  wholeOutput(result: Pick<ToolResult, 'output' | 'blob'>): Promise<JsonValue>;
};

/** Makes a call wait for an approval, or an answer for its review; the members are those of `Approval`. */
export type AskVerdict = { type: 'ask'; reason: string } & Omit<
  Extract<Approval, object>,
  'required' | 'reason'
>;

/** What a guardrail of a call's input gets besides the input. */
export type ToolInputContext<RunContext = unknown> = GuardrailContext<RunContext> & {
  callId: string;
  /** The tool's name. */
  name: string;
};

/** Judges a value. One that throws, or returns anything else than a verdict, blocks the value. */
export type Guardrail<Value, Context = GuardrailContext, Other = never> = (
  value: Value,
  context: Context,
) => Verdict<Value> | Other | Promise<Verdict<Value> | Other>;

/** Judges the input of a call, as the model wrote it, once its tool's schema has accepted it. */
export type ToolInputGuardrail<RunContext = unknown> = Guardrail<
  JsonValue,
  ToolInputContext<RunContext>,
  AskVerdict
>;

/** Judges a message of the user before a model reads it. It may change texts, and leave out images and files. */
export type InputGuardrail<RunContext = unknown> = Guardrail<MessageItem, GuardrailContext<RunContext>>;

/** What a guardrail of a call's result gets besides its output. */
export type ToolOutputContext<RunContext = unknown> = ToolInputContext<RunContext> & {
  input: unknown;
  isError: boolean;
  /** Returns the full output, if the value is only the head and the tail of a large one. */
  wholeOutput(): Promise<JsonValue>;
};

/** Judges the output of a call before a model reads it. */
export type ToolOutputGuardrail<RunContext = unknown> = Guardrail<JsonValue, ToolOutputContext<RunContext>>;

/** Judges the text of the answer before it is final. */
export type AnswerGuardrail<RunContext = unknown> = Guardrail<string, AnswerContext<RunContext>, AskVerdict>;

/**
 * The guardrails of an agent, by what they judge: one for each, or several, of which each gets the value as the one
 * before it left it.
 *
 * - `input`: each message of the user, before a request has it. Of a blocked one, the model reads the reason in its place.
 * - `toolOutput`: the output of each call, before a request has it. Of a blocked one, the model reads the reason as an
 *   error. The transcript and `settled.results` have what guardrails left; the journal also keeps the original.
 * - `toolInput`: the input of each call of the model, before its approval function and before anyone sees it. Of a blocked
 *   call, the model reads the reason as the result. A replaced input must be valid; the model reads with the result that
 *   it was changed. `ask` makes the call wait for an approval, also if its tool needs none.
 * - `answer`: the text of the answer, before the `output` schema is applied to it. A blocked answer is sent back to the
 *   model with the reason, up to twice; then the run fails with `answer-blocked`. `ask` opens a review of what all of them
 *   and the schema left: a person gives the answer, gives another in its place, which is not judged again, or sends it
 *   back to the model with a remark. A review that expires blocks the answer.
 */
export type Guardrails<RunContext = unknown> = {
  input?: InputGuardrail<RunContext> | readonly InputGuardrail<RunContext>[];
  toolOutput?: ToolOutputGuardrail<RunContext> | readonly ToolOutputGuardrail<RunContext>[];
  toolInput?: ToolInputGuardrail<RunContext> | readonly ToolInputGuardrail<RunContext>[];
  answer?: AnswerGuardrail<RunContext> | readonly AnswerGuardrail<RunContext>[];
};
