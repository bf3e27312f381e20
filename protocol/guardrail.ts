import type { Item } from './item.ts';
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

/** Makes a call wait for an approval; the members are those of `Approval`. */
export type AskVerdict = { type: 'ask'; reason: string } & Omit<
  Extract<Approval, object>,
  'required' | 'reason'
>;

/** What a guardrail of a call's input gets besides the input. `transcript` ends before the turn that made the call. */
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

/** Judges the text of the answer before it is final. */
export type AnswerGuardrail<RunContext = unknown> = Guardrail<string, AnswerContext<RunContext>>;

/**
 * The guardrails of an agent, by what they judge: one for each, or several, of which each gets the value as the one
 * before it left it.
 *
 * - `toolInput`: the input of each call of the model, before its approval function and before anyone sees it. Of a blocked
 *   call, the model reads the reason as the result. A replaced input must be valid; the model reads with the result that
 *   it was changed. `ask` makes the call wait for an approval, also if its tool needs none.
 * - `answer`: the text of the answer, before the `output` schema is applied to it. A blocked answer is sent back to the
 *   model with the reason, up to twice; then the run fails with `answer-blocked`.
 */
export type Guardrails<RunContext = unknown> = {
  toolInput?: ToolInputGuardrail<RunContext> | readonly ToolInputGuardrail<RunContext>[];
  answer?: AnswerGuardrail<RunContext> | readonly AnswerGuardrail<RunContext>[];
};
