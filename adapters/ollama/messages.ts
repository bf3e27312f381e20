import { ProviderError } from '../../protocol/error.ts';
import type { Item, MessageItem, Opaque, Part, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import type { ProviderContext } from '../http/provider-errors.ts';
import { readDataURL, textOfBase64, textOfResult } from '../turn/content.ts';
import { GrowingInput } from '../turn/growing-input.ts';
import { nonEmpty, objectOf, shorten } from '../turn/json-access.ts';
import { argumentsObject } from '../turn/tool-calls.ts';

type ErrorContext = Pick<ProviderContext, 'provider' | 'model'>;

/** Consecutive model items become one message; control and provider items are omitted. */
function messagesOf(transcript: readonly Item[], context: ErrorContext): JsonObject[] {
  const messages: JsonObject[] = [];
  const calls = new Map<string, ToolCallItem>();
  let answer: AssistantMessage | undefined;
  const endAnswer = () => {
    const message = answer?.message();
    if (message) messages.push(message);
    answer = undefined;
  };
  for (const item of transcript) {
    if (item.type === 'tool_call') calls.set(item.callId, item);
    if (isAnswer(item)) {
      answer ??= new AssistantMessage();
      answer.add(item);
    } else if (item.type === 'message') {
      endAnswer();
      messages.push(messageInput(item, context));
    } else if (item.type === 'tool_result') {
      endAnswer();
      messages.push(resultInput(item, calls.get(item.callId)));
    }
  }
  endAnswer();
  return messages;
}

/** Returns a function that converts instructions and transcript, but only what the transcript gained. */
export function growingMessages(
  context: ErrorContext,
): (request: Pick<ModelRequest, 'instructions' | 'transcript'>) => JsonObject[] {
  const growing = new GrowingInput({
    make: items => ({ opening: [], input: messagesOf(items, context) }),
    namesOf: item => ('callId' in item ? [item.callId] : []),
  });
  return ({ instructions, transcript }) =>
    growing.of(transcript, instructions ? [{ role: 'system', content: instructions }] : []).input;
}

type Answer = (MessageItem & { role: 'assistant' }) | Extract<Item, { type: 'reasoning' | 'tool_call' }>;

function isAnswer(item: Item): item is Answer {
  return (
    item.type === 'reasoning' ||
    item.type === 'tool_call' ||
    (item.type === 'message' && item.role === 'assistant')
  );
}

class AssistantMessage {
  #thinking = '';
  #content = '';
  readonly #calls: JsonObject[] = [];

  add(item: Answer): void {
    if (item.type === 'reasoning') this.#thinking = extended(this.#thinking, item.text, item);
    else if (item.type === 'message') this.#content = extended(this.#content, textOf(item), item);
    else this.#calls.push(callInput(item));
  }

  /** Returns the message; `undefined` if it has neither text nor calls. */
  message(): JsonObject | undefined {
    if (this.#content === '' && this.#calls.length === 0) return undefined;
    return {
      role: 'assistant',
      content: this.#content,
      ...omitUndefined({
        thinking: this.#thinking || undefined,
        tool_calls: this.#calls.length === 0 ? undefined : this.#calls,
      }),
    };
  }
}

/** A text that the model interrupted goes back as one. */
function extended(known: string, text: string, { opaque }: Pick<Answer, 'opaque'>): string {
  return isMore(opaque) ? known + text : joined([known, text]);
}

function callInput(item: ToolCallItem): JsonObject {
  return {
    ...(hasId(item) ? { id: item.callId } : {}),
    function: { name: item.name, arguments: argumentsObject(item.arguments) },
  };
}

function resultInput(item: ToolResultItem, call: ToolCallItem | undefined): JsonObject {
  return {
    role: 'tool',
    ...omitUndefined({ tool_name: call?.name, tool_call_id: call && hasId(call) ? call.callId : undefined }),
    content: textOfResult(item),
  };
}

function messageInput({ role, content }: MessageItem, context: ErrorContext): JsonObject {
  const texts: string[] = [];
  const images: string[] = [];
  for (const part of content) {
    if (part.type === 'text') texts.push(part.text);
    else {
      const media = mediaIn(part, context);
      if ('text' in media) texts.push(media.text);
      else images.push(media.image);
    }
  }
  return {
    role: role === 'developer' ? 'system' : role,
    content: joined(texts),
    ...(images.length === 0 ? {} : { images }),
  };
}

/** Converts an image to base64 and a text file to its text. Throws a `ProviderError` for anything else. */
function mediaIn(
  part: Exclude<Part, { type: 'text' }>,
  context: ErrorContext,
): { image: string } | { text: string } {
  const data = readDataURL(part.url);
  if (!data)
    throw unsupportedContent(
      `${part.type === 'image' ? 'an image' : 'a file'} at ${shorten(part.url, 200)}`,
      context,
    );
  const mediaType = (part.type === 'file' ? part.mediaType : undefined) ?? data.mediaType;
  if (part.type === 'image' || mediaType.startsWith('image/')) return { image: data.base64 };
  if (!/^text\/|[/+](?:json|xml|yaml)$/.test(mediaType)) {
    throw unsupportedContent(`a file of type ${mediaType === '' ? 'unknown' : mediaType}`, context);
  }
  return { text: textOfBase64(data.base64) };
}

function unsupportedContent(what: string, { provider, model }: ErrorContext): ProviderError {
  return new ProviderError(
    `${provider} (${model}) accepts only images and text files in data: URLs, but the transcript contains ${what}. Provide the content in a data: URL, or use another model.`,
    {
      code: 'invalid-request',
      status: null,
      retryable: false,
      retryAfterMs: null,
      provider,
      model,
      raw: null,
    },
  );
}

function joined(texts: readonly string[]): string {
  return texts.filter(text => text !== '').join('\n\n');
}

const PROVIDER = 'ollama';

/** Returns the opaque data of a text or reasoning that continues an earlier one of its turn. */
export function keptMore(): Opaque {
  return { provider: PROVIDER, data: { more: true } };
}

function isMore(opaque: Opaque | undefined): boolean {
  return opaque?.provider === PROVIDER && objectOf(opaque.data).more === true;
}

/** Returns the opaque data of a call with a server id. Most servers send no ids and accept none. */
export function keptCall(wireId: string): Opaque {
  return { provider: PROVIDER, data: { wireId } };
}

/** Whether the server gave the call an id, so that call and result are sent with it. */
function hasId({ opaque }: ToolCallItem): boolean {
  return opaque?.provider === PROVIDER && nonEmpty(objectOf(opaque.data).wireId) !== undefined;
}
