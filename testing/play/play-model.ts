import { offeredTools, type RecordedEvent } from '../../engine/replay/record-run.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { ModelTurn, ToolCall } from '../../protocol/turn.ts';
import { MODEL, type Stage } from './stage.ts';

type Completed = Extract<RecordedEvent, { type: 'turn.completed' }>;
type Failed = Extract<RecordedEvent, { type: 'turn.failed' }>;

/** Returns a model that repeats the recorded turns, regardless of the request. */
export function playModel(
  stage: Stage,
  { provider, model }: { provider: string; model: string },
): ModelAdapter {
  const answer = async (signal: AbortSignal): Promise<ModelTurn> => {
    const event = await stage.request(MODEL, signal);
    if (event.type === 'turn.failed') throw failureIn(event);
    if (event.type === 'turn.completed') return turnIn(event);
    throw new Error(`Expected an event of a model call, got ${event.type}.`);
  };
  return {
    provider,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: true,
      structuredOutput: 'instructions',
      continuation: true,
    },
    generate: (_, { signal }) => answer(signal),
    async *stream(_, { signal }) {
      yield { type: 'turn', turn: await answer(signal) };
    },
  };
}

function turnIn({ items, calls, text, finishReason, usage, model, continuation }: Completed): ModelTurn {
  const written = new Map(
    items.flatMap(item => (item.type === 'tool_call' ? [[item.callId, item.arguments]] : [])),
  );
  return {
    text,
    reasoning: items.flatMap(item => (item.type === 'reasoning' ? [item.text] : [])).join(''),
    toolCalls: calls.map(call => callIn(call, written.get(call.callId) ?? JSON.stringify(call.input))),
    finishReason,
    usage,
    model,
    items,
    ...omitUndefined({ continuation: continuation?.token }),
  };
}

const INVALID = 'Not run: The arguments are not valid: ';

/** Returns a call with its recorded error, unless the error was an unknown tool: the run finds that again itself. */
function callIn({ callId, name, input, error }: QualifiedCall, written: string): ToolCall {
  const call = { callId, name, arguments: written, executedBy: 'engine' } as const;
  const readable = typeof input === 'string' ? {} : { input };
  if (error === undefined || offeredTools({ error }) !== undefined) return { ...call, ...readable };
  return { ...call, ...readable, error: error.startsWith(INVALID) ? error.slice(INVALID.length) : error };
}

function failureIn({ at, error, retryable, retryAt }: Failed): Error {
  const { code, message, status, provider, model } = error;
  if (provider === undefined) {
    const failure = new Error(message);
    return code === 'internal' ? failure : Object.assign(failure, { code });
  }
  return new ProviderError(message, {
    code: code as ProviderError['code'],
    status: status ?? null,
    retryable,
    retryAfterMs: retryAt === undefined ? null : Math.max(0, retryAt - at),
    provider,
    model: model ?? '',
    raw: null,
  });
}
