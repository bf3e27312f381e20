import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
} from '@ai-sdk/provider';
import { readContent, textOfParts } from '../../protocol/content/read-content.ts';
import type {
  Item,
  MessageItem,
  Part,
  ReasoningItem,
  ToolCallItem,
  ToolResultItem,
} from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { readDataURL } from '../turn/data-url.ts';
import { shorten } from '../turn/json-access.ts';
import { argumentsObject } from '../turn/parse-arguments.ts';
import { partsOfResult } from '../turn/result-content.ts';
import { optionsOf } from './opaque-data.ts';
import { partOfProviderItem } from './provider-item.ts';

type PromptOptions = {
  /** The provider whose opaque data is sent back. */
  provider: string;
  version: 'v2' | 'v3' | 'v4';
};

type AssistantPart = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'][number];

/**
 * Converts instructions and transcript to a prompt, in order. Consecutive model items become one message, as
 * do consecutive results. Control items and results without a call are omitted.
 */
export function promptOf(
  { instructions, transcript }: ModelRequest,
  options: PromptOptions,
): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  const calls = new Map<string, ToolCallItem>();
  if (instructions) prompt.push({ role: 'system', content: instructions });
  for (const item of transcript) {
    if (item.type === 'tool_call') calls.set(item.callId, item);
    if (item.type === 'message' && item.role !== 'assistant') prompt.push(...messageInput(item, options));
    else if (item.type === 'tool_result') {
      const call = calls.get(item.callId);
      if (call) addResult(prompt, resultInput(item, call, options));
    } else addParts(prompt, assistantParts(item, options));
  }
  return prompt.filter(message => message.role !== 'assistant' || message.content.some(isMoreThanReasoning));
}

function addResult(prompt: LanguageModelV4Prompt, result: LanguageModelV4ToolResultPart): void {
  const last = prompt.at(-1);
  if (last?.role === 'tool') last.content.push(result);
  else prompt.push({ role: 'tool', content: [result] });
}

function addParts(prompt: LanguageModelV4Prompt, parts: AssistantPart[]): void {
  if (parts.length === 0) return;
  const last = prompt.at(-1);
  if (last?.role === 'assistant') last.content.push(...parts);
  else prompt.push({ role: 'assistant', content: parts });
}

/** Providers drop reasoning of other providers, so an answer with nothing else would be empty. */
function isMoreThanReasoning(part: AssistantPart): boolean {
  return part.type !== 'reasoning' || part.providerOptions !== undefined;
}

function messageInput({ role, content }: MessageItem, options: PromptOptions): LanguageModelV4Message[] {
  if (role !== 'user') {
    const text = content.map(part => (part.type === 'text' ? part.text : '')).join('\n\n');
    return text === '' ? [] : [{ role: 'system', content: text }];
  }
  const parts = content.flatMap((part): (LanguageModelV4TextPart | LanguageModelV4FilePart)[] => {
    if (part.type !== 'text') return [fileInput(part, options)];
    return part.text === '' ? [] : [{ type: 'text', text: part.text }];
  });
  return parts.length === 0 ? [] : [{ role: 'user', content: parts }];
}

function assistantParts(item: Item, options: PromptOptions): AssistantPart[] {
  switch (item.type) {
    case 'message':
      return answerParts(item, options);
    case 'reasoning':
      return reasoningParts(item, options);
    case 'tool_call':
      return [
        {
          type: 'tool-call',
          toolCallId: item.callId,
          toolName: item.name,
          input: argumentsObject(item.arguments),
          ...optionsOf(options.provider, item.callId, item.opaque),
        },
      ];
    case 'provider_item':
      return item.opaque.provider === options.provider ? partOfProviderItem(item) : [];
    default:
      return [];
  }
}

/** Empty text is only kept if it has provider options. */
function answerParts(item: MessageItem, options: PromptOptions): AssistantPart[] {
  const own = optionsOf(options.provider, textOf(item), item.opaque);
  return item.content.flatMap((part): AssistantPart[] => {
    if (part.type !== 'text') return [{ ...fileInput(part, options), ...own }];
    if (part.text === '' && !('providerOptions' in own)) return [];
    return [{ type: 'text', text: part.text, ...own }];
  });
}

