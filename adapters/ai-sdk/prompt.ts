import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FilePart,
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ProviderTool,
  LanguageModelV4TextPart,
  LanguageModelV4ToolChoice,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider';
import { toBase64 } from '../../protocol/content/content.ts';
import { hashText } from '../../protocol/content/hash-text.ts';
import { readContent, textOfParts } from '../../protocol/content/read-content.ts';
import type {
  Item,
  MessageItem,
  Opaque,
  Part,
  ProviderItem,
  ReasoningItem,
  ToolCallItem,
  ToolResultItem,
} from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelRequest, ToolDefinition } from '../../protocol/turn.ts';
import { partsOfResult, readDataURL } from '../turn/content.ts';
import { jsonIn, mergeOptions, nonEmpty, objectOf, shorten, textIn } from '../turn/json-access.ts';
import { argumentsObject } from '../turn/tool-calls.ts';

type PromptOptions = {
  /** The provider whose opaque data is sent back. */
  provider: string;
  version: 'v2' | 'v3' | 'v4';
};

type AssistantPart = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'][number];

/** Converts instructions and transcript. Consecutive model items become one message, as do results. */
function promptOf({ instructions, transcript }: ModelRequest, options: PromptOptions): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  const calls = new Map<string, ToolCallItem>();
  if (instructions) prompt.push({ role: 'system', content: instructions });
  for (const item of transcript) {
    if (item.type === 'tool_call') calls.set(item.callId, item);
    if (item.type === 'message' && item.role !== 'assistant') prompt.push(...messageInput(item, options));
    else if (item.type === 'tool_result') {
      const call = calls.get(item.callId);
      const last = prompt.at(-1);
      if (call === undefined) continue;
      const result = resultInput(item, call, options);
      if (last?.role === 'tool') last.content.push(result);
      else prompt.push({ role: 'tool', content: [result] });
    } else {
      const parts = assistantParts(item, options);
      const last = prompt.at(-1);
      if (last?.role === 'assistant') last.content.push(...parts);
      else if (parts.length > 0) prompt.push({ role: 'assistant', content: parts });
    }
  }
  return prompt.filter(message => message.role !== 'assistant' || message.content.some(isMoreThanReasoning));
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

/** Packages that send images and files in results. Others, as `openai.chat`, send them as base64 in a JSON text. */
const SENDS_MEDIA =
  /^ai-sdk:(?:anthropic|google|vertex|amazon-bedrock)\b|^ai-sdk:(?:openai|azure)\.responses$/;

/** The images and files that all these providers read from tools. */
const READ_MEDIA = /^(?:image\/(?:jpeg|png|gif|webp|\*)|application\/pdf)$/;

