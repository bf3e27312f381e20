import type { Media } from '../../protocol/content/read-content.ts';
import { ProviderError } from '../../protocol/error.ts';
import type { Item, MessageItem, Opaque, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import type { ProviderContext } from '../http/provider-errors.ts';
import { readDataURL, textOfFile, textOfResult } from '../turn/content.ts';
import { GrowingInput } from '../turn/growing-input.ts';
import { nonEmpty, objectOf, shorten } from '../turn/json-access.ts';
import { argumentsObject } from '../turn/tool-calls.ts';
import { closesTurn } from '../turn/transcript.ts';

type ErrorContext = Pick<ProviderContext, 'provider' | 'model'>;

/** Consecutive model items become one message; control and provider items are omitted. */
function messagesOf(transcript: readonly Item[], context: ErrorContext): JsonObject[] {
  const messages: JsonObject[] = [];
  const calls = new Map<string, ToolCallItem>();
  let answer: Answer[] = [];
  const endAnswer = () => {
    const message = answerInput(answer);
    if (message) messages.push(message);
    answer = [];
  };
  for (const item of transcript) {
    if (item.type === 'tool_call') calls.set(item.callId, item);
    if (closesTurn(item)) {
      endAnswer();
      messages.push(
        item.type === 'message' ? messageInput(item, context) : resultInput(item, calls.get(item.callId)),
      );
    } else if (item.type === 'reasoning' || item.type === 'tool_call' || item.type === 'message')
      answer.push(item);
  }
  endAnswer();
  return messages;
}

export function growingOllamaMessages(
  context: ErrorContext,
): (request: Pick<ModelRequest, 'instructions' | 'transcript'>) => JsonObject[] {
  const growing = new GrowingInput({
    make: items => ({ opening: [], input: messagesOf(items, context) }),
    namesOf: item => ('callId' in item ? [item.callId] : []),
  });
  return ({ instructions, transcript }) =>
    growing.of(transcript, instructions ? [{ role: 'system', content: instructions }] : []).input;
}

type Answer = Extract<Item, { type: 'message' | 'reasoning' | 'tool_call' }>;

function answerInput(items: readonly Answer[]): JsonObject | undefined {
  const calls = items.filter(item => item.type === 'tool_call').map(callInput);
  let content = '';
  let thinking = '';
  for (const item of items) {
    if (item.type === 'reasoning') thinking = extended(thinking, item.text, item);
    else if (item.type === 'message') content = extended(content, textOf(item), item);
  }
  if (content === '' && calls.length === 0) return undefined;
  return {
    role: 'assistant',
    content,
    ...(thinking === '' ? {} : { thinking }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
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
function mediaIn(part: Media, context: ErrorContext): { image: string } | { text: string } {
  const data = readDataURL(part.url);
  const what = part.type === 'image' ? 'an image' : 'a file';
  if (!data) throw unsupportedContent(`${what} at ${shorten(part.url, 200)}`, context);
  const mediaType = (part.type === 'file' ? part.mediaType : undefined) ?? data.mediaType;
  if (part.type === 'image' || mediaType.startsWith('image/')) return { image: data.base64 };
  const text = textOfFile(part);
  if (text === undefined) throw unsupportedContent(`a file of type ${mediaType || 'unknown'}`, context);
  return { text };
}

function unsupportedContent(what: string, { provider, model }: ErrorContext): ProviderError {
  const message = `${provider} (${model}) accepts only images and text files in data: URLs, but the transcript contains ${what}. Provide the content in a data: URL, or use another model.`;
  return new ProviderError(message, { code: 'invalid-request', provider, model });
}

function joined(texts: readonly string[]): string {
  return texts.filter(text => text !== '').join('\n\n');
}

const PROVIDER = 'ollama';

export function keptMore(): Opaque {
  return { provider: PROVIDER, data: { more: true } };
}

function isMore(opaque: Opaque | undefined): boolean {
  return opaque?.provider === PROVIDER && objectOf(opaque.data).more === true;
}

export function keptCall(wireId: string): Opaque {
  return { provider: PROVIDER, data: { wireId } };
}

function hasId({ opaque }: ToolCallItem): boolean {
  return opaque?.provider === PROVIDER && nonEmpty(objectOf(opaque.data).wireId) !== undefined;
}
