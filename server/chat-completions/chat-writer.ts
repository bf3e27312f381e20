import { randomUUID } from 'node:crypto';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionMessage,
  ChatCompletionMessageToolCall,
} from 'openai/resources/chat/completions';
import { KEEP_ALIVE_COMMENT } from '../../engine/events/streamed-body.ts';
import type { Item } from '../../protocol/item.ts';
import { isJsonObject, omitNull, omitUndefined } from '../../protocol/json.ts';
import type { Usage } from '../../protocol/turn.ts';
import {
  type AnswerEnd,
  type AnswerEvent,
  type AnswerWriter,
  addUsages,
  annotationsOf,
  argumentOf,
  type PlacedCall,
  refusalIn,
  waitsForPeople,
} from '../gateway/answer/answer-event.ts';
import { DONE, failureOf, type StreamFormat } from '../gateway/live/respond.ts';
import type { NameCall } from '../gateway/runs/continued-run.ts';
import type { ResponseHead } from '../gateway/runs/response-spec.ts';
import { describeResponsesError } from '../openai-error.ts';

type Of<Type extends AnswerEvent['type']> = Extract<AnswerEvent, { type: Type }>;

type Citation = NonNullable<ChatCompletionMessage['annotations']>[number];

/** What OpenAI's type lacks: the reasoning, as vLLM and others write it, and the citations of a stream. */
type Delta = ChatCompletionChunk.Choice.Delta & { reasoning_content?: string; annotations?: Citation[] };
type Chunk = Omit<ChatCompletionChunk, 'choices' | 'service_tier'> & {
  service_tier: string | null;
  choices: (Omit<ChatCompletionChunk.Choice, 'delta'> & { delta: Delta })[];
};

/** A chunk whose delta is one text. */
class TextChunk {
  readonly #around: TextFrame;
  readonly #text: string;

  constructor(around: TextFrame, text: string) {
    this.#around = around;
    this.#text = text;
  }

  get frame(): string {
    const { before, after } = this.#around;
    return before + JSON.stringify(this.#text) + after;
  }
}

/** The frame of such a chunk, without the text. */
type TextFrame = { before: string; after: string };

type ChatWire =
  | Chunk
  | TextChunk
  | { error: { message: string; type: string; code: string | null; param: string | null } };

type Completion = Omit<ChatCompletion, 'service_tier' | 'choices'> & {
  service_tier: string | null;
  choices: (Omit<ChatCompletion.Choice, 'message'> & {
    message: ChatCompletionMessage & { reasoning_content?: string };
  })[];
};

const BETWEEN_TEXTS = '\n\n';

/** Where the text is in the frame of a chunk. No other member can be it. */
const TEXT = `text ${randomUUID()}`;

export const CHAT_CHUNKS: StreamFormat<ChatWire> = {
  frame: batch => batch.map(frameOf).join(''),
  failed: thrown => frameOf({ error: describeResponsesError(thrown).body.error }),
  keepAlive: KEEP_ALIVE_COMMENT,
  end: DONE,
};

function frameOf(wire: ChatWire): string {
  if (wire instanceof TextChunk) return wire.frame;
  return `data: ${JSON.stringify(wire)}\n\n`;
}

type TextField = 'content' | 'reasoning_content' | 'refusal';

type Text = { kind: 'message' | 'reasoning'; text: string; refusal: string; items: readonly Item[] };

/**
 * Writes an answer as a chat completion, whole and in chunks.
 *
 * K1 The deltas add up to the message of `whole` and, before it, the text of failed attempts, because clients cannot
 *    take text back. The texts of two items are separated.
 * K2 A call is written once it is complete, because a failed attempt's calls must not reach the client.
 * K3 Exactly one chunk has a finish reason, unless the stream ends with an error.
 */
export class ChatWriter implements AnswerWriter<Completion> {
  readonly #head: ResponseHead;
  /** Of each chunk. */
  readonly #chunk: Omit<Chunk, 'choices'>;
  readonly #emit: (wire: ChatWire) => void;
  readonly #nameCall: NameCall;
  readonly #includeUsage: boolean;
  readonly #texts = new Map<string, Text>();
  readonly #calls: ChatCompletionMessageToolCall[] = [];
  readonly #textFrames = new Map<TextField, TextFrame>();
  readonly #lastItem: { content?: string; reasoning_content?: string; refusal?: string } = {};
  /** The length of the streamed content, and where the text of its last item begins. */
  #content = { length: 0, start: 0 };
  #usage: Usage | null = null;
  #end: AnswerEnd = { status: 'completed' };

