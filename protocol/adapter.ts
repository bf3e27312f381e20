import type { ModelRequest, ModelTurn, TurnDelta } from './turn.ts';

export type Capabilities = {
  /** The provider can continue from a turn it remembers. */
  continuation: boolean;
  /** The provider has a native form of `output`. */
  structuredOutput: boolean;
  parallelToolCalls: boolean;
};

/**
 * One provider dialect. A call is one model call: no loop, no tool execution, no retry.
 * Both methods reject with a `ProviderError`, or with an `EngineError` when this process is not set up
 * for the provider (`key-missing`). `stream` and `generate` give equal turns.
 */
export interface ModelAdapter {
  readonly provider: string;
  readonly model: string;
  readonly capabilities: Capabilities;
  generate(request: ModelRequest, options: { signal: AbortSignal }): Promise<ModelTurn>;
  stream(request: ModelRequest, options: { signal: AbortSignal }): AsyncIterable<TurnDelta>;
}
