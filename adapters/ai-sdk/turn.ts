import type {
  LanguageModelV4Content,
  LanguageModelV4File,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolCall,
} from '@ai-sdk/provider';
import type { Part } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import { malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { arrayOf, objectOf } from '../turn/json-access.ts';
import { toolCall } from '../turn/tool-calls.ts';
import { TurnBuilder } from '../turn/turn-builder.ts';
import { callStarted } from '../turn/turn-deltas.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { base64Of, keptWith, providerItem } from './prompt.ts';
import type { limitTime } from './time-limits.ts';

/** The result of a model call. The shapes of usage and finish reason depend on the model's specification. */
type Ended = {
  content: readonly LanguageModelV4Content[];
  finishReason: unknown;
  usage: unknown;
  modelId: string | undefined;
};

export function turnOf(ended: Ended, request: ModelRequest, context: ProviderContext): ModelTurn {
  const turn = new TurnBuilder(request);
  for (const content of ended.content) addContent(turn, content, context.provider);
  const calls = {
    hasCalls: turn.toolCalls.length > 0,
    providerRan: ended.content.some(content => content.type === 'tool-call' && content.providerExecuted),
  };
  return turn.turn({
    finishReason: finishReasonOf(ended.finishReason, calls, context),
    usage: usageOf(ended.usage),
    model: ended.modelId ?? context.model,
  });
}

function inputText(call: LanguageModelV4ToolCall): string {
  const input: unknown = call.input;
  return typeof input === 'string' ? input : JSON.stringify(input ?? {});
}

function addContent(turn: TurnBuilder, content: LanguageModelV4Content, provider: string): void {
  switch (content.type) {
    case 'text': {
      if (isSummary(content)) break;
      const kept = keptWith(provider, content.text, content.providerMetadata);
      if (content.text !== '' || kept)
        turn.addText(content.text, kept, arrayOf(toJson(content.citations ?? [])));
      return;
    }
    case 'file': {
      const opaque = keptWith(provider, '', content.providerMetadata);
      const part = generatedFile(content);
      turn.items.push({ type: 'message', role: 'assistant', content: [part], ...(opaque && { opaque }) });
      return;
    }
    case 'reasoning': {
      const kept = keptWith(provider, content.text, content.providerMetadata);
      if (content.text !== '' || kept) turn.addReasoning(content.text, kept);
      return;
    }
    case 'tool-call': {
      if (content.providerExecuted === true) break;
      const callId = turn.nextCallId(content.toolCallId);
      const call = toolCall(callId, content.toolName, inputText(content));
      turn.addCall(call, keptWith(provider, callId, content.providerMetadata));
      return;
    }
    case 'tool-result':
      if (content.preliminary === true) return;
      break;
  }
  turn.items.push(providerItem(provider, content));
}

/** Anthropic's summary of the conversation so far is a text in the AI SDK. It is not part of the answer. */
function isSummary({ providerMetadata }: { providerMetadata?: unknown }): boolean {
  return objectOf(objectOf(toJson(providerMetadata ?? null)).anthropic).type === 'compaction';
}

/** Before v3, the value is the unified reason alone. Anthropic's pauses are only visible in the raw reason. */
function finishReasonOf(
  value: unknown,
  { hasCalls, providerRan }: { hasCalls: boolean; providerRan: boolean },
  context: ProviderContext,
): FinishReason {
  const reason = toJson(value ?? null);
  const { unified, raw } = typeof reason === 'string' ? { unified: reason, raw: '' } : objectOf(reason);
  switch (unified) {
    case 'length':
      return 'length';
    case 'content-filter':
      return 'content_filter';
    case 'error':
      return 'error';
    case 'interrupted':
      throw malformedStream('truncated stream: it was interrupted before its end.', context);
    case 'tool-calls':
      return !hasCalls && providerRan ? 'stop' : 'tool_calls';
    case 'stop':
      if (hasCalls) return 'tool_calls';
      return raw === 'pause_turn' ? 'pause' : 'stop';
    default:
      if (hasCalls) return 'tool_calls';
      return raw === 'compaction' ? 'pause' : 'unknown';
  }
}

/** Before specification v3 the counts are plain numbers. */
function usageOf(value: unknown): Usage | null {
  const usage = objectOf(toJson(value ?? null));
  const input = objectOf(usage.inputTokens);
  const output = objectOf(usage.outputTokens);
  return normalizeUsage({
    input: flat(usage.inputTokens) ?? input.total ?? sum(input.noCache, input.cacheRead, input.cacheWrite),
    output: flat(usage.outputTokens) ?? output.total ?? sum(output.text, output.reasoning),
    cachedInput: usage.cachedInputTokens ?? input.cacheRead,
    cacheWrite: input.cacheWrite,
    reasoning: usage.reasoningTokens ?? output.reasoning,
  });
}

function flat(count: JsonValue | undefined): number | undefined {
  return typeof count === 'number' ? count : undefined;
}

function sum(...counts: (JsonValue | undefined)[]): number | undefined {
  const known = counts.filter(count => typeof count === 'number');
  return known.length === 0 ? undefined : known.reduce((total, count) => total + count, 0);
}

/** Yields the deltas and returns the result. A time limit and a reader that stops early cancel the stream. */
export async function* readParts(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  limits: ReturnType<typeof limitTime>,
  context: ProviderContext,
): AsyncGenerator<TurnDelta, Ended, undefined> {
  const { signal } = limits;
  const reader = stream.getReader();
  const cancel = () => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener('abort', cancel, { once: true });
  const streamed = new StreamedContent();
  let ended = false;
  try {
    let read = await limits.forPart(() => reader.read());
    while (!read.done) {
      yield* streamed.push(read.value);
      read = await limits.forPart(() => reader.read());
    }
    signal.throwIfAborted();
    ended = true;
  } finally {
    signal.removeEventListener('abort', cancel);
    if (!ended) cancel();
  }
  return streamed.end(context);
}

/** Custom parts about the progress of a stream. Complete answers do not contain them. */
const STREAM_ONLY: ReadonlySet<string> = new Set(['anthropic.message_start']);

type Block = {
  type: 'text' | 'reasoning';
  pieces: string[];
  shown: number;
  open: boolean;
  rest: object;
};

/**
 * Collects the content of a stream.
 *
 * S1 Parts belong to the open block with their kind and id. The last metadata of a block wins, as in the AI
 *    SDK's own loop.
 * S2 Blocks of one kind are shown one after another: pieces of a later block wait for the earlier one to end.
 * S3 A call is shown when it is complete: only then is it known who runs it and what its input is.
 */
class StreamedContent {
  readonly #slots: (Block | { type: 'complete'; content: LanguageModelV4Content })[] = [];
  readonly #open = new Map<string, Block>();
  readonly #started = new Set<string>();
  /** The first slot that may still have pieces to show, by kind. */
  readonly #next = { text: 0, reasoning: 0 };
  #calls = 0;
  #modelId: string | undefined;
  #finish: Extract<LanguageModelV4StreamPart, { type: 'finish' }> | undefined;

  push(part: LanguageModelV4StreamPart): TurnDelta[] {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        this.#start(part);
        return [];
      case 'text-delta':
      case 'reasoning-delta':
      case 'text-end':
      case 'reasoning-end':
        return this.#extend(part);
      case 'tool-input-start':
        if (part.providerExecuted !== true) this.#started.add(part.id);
        return [];
      case 'tool-call': {
        this.#started.delete(part.toolCallId);
        this.#slots.push({ type: 'complete', content: part });
        if (part.providerExecuted === true) return [];
        const text = inputText(part);
        const started = callStarted(this.#calls++, part.toolName, part.toolCallId);
        return text === '' ? [started] : [started, { type: 'call_arguments', index: started.index, text }];
      }
      case 'tool-result':
      case 'tool-approval-request':
      case 'file':
      case 'reasoning-file':
      case 'source':
        this.#slots.push({ type: 'complete', content: part });
        return [];
      case 'custom':
        if (!STREAM_ONLY.has(part.kind)) this.#slots.push({ type: 'complete', content: part });
        return [];
      case 'response-metadata':
        this.#modelId = part.modelId ?? this.#modelId;
        return [];
      case 'finish':
        this.#finish = part;
        return [];
      case 'error':
        throw part.error;
      default:
        return [];
    }
  }

  end(context: ProviderContext): Ended {
    const finish = this.#finish;
    if (!finish) throw malformedStream('truncated stream: it ended without finish.', context);
    const { finishReason, usage } = finish;
    const [unfinished] = this.#started;
    if (unfinished !== undefined && this.#calls === 0 && finishReason?.unified === 'tool-calls') {
      throw malformedStream(`the call ${unfinished} was started but never completed.`, context);
    }
    const content = this.#slots.map(slot => (slot.type === 'complete' ? slot.content : contentOf(slot)));
    return { content, finishReason, usage, modelId: this.#modelId };
  }

  #start(part: { type: string; id: string; providerMetadata?: object }): Block {
    const type = part.type.startsWith('text') ? 'text' : 'reasoning';
    const block: Block = { type, pieces: [], shown: 0, open: true, rest: metadataOf(part) };
    this.#open.set(`${type} ${part.id}`, block);
    this.#slots.push(block);
    return block;
  }

  #extend(part: { type: string; id: string; delta?: string; providerMetadata?: object }): TurnDelta[] {
    const type = part.type.startsWith('text') ? 'text' : 'reasoning';
    const block = this.#open.get(`${type} ${part.id}`) ?? this.#start(part);
    Object.assign(block.rest, metadataOf(part));
    if (part.delta) block.pieces.push(part.delta);
    if (part.type.endsWith('-end')) {
      block.open = false;
      this.#open.delete(`${type} ${part.id}`);
    }
    return this.#show(type);
  }

  #show(type: Block['type']): TurnDelta[] {
    const deltas: TurnDelta[] = [];
    for (; this.#next[type] < this.#slots.length; this.#next[type] += 1) {
      const slot = this.#slots[this.#next[type]];
      if (slot?.type !== type || isSummary(slot.rest)) continue;
      const text = slot.pieces.slice(slot.shown).join('');
      slot.shown = slot.pieces.length;
      if (text !== '') deltas.push({ type, text });
      if (slot.open) break;
    }
    return deltas;
  }
}

function metadataOf({ providerMetadata, citations }: { providerMetadata?: object; citations?: unknown }) {
  return omitUndefined({ providerMetadata, citations });
}

function contentOf({ type, pieces, rest }: Block): LanguageModelV4Content {
  return { type, text: pieces.join(''), ...rest };
}

/** Converts a generated file to a message part. Before v4, `data` has no wrapper object. */
function generatedFile({ mediaType, data }: LanguageModelV4File): Part {
  const current: string | Uint8Array | LanguageModelV4File['data'] = data;
  const wrapped = typeof current === 'string' || current instanceof Uint8Array ? { data: current } : current;
  const url = 'url' in wrapped ? String(wrapped.url) : `data:${mediaType};base64,${base64Of(wrapped.data)}`;
  return mediaType.startsWith('image/') ? { type: 'image', url } : { type: 'file', url, mediaType };
}