  constructor(
    head: ResponseHead,
    emit: (wire: ChatWire) => void,
    { nameCall, includeUsage }: { nameCall: NameCall; includeUsage: boolean },
  ) {
    this.#head = head;
    this.#emit = emit;
    this.#nameCall = nameCall;
    this.#includeUsage = includeUsage;
    this.#chunk = this.#headOf('chat.completion.chunk');
  }

  take(event: AnswerEvent): void {
    switch (event.type) {
      case 'begun':
        return this.#write({ role: 'assistant' });
      case 'opened':
        this.#texts.set(event.id, { kind: event.kind, text: '', refusal: '', items: [] });
        return;
      case 'text':
        return this.#stream(event.kind === 'message' ? 'content' : 'reasoning_content', event.id, event.text);
      case 'closed':
        return this.#close(event);
      case 'call.given':
        return this.#give(event);
      case 'usage':
        this.#usage = addUsages(this.#usage, event.usage);
        return;
      case 'ended':
        return this.#finish(event.end);
      default:
    }
  }

  get whole(): Completion {
    const all = [...this.#texts.values()];
    const content = joined(all, 'message', ({ text }) => text);
    const refusal = joined(all, 'message', text => text.refusal);
    const reasoning = joined(all, 'reasoning', ({ text }) => text);
    const annotations = citationsIn(all);
    const calls = this.#calls;
    const message = {
      role: 'assistant' as const,
      content: content === '' && (calls.length > 0 || refusal !== '') ? null : content,
      refusal: refusal || null,
      ...omitUndefined({
        reasoning_content: reasoning || undefined,
        annotations: annotations.length > 0 ? annotations : undefined,
        tool_calls: calls.length > 0 ? calls : undefined,
      }),
    };
    const choice = { index: 0, message, logprobs: null, finish_reason: this.#finishReason };
    return {
      ...this.#headOf('chat.completion'),
      choices: [choice],
      ...(this.#usage !== null && { usage: usageOf(this.#usage) }),
    };
  }

  #headOf<Name extends 'chat.completion' | 'chat.completion.chunk'>(object: Name) {
    const { id, createdAt, spec } = this.#head;
    const { model = spec.model, openai } = spec.request;
    return {
      id: id.replace(/^resp_/, 'chatcmpl-'),
      object,
      created: Math.floor(createdAt / 1000),
      model,
      service_tier: openai.service_tier ?? 'default',
    };
  }

  #stream(field: TextField, id: string, text: string): void {
    const last = this.#lastItem[field];
    this.#lastItem[field] = id;
    const between = last !== undefined && last !== id ? BETWEEN_TEXTS : '';
    if (field === 'content') {
      const { length, start } = this.#content;
      const begun = last === id ? start : length + between.length;
      this.#content = { length: length + between.length + text.length, start: begun };
    }
    this.#emit(new TextChunk(this.#textFrame(field), between + text));
  }

  #close({ id, kind, text, items }: Of<'closed'>): void {
    const refusal = refusalIn(items);
    this.#texts.set(id, { kind, text, refusal, items });
    if (refusal !== '') this.#stream('refusal', id, refusal);
    const annotations = kind === 'message' ? citationsOf(items, this.#content.start) : [];
    if (annotations.length > 0) this.#write({ annotations });
  }

  #give({ call, as }: { call: PlacedCall; as: string }): void {
    const isCustom = as === 'custom_tool_call';
    const index = this.#calls.length;
    const id = this.#nameCall(this.#head.id, index, call.callId);
    const { name } = call;
    const written = isCustom ? (argumentOf(call, 'input') ?? call.arguments) : call.arguments || '{}';
    if (isCustom) {
      this.#calls.push({ id, type: 'custom', custom: { name, input: written } });
      // OpenAI's type of a streamed call has functions only.
      this.#writeCalls([{ index, id, type: 'custom', custom: { name, input: '' } }]);
      this.#writeCalls([{ index, custom: { input: written } }]);
    } else {
      this.#calls.push({ id, type: 'function', function: { name, arguments: written } });
      this.#writeCalls([{ index, id, type: 'function', function: { name, arguments: '' } }]);
      this.#writeCalls([{ index, function: { arguments: written } }]);
    }
  }

