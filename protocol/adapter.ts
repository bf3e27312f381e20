import type { Item } from './item.ts';
import type { JsonValue } from './json.ts';
import type { ModelRequest, ModelTurn, ToolDefinition, TurnDelta, Usage } from './turn.ts';

/** The features of a provider's API. Individual models may support fewer. */
export type Capabilities = {
  streaming: boolean;
  parallelToolCalls: boolean;
  /** Reasoning items can be sent back to the provider unchanged. */
  reasoningReplay: boolean;
  /** The provider runs built-in tools within a turn. */
  serverTools: boolean;
  /**
   * How `output` is enforced: by the provider's own format, by a generated tool, or by instructions. Only with `native` is
   * no part of it among the instructions or tools of any request, so that it may change from turn to turn.
   */
  structuredOutput: 'native' | 'tool' | 'instructions';
  /** The provider has tools whose input is a text, which may follow a grammar. Default: `false`. */
  customTools?: boolean;
  /** The provider can continue from a turn that it has stored. */
  continuation: boolean;
  /**
   * Whether each turn says what it used; `unknown` depends on the server or the model behind the adapter. With `false`,
   * a run with a limit on tokens or cost does not start unless its agent estimates the usage (`onUnknownUsage`).
   */
  usage: boolean | 'unknown';
  /**
   * The provider takes back reasoning only while instructions, tools and all items before it are unchanged: after a
   * change, the engine sends older reasoning without its opaque data. Default: `false`.
   */
  bindsReasoning?: boolean;
  /** The tokens that request and reply may have together, if the adapter knows its model. */
  contextWindow?: number;
  /**
   * The API has a tool choice. Without one, a request leaves out the tools that must not be called; the engine counts
   * that as a change of its tools. Default: `true`.
   */
  toolChoice?: boolean;
  /** The provider searches deferred tools. If not, they are found with a tool of ours. Default: `false`. */
  toolSearch?: boolean;
};

/**
 * A request of a model call and its reply, without secrets; texts are cut after 1 MiB. `status` is that of HTTP, `null`
 * without a response.
 */
export type CapturedExchange = {
  readonly path: string;
  readonly request: string;
  readonly status: number | null;
  readonly reply: string;
};

/**
 * `capture`: adapters over HTTP add each request that they send; its reply grows while it is read. `onBegin`: called when
 * the provider has begun to stream its reply, maybe before the first delta; not by every adapter.
 */
export type CallOptions = { signal: AbortSignal; capture?: CapturedExchange[]; onBegin?(): void };

/** What a turn changes for the turns after it. `removed` and `restored` are names; the request still declares the latter. */
export type SetupChange = {
  instructions?: string;
  added?: readonly ToolDefinition[];
  restored?: readonly string[];
  removed?: readonly string[];
};

/**
 * Translates one provider's API. Each method makes one model call: no loop, no tool execution, no retry.
 * Both methods reject only with a `ProviderError`; its code is `key-missing` or `base-url-invalid` when the process
 * is not set up for the provider. `stream` and `generate` return equal turns for equal responses.
 */
export interface ModelAdapter {
  readonly provider: string;
  readonly model: string;
  readonly capabilities: Capabilities;
  generate(request: ModelRequest, options: CallOptions): Promise<ModelTurn>;
  stream(request: ModelRequest, options: CallOptions): AsyncIterable<TurnDelta>;
  /**
   * The change as provider items of the kind `setup`: sent at the end of the transcript and kept there, they leave the
   * beginning of the request as it is. `transcript`: what the request has so far; what it declares already is not appended
   * again. `undefined` if the provider cannot make all of the change so.
   */
  append?(change: SetupChange, transcript: readonly Item[]): Item[] | undefined;
  /**
   * What the model reads of the request's output schema: in its instructions, or as a tool. `undefined` if the provider
   * enforces the schema outside the prompt. Absent: as `structuredOutput` says.
   */
  promptedSchema?(request: ModelRequest): JsonValue | undefined;
  /**
   * The provider's own summary of the transcript, as items that it takes in place of it. Rejects as `generate` does.
   * Absent if the provider makes none.
   */
  compact?(
    request: ModelRequest,
    options: { signal: AbortSignal },
  ): Promise<{ items: Item[]; usage: Usage | null }>;
  /** The input tokens of a request as the provider counts them, without a model call. Absent if it cannot count. */
  countTokens?(request: ModelRequest, options: { signal: AbortSignal }): Promise<number>;
}
