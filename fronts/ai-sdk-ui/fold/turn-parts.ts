import type { RunEvent } from '../../../protocol/event.ts';
import type { Item, Part } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import type { ContentChunk } from '../chunk.ts';

type Turn = Extract<RunEvent, { type: 'turn.completed' }>;

/** What a completed turn shows, in order. */
export type TurnPart =
  | { type: 'text' | 'reasoning'; text: string }
  | { type: 'call'; call: Turn['calls'][number] }
  | { type: 'chunks'; chunks: ContentChunk[] };

/** Which texts of a turn readers see, and how. */
export type Visibility = { text: boolean; reasoning: boolean; showText(text: string): string };

/**
 * The parts of a turn: at most one reasoning and one text, its calls, its sources and files, and the tools that the
 * provider ran. `key` makes the ids of its sources and tools unique.
 */
export function partsOfTurn(turn: Turn, visible: Visibility, key: string): TurnPart[] {
  const parts: TurnPart[] = [];
  const has = (type: string) => parts.some(part => part.type === type);
  const calls = new Map(turn.calls.map(call => [call.callId, call]));
  for (const [index, item] of turn.items.entries()) {
    switch (item.type) {
      case 'reasoning':
        if (visible.reasoning && !has('reasoning')) addText(parts, 'reasoning', reasoningOf(turn.items));
        break;
      case 'message':
        if (visible.text && !has('text')) addText(parts, 'text', visible.showText(turn.text));
        if (visible.text)
          addChunks(
            parts,
            item.content.flatMap((part, at) => partChunks(part, `${key}-${index}-${at}`)),
          );
        break;
      case 'tool_call': {
        const call = calls.get(item.callId);
        if (call !== undefined) parts.push({ type: 'call', call });
        calls.delete(item.callId);
        break;
      }
      case 'provider_item':
        addChunks(parts, providerChunks(item, turn.items, `${key}-${index}`));
        break;
      default:
        break;
    }
  }
  if (visible.text && !has('text')) addText(parts, 'text', visible.showText(turn.text));
  for (const call of calls.values()) parts.push({ type: 'call', call });
  return parts;
}

function addText(parts: TurnPart[], type: 'text' | 'reasoning', text: string): void {
  if (text !== '') parts.push({ type, text });
}

function addChunks(parts: TurnPart[], chunks: ContentChunk[]): void {
  if (chunks.length > 0) parts.push({ type: 'chunks', chunks });
}

function reasoningOf(items: readonly Item[]): string {
  return items.map(item => (item.type === 'reasoning' ? item.text : '')).join('');
}

function partChunks(part: Part, key: string): ContentChunk[] {
  switch (part.type) {
    case 'text':
      return (part.annotations ?? []).flatMap((annotation, index) => sourceOf(annotation, `${key}-${index}`));
    case 'image':
      return [{ type: 'file', url: part.url, mediaType: mediaTypeOf(part.url) ?? 'image/png' }];
    case 'file':
      return [
        {
          type: 'file',
          url: part.url,
          mediaType: part.mediaType ?? mediaTypeOf(part.url) ?? 'application/octet-stream',
        },
      ];
  }
}

function mediaTypeOf(url: string): string | undefined {
  return /^data:([\w.+-]{1,100}\/[\w.+-]{1,100})/.exec(url)?.[1];
}

/** A provider's citation: of a page if it has an `http` URL, else of a document if it has a title. */
function sourceOf(annotation: JsonValue, sourceId: string): ContentChunk[] {
  if (!isJsonObject(annotation)) return [];
  const cited = isJsonObject(annotation.url_citation) ? annotation.url_citation : annotation;
  const url = firstText(cited, ['url', 'uri', 'source']);
  const title = firstText(cited, ['title', 'document_title', 'filename', 'cited_text']);
  if (url !== undefined && /^https?:\/\//.test(url))
    return [{ type: 'source-url', sourceId, url, ...(title !== undefined && { title }) }];
  if (title === undefined) return [];
  const filename = firstText(cited, ['filename']);
  const mediaType = firstText(cited, ['media_type', 'mediaType']) ?? 'text/plain';
  return [
    { type: 'source-document', sourceId, mediaType, title, ...(filename !== undefined && { filename }) },
  ];
}

function firstText(object: JsonObject, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = object[name];
    if (typeof value === 'string' && value !== '') return value;
  }
  return undefined;
}

/** A tool that the provider ran, with the parts of its item that are no provider's secret. */
function providerChunks(
  item: Extract<Item, { type: 'provider_item' }>,
  items: readonly Item[],
  key: string,
): ContentChunk[] {
  const data = dataOf(item);
  const toolName = toolNameOf(item.kind, data);
  if (toolName === undefined) return [];
  const toolCallId = firstText(data, ['id', 'call_id']) ?? key;
  const input =
    data.input ?? data.action ?? data.queries ?? (data.code === undefined ? {} : { code: data.code });
  const result = items
    .map(one => (one.type === 'provider_item' ? dataOf(one) : {}))
    .find(one => one.tool_use_id === toolCallId);
  const output = result?.content ??
    data.results ??
    data.outputs ??
    data.output ?? { status: data.status ?? 'completed' };
  return [
    { type: 'tool-input-available', toolCallId, toolName, input, providerExecuted: true },
    { type: 'tool-output-available', toolCallId, output, providerExecuted: true },
  ];
}

function dataOf({ opaque }: Extract<Item, { type: 'provider_item' }>): JsonObject {
  const { data } = opaque;
  if (!isJsonObject(data)) return {};
  for (const name of ['item', 'block', 'part']) {
    const inner = data[name];
    if (isJsonObject(inner)) return inner;
  }
  return data;
}

function toolNameOf(kind: string, data: JsonObject): string | undefined {
  if (/^[\w-]{1,60}_call$/.test(kind)) return kind.slice(0, -'_call'.length);
  return /^(server|mcp)_tool_use$/.test(kind) ? firstText(data, ['name']) : undefined;
}