  #writeCalls(calls: readonly object[]): void {
    this.#write({ tool_calls: calls as ChatCompletionChunk.Choice.Delta.ToolCall[] });
  }

  #finish(end: AnswerEnd): void {
    this.#end = end;
    if (end.status === 'failed' || end.status === 'cancelled') {
      const { message, type, code } = failureOf(end);
      this.#emit({ error: { message, type, code, param: null } });
      return;
    }
    const { content, refusal } = this.#lastItem;
    const isEmpty = this.#calls.length === 0 && content === undefined && refusal === undefined;
    this.#write(isEmpty ? { content: '' } : {}, this.#finishReason);
    if (!this.#includeUsage) return;
    const usage = this.#usage === null ? null : usageOf(this.#usage);
    this.#emit({ ...this.#chunk, choices: [], usage });
  }

  /** An answer that any limit or a call in doubt cut off has the reason `length`, and one that may not be given yet `content_filter`. */
  get #finishReason(): 'tool_calls' | 'stop' | 'content_filter' | 'length' {
    if (this.#calls.length > 0) return 'tool_calls';
    if (this.#end.status !== 'incomplete') return 'stop';
    const { incompleteReason: reason } = this.#end;
    return reason === 'content_filter' || waitsForPeople(this.#end) ? 'content_filter' : 'length';
  }

  /** Made once: most chunks of an answer differ only in their text. */
  #textFrame(field: TextField): TextFrame {
    const known = this.#textFrames.get(field);
    if (known !== undefined) return known;
    const [before = '', after = ''] = frameOf(this.#chunkOf({ [field]: TEXT })).split(JSON.stringify(TEXT));
    const frame = { before, after };
    this.#textFrames.set(field, frame);
    return frame;
  }

  #write(delta: Delta, finish_reason: ChatCompletionChunk.Choice['finish_reason'] = null): void {
    this.#emit(this.#chunkOf(delta, finish_reason));
  }

  #chunkOf(delta: Delta, finish_reason: ChatCompletionChunk.Choice['finish_reason'] = null): Chunk {
    const choice = { index: 0, delta, logprobs: null, finish_reason };
    return { ...this.#chunk, choices: [choice], ...(this.#includeUsage && { usage: null }) };
  }
}

function joined(texts: readonly Text[], kind: Text['kind'], read: (text: Text) => string): string {
  return texts
    .flatMap(text => (text.kind === kind ? [read(text)] : []))
    .filter(text => text !== '')
    .join(BETWEEN_TEXTS);
}

function citationsIn(texts: readonly Text[]): Citation[] {
  let start = 0;
  return texts.flatMap(({ kind, text, items }) => {
    if (kind !== 'message' || text === '') return [];
    if (start > 0) start += BETWEEN_TEXTS.length;
    const citations = citationsOf(items, start);
    start += text.length;
    return citations;
  });
}

/** `start`: where the text begins in the completion's content. */
function citationsOf(items: readonly Item[], start: number): Citation[] {
  return annotationsOf(items).flatMap(annotation => {
    if (!isJsonObject(annotation) || annotation.type !== 'url_citation') return [];
    // A provider with this API writes them apart.
    const { url, title, start_index, end_index } = isJsonObject(annotation.url_citation)
      ? annotation.url_citation
      : annotation;
    const at = (index: unknown) => start + (typeof index === 'number' ? index : 0);
    const url_citation = {
      url: typeof url === 'string' ? url : '',
      title: typeof title === 'string' ? title : '',
      start_index: at(start_index),
      end_index: at(end_index),
    };
    return [{ type: 'url_citation' as const, url_citation }];
  });
}

function usageOf(usage: Usage): NonNullable<ChatCompletion['usage']> {
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    prompt_tokens_details: {
      cached_tokens: usage.cachedInputTokens ?? 0,
      ...omitNull({ cache_write_tokens: usage.cacheWriteTokens }),
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
  };
}