function reasoningParts(item: ReasoningItem, { provider }: PromptOptions): AssistantPart[] {
  const own = optionsOf(provider, item.text, item.opaque);
  if (item.text === '' && !('providerOptions' in own)) return [];
  return [{ type: 'reasoning', text: item.text, ...own }];
}

/** A result has the provider options of its call, as in the AI SDK's own loop. */
function resultInput(
  item: ToolResultItem,
  call: ToolCallItem,
  options: PromptOptions,
): LanguageModelV4ToolResultPart {
  return {
    type: 'tool-result',
    toolCallId: item.callId,
    toolName: call.name,
    output: outputOf(item, options),
    ...optionsOf(options.provider, call.callId, call.opaque),
  };
}

/**
 * Providers whose packages send images and files in results. Others, such as `openai.chat`, send the content as one JSON
 * text with base64 in it.
 */
const SENDS_MEDIA =
  /^ai-sdk:(?:anthropic|google|vertex|amazon-bedrock)\b|^ai-sdk:(?:openai|azure)\.responses$/;

/** The images and files that all these providers read from tools. */
const READ_MEDIA = /^(?:image\/(?:jpeg|png|gif|webp|\*)|application\/pdf)$/;

function outputOf(result: ToolResultItem, options: PromptOptions): LanguageModelV4ToolResultOutput {
  const { output, shown, isError } = result;
  const sendsMedia = options.version === 'v4' && SENDS_MEDIA.test(options.provider);
  const parts = partsOfResult(result, mediaType => sendsMedia && READ_MEDIA.test(mediaType));
  if (parts.some(part => part.type !== 'text'))
    return { type: 'content', value: parts.map(part => contentPart(part, options)) };
  const isContent = readContent(output) !== undefined;
  const value = isContent ? textOfParts(parts) : (shown ?? output);
  if (typeof value === 'string') return { type: isError ? 'error-text' : 'text', value };
  return { type: isError ? 'error-json' : 'json', value };
}

type ContentPart = Extract<LanguageModelV4ToolResultOutput, { type: 'content' }>['value'][number];

function contentPart(part: Part, options: PromptOptions): ContentPart {
  if (part.type === 'text') return { type: 'text', text: part.text };
  return fileInput(part, options);
}

/** Before specification v4, data and URL have no wrapper object. */
function fileInput(
  part: Exclude<Part, { type: 'text' }>,
  { version }: PromptOptions,
): LanguageModelV4FilePart {
  const inline = readDataURL(part.url);
  const current: LanguageModelV4FilePart['data'] = inline
    ? { type: 'data', data: inline.base64 }
    : { type: 'url', url: urlOf(part) };
  const unwrapped = current.type === 'data' ? current.data : current.url;
  const data = version === 'v4' ? current : unwrapped;
  const filename = part.type === 'file' ? part.name : undefined;
  return {
    type: 'file',
    mediaType: mediaTypeOf(part, inline?.mediaType),
    data: data as LanguageModelV4FilePart['data'],
    ...omitUndefined({ filename }),
  };
}

function urlOf({ type, url }: Part & { url: string }): URL {
  if (URL.canParse(url)) return new URL(url);
  throw new InvalidFileURL(
    `expected the URL of the ${type} in the transcript, but "${shorten(url, 80)}" is not a valid URL.`,
  );
}

class InvalidFileURL extends Error {
  override readonly name = 'InvalidFileURL';
}

function mediaTypeOf(part: Exclude<Part, { type: 'text' }>, inline: string | undefined): string {
  const named = (part.type === 'file' ? part.mediaType : undefined) || inline;
  if (named) return named;
  if (part.type === 'image') return 'image/*';
  return /\.pdf$/i.test(part.name ?? part.url) ? 'application/pdf' : 'application/octet-stream';
}
