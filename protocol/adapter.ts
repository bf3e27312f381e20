import type { ModelRequest, ModelTurn, TurnDelta } from './turn.ts';

/** What a provider's dialect can do. Individual models may do less. */
export type Capabilities = {
  streaming: boolean;
  parallelToolCalls: boolean;
  /** Reasoning goes back to the provider in the form it came. */
  reasoningReplay: boolean;
  /** The provider runs tools of its own within a turn. */
  serverTools: boolean;
  /** How the provider is held to `output`: by its own format, by a tool made for it, or by words alone. */
  structuredOutput: 'native' | 'tool' | 'instructions';
  /** The provider can continue from a turn it remembers. */
  continuation: boolean;
};

/**
 * One provider dialect. A call is one model call: no loop, no tool execution, no retry.
 * Both methods reject with a `ProviderError` and nothing else; when this process is not set up for the
 * provider its code is `key-missing` or `base-url-invalid`. `stream` and `generate` give equal turns.
 */
export interface ModelAdapter {
  readonly provider: string;
  readonly model: string;
  readonly capabilities: Capabilities;
  generate(request: ModelRequest, options: { signal: AbortSignal }): Promise<ModelTurn>;
  stream(request: ModelRequest, options: { signal: AbortSignal }): AsyncIterable<TurnDelta>;
}
