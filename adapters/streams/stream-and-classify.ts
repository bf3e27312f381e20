// Helpers for callers that use an adapter without the agent loop: collect, watch and classify one turn, and convert
// calls and results between their own format and the transcript's.

import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Item } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { errorFromThrown } from '../http/provider-errors.ts';
import { type ClassifiedTurn, classifyTurn } from './classify-turn.ts';
import { collectTurn } from './collect-turn.ts';

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
  /**
   * Called with each piece of text. A returned promise is awaited before the next piece; an error ends the
   * call.
   */
  onText?: (text: string) => unknown;
  /** Called with each piece of reasoning, like `onText`. */
  onReasoning?: (text: string) => unknown;
};

const NAMES: NamesOf<StreamAndClassifyOptions> = { signal: true, onText: true, onReasoning: true };

const REQUEST_NAMES: NamesOf<TurnRequest> = {
  instructions: true,
  transcript: true,
  tools: true,
  toolChoice: true,
  output: true,
  continuation: true,
  afterDraft: true,
  settings: true,
  providerOptions: true,
};

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
