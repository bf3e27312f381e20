import type { TurnPart } from '../../engine/story/tell-story.ts';
import type { Item, MessageItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { ContentChunk } from './chunk.ts';

/* What a turn shows besides texts and calls: what the provider did, and the sources and files of its messages. */

type ProviderItem = Extract<Item, { type: 'provider_item' }>;

type Ran = { toolCallId: string | undefined; toolName: string; input: JsonValue; output: JsonValue };

/** Members of results that are only for the provider and are not shown. */
const OPAQUE = new Set(['encrypted_content', 'encrypted_stdout', 'encrypted_index', 'thoughtSignature']);

/** Other items may have the result. Returns no chunks for items without a source, file or tool. `key` makes ids unique. */
export function providerChunks(
  item: Extract<TurnPart, { kind: 'item' }>['item'],
  items: readonly Item[],
  key: string,
): ContentChunk[] {
  if (item.type !== 'provider_item') return [];
  const data = dataOf(item);
  if (item.kind === 'source') return sourceOf(data, key);
  if (item.kind === 'groundingMetadata')
    return (Array.isArray(data.groundingChunks) ? data.groundingChunks : []).flatMap((chunk, index) =>
      sourceOf(chunk, `${key}-${index}`),
    );
  const others = items.flatMap(one => (one.type === 'provider_item' && one !== item ? [dataOf(one)] : []));
  const ran = ranOf(item.kind, data, others);
  if (ran === undefined) return [];
  const { toolCallId = key, toolName, input, output } = ran;
  const image = item.kind === 'image_generation_call' ? firstText(data, ['result']) : undefined;
  const mediaType = `image/${firstText(data, ['output_format']) ?? 'png'}`;
  return [
    { type: 'tool-input-available', toolCallId, toolName, input: shown(input), providerExecuted: true },
    { type: 'tool-output-available', toolCallId, output: shown(output), providerExecuted: true },
    ...(image === undefined
      ? []
      : [{ type: 'file' as const, url: `data:${mediaType};base64,${image}`, mediaType }]),
  ];
}

export function contentChunks({ content }: MessageItem, key: string): ContentChunk[] {
  return content.flatMap((part, at): ContentChunk[] => {
    if (part.type === 'text')
      return (part.annotations ?? []).flatMap((one, index) => sourceOf(one, `${key}-${at}-${index}`));
    const { url } = part;
    const given = part.type === 'file' ? part.mediaType : undefined;
    const other = part.type === 'file' ? 'application/octet-stream' : 'image/png';
    return [{ type: 'file', url, mediaType: given ?? mediaTypeOf(url) ?? other }];
  });
}

function mediaTypeOf(url: string): string | undefined {
  return /^data:([\w.+-]{1,100}\/[\w.+-]{1,100})/.exec(url)?.[1];
}

function ranOf(kind: string, data: JsonObject, others: readonly JsonObject[]): Ran | undefined {
  const toolCallId = firstText(data, ['id', 'call_id', 'toolCallId']);
  const name = firstText(data, ['name', 'toolName']);
  const resultOf = (member: string) => others.find(other => other[member] === toolCallId);
  const status = { status: data.status ?? 'completed' };
  // OpenAI and xAI: one item has the call and its result.
  if (/^[\w-]{1,60}_call$/.test(kind)) {
    const input = data.input ?? data.action ?? data.queries ?? parsed(data.arguments) ?? codeIn(data);
    const output = data.results ?? data.outputs ?? data.output ?? status;
    return { toolCallId, toolName: name ?? kind.slice(0, -'_call'.length), input, output };
  }
  // Anthropic.
  if (/^(server|mcp)_tool_use$/.test(kind) && name !== undefined) {
    const output = resultOf('tool_use_id')?.content ?? status;
    return { toolCallId, toolName: name, input: data.input ?? {}, output };
  }
  // Models of the AI SDK.
  if (kind === 'tool-call' && name !== undefined) {
    const result = others.find(other => other.type === 'tool-result' && other.toolCallId === toolCallId);
    return { toolCallId, toolName: name, input: parsed(data.input) ?? {}, output: result?.result ?? status };
  }
  if (isJsonObject(data.executableCode)) {
    const { id, ...input } = data.executableCode;
    const [result] = others.flatMap(({ codeExecutionResult }) =>
      isJsonObject(codeExecutionResult) && codeExecutionResult.id === id ? [codeExecutionResult] : [],
    );
    const { id: _, ...output } = result ?? { id, ...status };
    return { toolCallId: typeof id === 'string' ? id : undefined, toolName: 'code_execution', input, output };
  }
  // Groq.
  const { executed } = data;
  if (!isJsonObject(executed)) return undefined;
  const input = parsed(executed.arguments) ?? {};
  return { toolCallId: undefined, toolName: kind, input, output: executed.output ?? status };
}

function codeIn({ code }: JsonObject): JsonValue {
  return code === undefined ? {} : { code };
}

function parsed(value: JsonValue | undefined): JsonValue | undefined {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value) as JsonValue;
  } catch {
    return value;
  }
}

/** Returns a value without the members that only its provider can read. */
function shown(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(shown);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => (OPAQUE.has(name) ? [] : [[name, shown(inner)]])),
  );
}

function dataOf({ opaque }: ProviderItem): JsonObject {
  const { data } = opaque;
  if (!isJsonObject(data)) return {};
  for (const name of ['item', 'block', 'part']) {
    const inner = data[name];
    if (isJsonObject(inner)) return inner;
  }
  return data;
}

/** `source-url` if it has an `http` URL, else `source-document`. OpenRouter nests it in `url_citation`, Gemini in `web` or `retrievedContext`. */
function sourceOf(annotation: JsonValue, sourceId: string): ContentChunk[] {
  if (!isJsonObject(annotation)) return [];
  const nested = [annotation.url_citation, annotation.web, annotation.retrievedContext].find(isJsonObject);
  const cited = nested ?? annotation;
  const url = firstText(cited, ['url', 'uri', 'source']);
  const title = firstText(cited, ['title', 'document_title', 'filename', 'cited_text']);
  if (url !== undefined && /^https?:\/\//.test(url))
    return [{ type: 'source-url', sourceId, url, ...omitUndefined({ title }) }];
  if (title === undefined) return [];
  const filename = firstText(cited, ['filename']);
  const mediaType = firstText(cited, ['media_type', 'mediaType']) ?? 'text/plain';
  return [{ type: 'source-document', sourceId, mediaType, title, ...omitUndefined({ filename }) }];
}

function firstText(object: JsonObject, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = object[name];
    if (typeof value === 'string' && value !== '') return value;
  }
  return undefined;
}
