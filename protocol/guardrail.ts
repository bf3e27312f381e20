import type { Item } from './item.ts';
import type { JsonValue } from './json.ts';
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

/** Judges a value. One that throws, or returns anything else than a verdict, blocks the value. */
export type Guardrail<Value, Context = GuardrailContext> = (
  value: Value,
  context: Context,
) => Verdict<Value> | Promise<Verdict<Value>>;

/** Judges the text of the answer before it is final. */
export type AnswerGuardrail<RunContext = unknown> = Guardrail<string, AnswerContext<RunContext>>;

/**
 * The guardrails of an agent, by what they judge: one for each, or several, of which each gets the value as the one
 * before it left it.
 *
 * - `answer`: the text of the answer, before the `output` schema is applied to it. A blocked answer is sent back to the
 *   model with the reason, up to twice; then the run fails with `answer-blocked`.
 */
export type Guardrails<RunContext = unknown> = {
  answer?: AnswerGuardrail<RunContext> | readonly AnswerGuardrail<RunContext>[];
};