function outputOf(result: ToolResultItem, options: PromptOptions): LanguageModelV4ToolResultOutput {
  const { output, shown, isError } = result;
  const sendsMedia = options.version === 'v4' && SENDS_MEDIA.test(options.provider);
  const parts = partsOfResult(result, mediaType => sendsMedia && READ_MEDIA.test(mediaType));
  if (parts.some(part => part.type !== 'text'))
    return {
      type: 'content',
      value: parts.map(part =>
        part.type === 'text' ? { type: part.type, text: part.text } : fileInput(part, options),
      ),
    };
  const isContent = readContent(output) !== undefined;
  const value = isContent ? textOfParts(parts) : (shown ?? output);
  if (typeof value === 'string') return { type: isError ? 'error-text' : 'text', value };
  return { type: isError ? 'error-json' : 'json', value };
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

/** Converts content without a portable form to an item: the provider's own tools, sources, summaries, custom parts. @internal */
export function providerItem(provider: string, content: LanguageModelV4Content): ProviderItem {
  const kind = content.type === 'custom' ? content.kind : (KINDS[content.type] ?? content.type);
  return { type: 'provider_item', kind, opaque: { provider, data: { part: toJson(serializable(content)) } } };
}

/** A text that is not part of the answer is a summary. */
const KINDS: Readonly<Record<string, string>> = { text: 'compaction' };

/** Content that JSON can represent, without the id of a source, which the AI SDK generates again each time. */
function serializable(content: LanguageModelV4Content): object {
  if (content.type === 'source') {
    const { id: _, ...source } = content;
    return source;
  }
  if (content.type !== 'reasoning-file' || content.data.type !== 'data') return content;
  return { ...content, data: { type: 'data', data: base64Of(content.data.data) } };
}

function partOfProviderItem({ opaque }: ProviderItem): AssistantPart[] {
  const part = objectOf(objectOf(opaque.data).part);
  const { providerMetadata } = part;
  const own = isJsonObject(providerMetadata)
    ? { providerOptions: providerMetadata as Record<string, JsonObject> }
    : {};
  const call = { toolCallId: textIn(part.toolCallId), toolName: textIn(part.toolName) };
  switch (part.type) {
    case 'tool-call':
      return [
        {
          type: 'tool-call',
          ...call,
          input: objectOf(jsonIn(textIn(part.input))),
          providerExecuted: true,
          ...own,
        },
      ];
    case 'tool-result':
      return [{ type: 'tool-result', ...call, output: executedOutput(part), ...own }];
    case 'text':
      return [{ type: 'text', text: textIn(part.text), ...own }];
    case 'custom':
      return [{ type: 'custom', kind: textIn(part.kind) as `${string}.${string}`, ...own }];
    case 'reasoning-file':
      return [{ type: 'reasoning-file', mediaType: textIn(part.mediaType), data: dataOf(part.data), ...own }];
    default:
      return [];
  }
}

function executedOutput({ result, isError }: JsonObject): LanguageModelV4ToolResultOutput {
  const value = result ?? null;
  if (isError === true) return { type: 'error-json', value };
  return typeof value === 'string' ? { type: 'text', value } : { type: 'json', value };
}

type FileData = Extract<AssistantPart, { type: 'reasoning-file' }>['data'];

function dataOf(value: JsonValue | undefined): FileData {
  const { type, data, url } = objectOf(value);
  return type === 'url' ? { type, url: new URL(textIn(url)) } : { type: 'data', data: textIn(data) };
}

/** `metadata` goes back as provider options; `mark` is a digest of the portable part, to see whether it was edited. */
type Kept = { metadata: JsonObject; mark: string };

/** Returns the opaque data of an item with metadata; `undefined` if there is none. @internal */
export function keptWith(provider: string, portable: string, metadata: unknown): Opaque | undefined {
  const own = objectOf(toJson(metadata ?? null));
  if (Object.keys(own).length === 0) return undefined;
  return { provider, data: { metadata: own, mark: markOf(portable) } satisfies Kept };
}

/** An item that was edited since loses its id: some providers would use their stored copy instead. */
function optionsOf(
  provider: string,
  portable: string,
  opaque: Opaque | undefined,
): { providerOptions: Record<string, JsonObject> } | Record<string, never> {
  if (opaque?.provider !== provider) return {};
  const { metadata, mark } = objectOf(opaque.data);
  const isEdited = nonEmpty(mark) !== markOf(portable);
  const members = Object.entries(objectOf(metadata)).flatMap(([name, own]): [string, JsonObject][] => {
    if (!isJsonObject(own)) return [];
    const { itemId: _, ...withoutId } = own;
    return [[name, isEdited ? withoutId : own]];
  });
  return members.length === 0 ? {} : { providerOptions: Object.fromEntries(members) };
}

function markOf(portable: string): string {
  return hashText(portable).slice(0, 16);
}

type CallOptionsInput = {
  model: { specificationVersion: 'v2' | 'v3' | 'v4'; provider: string };
  /** The provider whose opaque data is sent back. */
  provider: string;
  signal: AbortSignal;
  providerOptions?: JsonObject;
  providerTools?: ProviderTools;
  headers?: Record<string, string>;
};

/** @internal */
export function callOptionsOf(request: ModelRequest, input: CallOptionsInput): LanguageModelV4CallOptions {
  const { model, provider, signal, headers } = input;
  const { output, toolChoice: choice } = request;
  const { maxOutputTokens, temperature, topP, reasoningEffort } = request.settings;
  const version = model.specificationVersion;
  const tools = [...request.tools.map(functionTool), ...providerTools(input)];
  const toolChoice: LanguageModelV4ToolChoice =
    typeof choice === 'string' ? { type: choice } : { type: 'tool', toolName: choice.name };
  const providerOptions = providerOptionsOf(request, input);
  return {
    prompt: promptOf(request, { provider, version }),
    ...omitUndefined({
      maxOutputTokens,
      temperature,
      topP,
      reasoning: version === 'v4' ? (reasoningEffort as LanguageModelV4CallOptions['reasoning']) : undefined,
    }),
    ...(tools.length === 0 ? {} : { tools, toolChoice }),
    ...omitUndefined({
      responseFormat: output && {
        type: 'json' as const,
        name: output.name,
        schema: output.schema as LanguageModelV4FunctionTool['inputSchema'],
      },
      providerOptions: Object.keys(providerOptions).length === 0 ? undefined : providerOptions,
      headers,
    }),
    abortSignal: signal,
  };
}

function functionTool(tool: ToolDefinition): LanguageModelV4FunctionTool {
  const { name, description, strict } = tool;
  const inputSchema = tool.inputSchema as LanguageModelV4FunctionTool['inputSchema'];
  return { type: 'function', name, description, inputSchema, ...omitUndefined({ strict }) };
}

function providerTools({ model, providerTools: tools }: CallOptionsInput): LanguageModelV4ProviderTool[] {
  const type = model.specificationVersion === 'v2' ? 'provider-defined' : 'provider';
  return Object.entries(tools ?? {}).map(
    ([name, { id, args }]) => ({ type, id, name, args }) as LanguageModelV4ProviderTool,
  );
}

/** Settings outside of the specification are sent under the provider's name; providers ignore unknown options. */
function providerOptionsOf(
  { settings, tools, providerOptions }: ModelRequest,
  { model, providerOptions: shared }: CallOptionsInput,
): SharedV4ProviderOptions {
  const { reasoningEffort, parallelToolCalls: parallel } = settings;
  const own: JsonObject = {
    ...(model.specificationVersion === 'v4' ? {} : omitUndefined({ reasoningEffort })),
    ...(parallel !== undefined &&
      tools.length > 0 && { parallelToolCalls: parallel, disableParallelToolUse: !parallel }),
  };
  const [name = ''] = model.provider.split('.');
  const settled: JsonObject = Object.keys(own).length === 0 ? {} : { [name]: own };
  return mergeOptions(mergeOptions(settled, shared), providerOptions) as SharedV4ProviderOptions;
}

/** The provider's own tools, by the names that the model uses. */
export type ProviderTools = Record<string, { id: string; args: object }>;

export function base64Of(data: string | Uint8Array): string {
  return typeof data === 'string' ? data : toBase64(data);
}
