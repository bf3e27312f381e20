// Google's Gemini API: transcripts as contents, requests, and answers, with thought signatures kept for replay.

import { type Media, mediaTypeOf, readContent, textOfParts } from '../../protocol/content/read-content.ts';
import type {
  Item,
  MessageItem,
  Opaque,
  ReasoningItem,
  ToolCallItem,
  ToolResultItem,
} from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelRequest, Settings, ToolChoice, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import { mediaOfParts, partsOfResult, readDataURL } from '../turn/content.ts';
import { GrowingInput, type Input } from '../turn/growing-input.ts';
import { arrayOf, integerIn, mergeOptions, nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';
import { withOutputSchema } from '../turn/strict-schema.ts';
import { parseArguments, resultsByCall } from '../turn/tool-calls.ts';
import { isControl, missingResult } from '../turn/transcript.ts';

/** Parts of a model turn stay unchanged; the responses to its calls follow in one content, in call order. */
function contentsOf(
  transcript: readonly Item[],
  model: string,
  { hasPrevious }: { hasPrevious: boolean },
): Input {
  const opening = hasPrevious ? [] : openingOf(transcript);
  const writer = new ContentWriter(transcript, generationOf(model));
  for (const item of transcript.slice(opening.length)) writer.add(item);
  return {
    opening: opening.map(textOf),
    input: hasPrevious ? writer.contents() : startingWithUser(writer.contents()),
  };
}

/** The items before the first that is neither an instruction nor for clients. */
export function openingOf(transcript: readonly Item[]): readonly Item[] {
  const start = transcript.findIndex(item => !isSystem(item) && !isControl(item));
  return start === -1 ? transcript : transcript.slice(0, start);
}

function isSystem(item: Item): boolean {
  return item.type === 'message' && (item.role === 'system' || item.role === 'developer');
}

/** The API requires the first content to be the user's. */
function startingWithUser(contents: JsonObject[]): JsonObject[] {
  return contents[0]?.role === 'user' ? contents : [{ role: 'user', parts: [{ text: '' }] }, ...contents];
}

/** Of calls that Gemini has not signed: https://ai.google.dev/gemini-api/docs/thought-signatures */
const NOT_SIGNED = 'skip_thought_signature_validator';

/**
 * Writes contents item by item.
 *
 * W1 Consecutive items of the model form one content.
 * W2 Every call has exactly one response, directly after its content. A result without a call is omitted.
 */
class ContentWriter {
  readonly #generation: number;
  readonly #results: ReadonlyMap<string, ToolResultItem[]>;
  readonly #contents: JsonObject[] = [];
  #model: JsonObject[] = [];
  #calls: ToolCallItem[] = [];
  #user: JsonObject[] | undefined;

  constructor(transcript: readonly Item[], generation: number) {
    this.#generation = generation;
    this.#results = resultsByCall(transcript);
  }

  add(item: Item): void {
    switch (item.type) {
      case 'message':
        if (item.role === 'assistant') this.#model.push(...modelParts(item));
        else this.#addUser(userParts(item));
        return;
      case 'reasoning':
        this.#model.push(...thoughtParts(item));
        return;
      case 'tool_call':
        this.#model.push(this.#callPart(item));
        this.#calls.push(item);
        return;
      case 'provider_item': {
        const { part } = keptBy(item);
        if (part) this.#model.push(part);
        return;
      }
      case 'tool_result':
        if (this.#calls.length > 0) this.#endModel();
        return;
    }
  }

  contents(): JsonObject[] {
    this.#endModel();
    return this.#contents;
  }

  #addUser(parts: JsonObject[]): void {
    if (parts.length === 0) return;
    this.#endModel();
    if (this.#user) this.#user.push(...parts);
    else {
      this.#user = parts;
      this.#contents.push({ role: 'user', parts });
    }
  }

  #endModel(): void {
    if (this.#model.length === 0) return;
    this.#contents.push({ role: 'model', parts: this.#model });
    if (this.#calls.length > 0) {
      this.#contents.push({ role: 'user', parts: this.#calls.flatMap(call => this.#responseParts(call)) });
    }
    this.#model = [];
    this.#calls = [];
    this.#user = undefined;
  }

  /** Only the first call of a content has a signature. */
  #callPart(item: ToolCallItem): JsonObject {
    const parsed = parseArguments(item.arguments);
    const { thoughtSignature, hasId } = keptBy(item);
    const signature = thoughtSignature ?? (this.#needsSignature(item) ? NOT_SIGNED : undefined);
    return {
      functionCall: {
        name: item.name,
        args: 'input' in parsed ? parsed.input : {},
        ...(hasId ? { id: item.callId } : {}),
      },
      ...signed(signature),
    };
  }

  #needsSignature(item: ToolCallItem): boolean {
    if (this.#calls.length > 0 || this.#generation < 2.5) return false;
    return this.#generation >= 3 || item.opaque?.provider !== GEMINI;
  }

  /**
   * The response to a call. From Gemini 3 on, images and PDF files are part of it; for older models they follow it, as
   * do sounds and videos: https://ai.google.dev/gemini-api/docs/function-calling#multimodal
   */
  #responseParts(call: ToolCallItem): JsonObject[] {
    const result = this.#results.get(call.callId)?.shift() ?? missingResult(call.callId);
    const isContent = readContent(result.output) !== undefined;
    const content = partsOfResult(result, readsMedia);
    const value = isContent ? textOfParts(content) : (result.shown ?? result.output);
    const media = mediaOfParts(content);
    const inside = media.filter(part => this.#generation >= 3 && isResponseMedia(mediaTypeOf(part)));
    const functionResponse = {
      name: call.name,
      response: result.isError ? { error: value } : { result: value },
      ...(inside.length > 0 ? { parts: inside.map(mediaPart) } : {}),
      ...(keptBy(call).hasId ? { id: call.callId } : {}),
    };
    return [{ functionResponse }, ...media.filter(part => !inside.includes(part)).map(mediaPart)];
  }
}

function userParts({ content }: MessageItem): JsonObject[] {
  return content.flatMap(part => {
    if (part.type !== 'text') return [mediaPart(part)];
    return part.text === '' ? [] : [{ text: part.text }];
  });
}

/** Returns the parts of an assistant message. Images from other providers' models are omitted. */
function modelParts(item: MessageItem): JsonObject[] {
  const { spans, thoughtSignature } = keptBy(item);
  return item.content.flatMap(part => {
    if (part.type === 'text') return textParts(part.text, spans);
    return item.opaque?.provider === GEMINI ? [{ ...mediaPart(part), ...signed(thoughtSignature) }] : [];
  });
}

function thoughtParts(item: ReasoningItem): JsonObject[] {
  const { spans } = keptBy(item);
  const parts = spans ? textParts(item.text, spans) : [];
  return parts.some(part => part.thoughtSignature !== undefined)
    ? parts.map(part => ({ ...part, thought: true }))
    : [];
}

function mediaPart(part: Media): JsonObject {
  const { mimeType, data } = mediaSource(part);
  return data === undefined
    ? { fileData: { ...omitUndefined({ mimeType }), fileUri: part.url } }
    : { inlineData: { ...omitUndefined({ mimeType }), data } };
}

/** The media type of an image or file, and its bytes in base64 if they are in its URL. */
export function mediaSource(part: Media): { mimeType: string | undefined; data?: string } {
  const named = part.type === 'file' ? part.mediaType : undefined;
  const inline = readDataURL(part.url);
  if (inline !== undefined)
    return { mimeType: named ?? (inline.mediaType || 'text/plain'), data: inline.base64 };
  const byName = part.type === 'file' ? typeByExtension(part.name) : undefined;
  return { mimeType: named ?? typeByExtension(part.url) ?? byName };
}

/** Whether Gemini reads this media type: https://ai.google.dev/gemini-api/docs/file-input-methods#supported-content-types */
export function readsMedia(mediaType: string): boolean {
  return (
    /^image\/(?:png|jpeg|webp|heic|heif|\*)$/.test(mediaType) ||
    /^(?:text|audio|video)\//.test(mediaType) ||
    /^(?:application\/(?:pdf|json))?$/.test(mediaType)
  );
}

/** Whether a function's response can have this media type inside, from Gemini 3 on. */
export function isResponseMedia(mediaType: string): boolean {
  return /^(?:image\/(?:png|jpeg|webp|\*)|application\/pdf|text\/plain|)$/.test(mediaType);
}

export function imageURL({ mimeType, data }: JsonObject): string | undefined {
  if (typeof mimeType !== 'string' || typeof data !== 'string') return undefined;
  return mimeType.startsWith('image/') ? `data:${mimeType};base64,${data}` : undefined;
}

const TYPES: ReadonlyMap<string, string> = new Map([
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['webp', 'image/webp'],
  ['heic', 'image/heic'],
  ['heif', 'image/heif'],
  ['pdf', 'application/pdf'],
  ['txt', 'text/plain'],
  ['md', 'text/md'],
  ['html', 'text/html'],
  ['csv', 'text/csv'],
  ['mp3', 'audio/mp3'],
  ['wav', 'audio/wav'],
  ['mp4', 'video/mp4'],
  ['mov', 'video/mov'],
]);

function typeByExtension(name: string | undefined): string | undefined {
  const [path = ''] = (name ?? '').split(/[?#]/, 1);
  return TYPES.get(path.slice(path.lastIndexOf('.') + 1).toLowerCase());
}

/** 2.5, for example. A name without a number, as `gemini-flash-latest`, means the newest (3); others mean 0. */
export function generationOf(model: string): number {
  const name = model.split('/').at(-1) ?? '';
  const version = /^gemini-(?:[a-z-]+-)?(\d\d?(?:\.\d+)?)(?![\d.])/.exec(name)?.[1];
  if (version !== undefined) return Number(version);
  return /^gemini-.*latest$/.test(name) ? 3 : 0;
}

export const GEMINI = 'gemini';

/** One part's section of a text: its length in UTF-16 code units, and the part's signature. */
export type ContentSpan = { length: number; thoughtSignature?: string };

/**
 * The provider data that an item keeps in its `opaque.data`: the `spans` of a signed text, which must not be joined when
 * they go back; the signature of a call or an image; whether the call id is the provider's own (`hasId`) and goes back;
 * the full `part`, if it has no portable form.
 */
type Kept = { spans?: ContentSpan[]; thoughtSignature?: string; hasId?: true; part?: JsonObject };

export function keep(kept: Kept): Opaque | undefined {
  return Object.keys(kept).length === 0 ? undefined : { provider: GEMINI, data: kept };
}

function keptBy(item: Item): Kept {
  if (!('opaque' in item) || item.opaque?.provider !== GEMINI) return {};
  const data = objectOf(item.opaque.data);
  return omitUndefined({
    spans: Array.isArray(data.spans) ? objectsOf(data.spans).map(spanIn) : undefined,
    thoughtSignature: nonEmpty(data.thoughtSignature),
    hasId: data.hasId === true ? (true as const) : undefined,
    part: data.part === undefined ? undefined : objectOf(data.part),
  });
}

export function signed(thoughtSignature: string | undefined): { thoughtSignature?: string } {
  return thoughtSignature === undefined ? {} : { thoughtSignature };
}

function spanIn({ length, thoughtSignature }: JsonObject): ContentSpan {
  return { length: integerIn(length) ?? 0, ...signed(nonEmpty(thoughtSignature)) };
}

/** The original parts of a text. One that was edited no longer matches its signatures: it is one unsigned part. */
function textParts(text: string, spans: readonly ContentSpan[] | undefined): JsonObject[] {
  const total = spans?.reduce((sum, { length }) => sum + length, 0);
  if (!spans || total !== text.length) return text === '' ? [] : [{ text }];
  let start = 0;
  return spans.map(({ length, thoughtSignature }) => {
    const part = { text: text.slice(start, start + length), ...signed(thoughtSignature) };
    start += length;
    return part;
  });
}

/** Builds bodies from what transcripts gain. With tools before Gemini 3, the schema is an instruction. */
export function geminiBody(
  model: string,
  providerOptions: JsonObject = {},
): (request: ModelRequest) => JsonObject {
  const growing = new GrowingInput({
    make: (items, options) => contentsOf(items, model, options),
    namesOf: item => ('callId' in item ? [item.callId] : []),
    joins: (last, next) => last.role === next.role,
  });
  return request => {
    const options = mergeOptions(providerOptions, request.providerOptions);
    const { opening, input: contents } = growing.of(request.transcript);
    const { tools } = request;
    const hasTools = tools.length > 0 || arrayOf(options.tools).length > 0;
    const { system, schema } = systemOf(request, opening, { model, hasTools });
    const generationConfig: JsonObject = {
      ...settingsInput(request.settings, model),
      ...(schema ? { responseMimeType: 'application/json', responseJsonSchema: schema } : {}),
    };
    const toolConfig = { functionCallingConfig: choiceInput(request.toolChoice) };
    return mergeOptions(
      {
        contents,
        ...(system === '' ? {} : { systemInstruction: { parts: [{ text: system }] } }),
        ...(tools.length > 0 ? { tools: toolInputs(tools), toolConfig } : {}),
        ...(Object.keys(generationConfig).length > 0 ? { generationConfig } : {}),
      },
      options,
    );
  };
}

/** The instructions, and the output schema unless it is one of them. */
export function systemOf(
  { instructions = '', output }: ModelRequest,
  opening: readonly string[],
  { model, hasTools }: { model: string; hasTools: boolean },
): { system: string; schema?: JsonObject } {
  const system = [instructions, ...opening].filter(text => text !== '').join('\n\n');
  if (output === undefined) return { system };
  return hasTools && generationOf(model) < 3
    ? { system: withOutputSchema(system === '' ? undefined : system, output) }
    : { system, schema: schemaInput(output.schema) };
}

const MODES = { auto: 'AUTO', required: 'ANY', none: 'NONE' } as const;

function choiceInput(choice: ToolChoice): JsonObject {
  if (typeof choice === 'string') return { mode: MODES[choice] };
  return { mode: 'ANY', allowedFunctionNames: [choice.name] };
}

const toolInputs = convertOnce<ToolDefinition>(tools => [{ functionDeclarations: tools.map(toolInput) }]);

function toolInput({ name, description, inputSchema }: ToolDefinition): JsonObject {
  return { name, description, parametersJsonSchema: schemaInput(inputSchema) };
}

export function schemaInput({ $schema: _, ...schema }: JsonObject): JsonObject {
  return schema;
}

function settingsInput(settings: Settings, model: string): JsonObject {
  const { temperature, topP, maxOutputTokens, reasoningEffort } = settings;
  return omitUndefined({
    temperature,
    topP,
    maxOutputTokens,
    thinkingConfig: reasoningEffort === undefined ? undefined : thinkingConfig(reasoningEffort, model),
  });
}

/** A level for Gemini 3, else, or as a number, a budget: https://ai.google.dev/gemini-api/docs/openai#thinking */
function thinkingConfig(effort: string, model: string): JsonObject {
  if (/^-?\d+$/.test(effort)) return { thinkingBudget: Number(effort) };
  return generationOf(model) >= 3
    ? { thinkingLevel: levelOf(effort, model) }
    : { thinkingBudget: BUDGETS.get(effort) ?? DYNAMIC };
}

/** Thinking cannot be turned off in Gemini 3: https://ai.google.dev/gemini-api/docs/thinking#thinking-levels */
export function levelOf(effort: string, model: string): string {
  if (effort === 'none' || effort === 'minimal') return hasMinimal(model) ? 'minimal' : 'low';
  return effort === 'xhigh' || effort === 'max' ? 'high' : effort;
}

/** Pro models, and Flash models from 3.7 on, which `latest` names too, have no `minimal` level. */
function hasMinimal(model: string): boolean {
  const generation = generationOf(model);
  return generation >= 3 && generation < 3.7 && !/-pro\b|latest$/.test(model);
}

const BUDGETS: ReadonlyMap<string, number> = new Map([
  ['none', 0],
  ['minimal', 1_024],
  ['low', 1_024],
  ['medium', 8_192],
  ['high', 24_576],
  ['xhigh', 24_576],
  ['max', 24_576],
]);

const DYNAMIC = -1;
