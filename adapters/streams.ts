// Helpers for callers that use an adapter without the agent loop: collect, watch and classify one turn, and convert
// calls and results between their own format and the transcript's.

import type { ModelAdapter } from '../protocol/adapter.ts';
import { messageOf, ProviderError } from '../protocol/error.ts';
import type { Item, ToolResultItem } from '../protocol/item.ts';
import { toJson } from '../protocol/json.ts';
import { userMessage } from '../protocol/message.ts';
import { type NamesOf, optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { FinishReason, ModelRequest, ModelTurn, ToolCall, TurnDelta } from '../protocol/turn.ts';
import { errorFromThrown } from './http/provider-errors.ts';
import { toolCall } from './turn/tool-calls.ts';
import { ShownDeltas } from './turn/turn-deltas.ts';

/**
 * A model request with defaults: no tools, tool choice `auto`, no settings. A text as `transcript` becomes
 * one user message.
 */
export type TurnRequest = Partial<Omit<ModelRequest, 'transcript'>> & {
  transcript: string | readonly Item[];
};

/** Options of `streamAndClassify`. `signal` aborts the call. */
export type StreamAndClassifyOptions = {
  signal?: AbortSignal;
  /** Called with each piece of text. A returned promise is awaited before the next; an error ends the call. */
  onText?: (text: string) => unknown;
  /** Called with each piece of reasoning, like `onText`. */
  onReasoning?: (text: string) => unknown;
};

const NAMES: NamesOf<StreamAndClassifyOptions> = { signal: true, onText: true, onReasoning: true };

const REQUEST_NAMES = optionNames<TurnRequest>()(
  'instructions transcript tools members toolChoice output continuation afterDraft settings providerOptions',
);

/**
 * Streams one model call and returns the classified turn: tool calls to run, or the final answer. The full
 * turn, with finish reason and usage, is the member `turn`, which is not enumerable, so comparing, copying or
 * logging the result omits it. No tool is run and nothing is retried. Rejects with a `ProviderError` if the
 * call fails.
 *
 * @example
 * const result = await streamAndClassify(openaiResponses({ model: 'gpt-5' }), { transcript: 'Hello' }, {
 *   onText: text => process.stdout.write(text),
 * });
 * if (result.type === 'tool_calls') console.log(result.toolCalls);
 */
export async function streamAndClassify(
  adapter: ModelAdapter,
  request: TurnRequest,
  options: StreamAndClassifyOptions = {},
): Promise<ClassifiedTurn & { turn: ModelTurn }> {
  refuseUnknownOptions('streamAndClassify', options, NAMES, 'input-invalid');
  refuseUnknownOptions('the request of streamAndClassify', request, REQUEST_NAMES, 'input-invalid');
  const signal = options.signal ?? new AbortController().signal;
  const deltas = shown(providerErrorsOf(adapter, withDefaults(request), signal), options);
  const turn = await collectTurn(deltas, adapter);
  return Object.defineProperty(classifyTurn(turn), 'turn', { value: turn }) as ClassifiedTurn & {
    turn: ModelTurn;
  };
}

function withDefaults({ transcript, ...more }: TurnRequest): ModelRequest {
  return {
    tools: [],
    toolChoice: 'auto',
    settings: {},
    ...more,
    transcript: typeof transcript === 'string' ? [userMessage(transcript)] : transcript,
  };
}

async function* providerErrorsOf(
  adapter: ModelAdapter,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<TurnDelta, void, undefined> {
  try {
    yield* adapter.stream(request, { signal });
  } catch (thrown) {
    const { provider, model } = adapter;
    const nowhere = { keyVariable: '', baseURLVariable: '', baseURL: '', secrets: [] };
    throw errorFromThrown(thrown, { provider, model, ...nowhere }, signal, Date.now());
  }
}

async function* shown(
  deltas: AsyncIterable<TurnDelta>,
  { onText, onReasoning }: StreamAndClassifyOptions,
): AsyncGenerator<TurnDelta, void, undefined> {
  for await (const delta of deltas) {
    if (delta.type === 'text') await onText?.(delta.text);
    else if (delta.type === 'reasoning') await onReasoning?.(delta.text);
    yield delta;
  }
}

/**
 * Reads a stream to its end and returns its turn. Rejects with a `ProviderError` `malformed-stream` if the
 * stream has no turn or more than one; `origin` names the provider and model in that error.
 *
 * @example
 * const turn = await collectTurn(adapter.stream(request, { signal }));
 */
export async function collectTurn(
  stream: AsyncIterable<TurnDelta>,
  origin: { provider: string; model: string } = { provider: '', model: '' },
): Promise<ModelTurn> {
  let collected: ModelTurn | undefined;
  for await (const delta of stream) {
    if (delta.type !== 'turn') continue;
    if (collected) throw brokenContract(origin, 'contained a second turn');
    collected = delta.turn;
  }
  if (!collected) throw brokenContract(origin, 'ended without a turn');
  return collected;
}

function brokenContract(origin: { provider: string; model: string }, what: string): ProviderError {
  const message = `Expected a stream that ends with exactly one turn, but it ${what}.`;
  const { provider, model } = origin;
  return new ProviderError(message, { code: 'malformed-stream', retryable: true, provider, model });
}

/** A turn as its caller has to treat it: tool calls to run, or the final answer. */
export type ClassifiedTurn =
  | { type: 'tool_calls'; toolCalls: ToolCall[]; text: string }
  | { type: 'final_answer'; text: string };

/** The members of a turn that classification needs. A `ModelTurn` fits. */
type TurnLike = {
  text?: string | null;
  toolCalls?: readonly CallLike[] | null;
  finishReason?: FinishReason | undefined;
};

/**
 * Classifies a turn. It is `tool_calls` if it has calls that the provider did not run itself, or if the
 * provider finished with `tool_calls` (`toolCalls` may then be empty). `toolCalls` omits calls that the
 * provider ran.
 */
export function classifyTurn(turn: TurnLike): ClassifiedTurn {
  const toolCalls = callsToRun(turn);
  const text = turn.text ?? '';
  return toolCalls.length > 0 || turn.finishReason === 'tool_calls'
    ? { type: 'tool_calls', toolCalls, text }
    : { type: 'final_answer', text };
}

/** The calls to run. If the length limit cut the turn off, they have an `error` instead of an `input`. */
function callsToRun({ toolCalls, finishReason }: TurnLike): ToolCall[] {
  const calls = (toolCalls ?? [])
    .map((call, index) => toolCallFrom(call, index))
    .filter(call => call.executedBy !== 'provider');
  return finishReason === 'length' ? calls.map(call => failed(call, CUT_OFF)) : calls;
}

const CUT_OFF = 'The turn was cut off by its length limit, so this call may be incomplete. It was not run.';

/** A tool call in another library's format. Its arguments are a plain object or JSON text. */
export type CallLike = {
  callId?: string | null;
  /** Alternative name of `callId`. */
  id?: string | null;
  name: string;
  arguments?: unknown;
  /** Alternative name of `arguments`, used if there are none. */
  input?: unknown;
  error?: string;
  executedBy?: ToolCall['executedBy'];
};

/**
 * Converts a call to a `ToolCall`; a complete `ToolCall` is returned unchanged. Arguments that are not an
 * object give it an `error`; missing arguments mean `{}`. `index`, the call's position in the turn, names a
 * call that has no id. Throws a `TypeError` for arguments that JSON cannot represent.
 *
 * @example
 * const call = toolCallFrom({ id: 'call_1', name: 'get_weather', input: { city: 'Paris' } });
 */
export function toolCallFrom(call: CallLike, index = 0): ToolCall {
  if (isToolCall(call)) return call;
  const callId = call.callId || call.id || `call_${index}`;
  const made = toolCall(callId, call.name, textOf(call.arguments ?? call.input));
  const executedBy = call.executedBy ?? made.executedBy;
  return call.error === undefined ? { ...made, executedBy } : failed({ ...made, executedBy }, call.error);
}

/** Replaces the call's input with an error, so that it is not run. */
export function failed({ input: _, ...call }: ToolCall, error: string): ToolCall {
  return { ...call, error };
}

function isToolCall(call: CallLike): call is ToolCall {
  return (
    typeof call.callId === 'string' &&
    call.callId !== '' &&
    typeof call.arguments === 'string' &&
    call.executedBy !== undefined &&
    (call.input !== undefined || call.error !== undefined)
  );
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(toJson(value));
}

/**
 * Yields the complete tool calls of a stream that the provider did not run itself, in the order of the turn.
 * Answer each of them, but do not run one that has an `error`.
 *
 * The calls are yielded when the stream's `turn` arrives. Before that they are not final: fragments of
 * several calls interleave, arguments that parse may continue, a provider may correct what it streamed, and
 * the stream may fail or be cut off. Call ids are only known from the turn. To show calls earlier, use
 * `watchTurn`. Rejects with the stream's `ProviderError`.
 *
 * @example
 * for await (const call of toolCallsOf(adapter.stream(request, { signal }))) console.log(call.name, call.input);
 */
export async function* toolCallsOf(
  stream: AsyncIterable<TurnDelta>,
): AsyncGenerator<ToolCall, void, undefined> {
  yield* callsToRun(await collectTurn(stream));
}

/** A tool result in another library's format. */
export type ResultLike = {
  callId?: string | null;
  /** Alternative name of `callId`. */
  id?: string | null;
  /** A plain value, its JSON text, or the `Error` that the tool failed with. */
  output?: unknown;
  isError?: boolean;
};

/**
 * Converts a result to a transcript item. Text is not encoded again, so a value and its JSON text reach the
 * model the same way. Throws a `TypeError` without a call id, or for an output that JSON cannot represent.
 *
 * @example
 * const item = toolResultFrom({ callId: call.callId, output: { temperature: 21 } });
 */
export function toolResultFrom(result: ResultLike): ToolResultItem {
  const callId = result.callId || result.id;
  if (!callId) throw new TypeError('The tool result has no callId.');
  const { output } = result;
  const isError = result.isError ?? output instanceof Error;
  return {
    type: 'tool_result',
    callId,
    output: output instanceof Error ? messageOf(output) : toJson(output),
    isError,
  };
}

/**
 * A stream that accumulates what it has yielded.
 *
 * W1 Until the turn arrives, `turn` and `finishReason` are `undefined`; the other members accumulate the
 *    deltas.
 * W2 After that, all members come from the turn, which takes precedence over the deltas.
 */
export class WatchedTurn implements AsyncIterable<TurnDelta> {
  readonly #stream: AsyncIterable<TurnDelta>;
  readonly #shown = new ShownDeltas();
  #turn: ModelTurn | undefined;

  constructor(stream: AsyncIterable<TurnDelta>) {
    this.#stream = stream;
  }

  /** The complete turn; `undefined` until it has arrived. */
  get turn(): ModelTurn | undefined {
    return this.#turn;
  }

  /** The turn's finish reason; `undefined` until the turn has arrived. */
  get finishReason(): FinishReason | undefined {
    return this.#turn?.finishReason;
  }

  /** The text received so far. */
  get text(): string {
    return this.#turn?.text ?? this.#shown.text;
  }

  /** The reasoning received so far. */
  get reasoning(): string {
    return this.#turn?.reasoning ?? this.#shown.reasoning;
  }

  /** The calls received so far, for display. Only the turn has calls complete enough to run. */
  get calls(): readonly { name: string; arguments: string }[] {
    return this.#turn?.toolCalls ?? this.#shown.calls;
  }

  /** Iterates over the underlying stream; can be done once. */
  async *[Symbol.asyncIterator](): AsyncGenerator<TurnDelta, void, undefined> {
    for await (const delta of this.#stream) {
      this.#shown.record(delta);
      if (delta.type === 'turn') this.#turn = delta.turn;
      yield delta;
    }
  }
}

/**
 * Wraps a stream so that the text, reasoning and calls received so far can be read at any time.
 *
 * @example
 * const watched = watchTurn(adapter.stream(request, { signal }));
 * for await (const _delta of watched) render(watched.text, watched.calls);
 */
export function watchTurn(stream: AsyncIterable<TurnDelta>): WatchedTurn {
  return new WatchedTurn(stream);
}
