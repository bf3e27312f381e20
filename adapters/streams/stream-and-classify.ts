import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Item } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { errorFromThrown } from '../http/provider-errors.ts';
import { type ClassifiedTurn, classifyTurn } from './classify-turn.ts';
import { collectTurn } from './collect-turn.ts';

/** A request of which only the transcript must be given: no tools, tool choice `auto`, no settings. Text is one user message. */
export type TurnRequest = Partial<Omit<ModelRequest, 'transcript'>> & {
  transcript: string | readonly Item[];
};

export type StreamAndClassifyOptions = {
  signal?: AbortSignal;
  /** Called with each piece as it comes. A promise is awaited before the next piece; what they throw ends the call. */
  onText?: (text: string) => unknown;
  onReasoning?: (text: string) => unknown;
};

/**
 * Makes one model call, streams it, and says whether somebody has to act on it. The whole turn, with its
 * finish reason and usage, is there as `turn`, which is not enumerable: what is compared, copied or logged
 * is the answer alone. Nothing is run or retried. Rejects with a `ProviderError` for
 * whatever goes wrong with the call.
 */
export async function streamAndClassify(
  adapter: ModelAdapter,
  request: TurnRequest,
  options: StreamAndClassifyOptions = {},
): Promise<ClassifiedTurn & { turn: ModelTurn }> {
  const signal = options.signal ?? new AbortController().signal;
  const deltas = shown(providerErrorsOf(adapter, wholeRequest(request), signal), options);
  const turn = await collectTurn(deltas, adapter);
  return Object.defineProperty(classifyTurn(turn), 'turn', { value: turn }) as ClassifiedTurn & {
    turn: ModelTurn;
  };
}

function wholeRequest({ transcript, ...more }: TurnRequest): ModelRequest {
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
