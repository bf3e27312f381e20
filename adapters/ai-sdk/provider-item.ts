import type {
  LanguageModelV4Content,
  LanguageModelV4Message,
  LanguageModelV4ToolResultOutput,
} from '@ai-sdk/provider';
import type { ProviderItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, toJson } from '../../protocol/json.ts';
import { jsonIn, objectOf, textIn } from '../turn/json-access.ts';
import { base64Of } from './generated-file.ts';

type AssistantPart = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'][number];

/** Content that is for the provider alone: what it ran, its sources, its custom parts. */
export function providerItem(provider: string, content: LanguageModelV4Content): ProviderItem {
  const kind = content.type === 'custom' ? content.kind : content.type;
  return { type: 'provider_item', kind, opaque: { provider, data: { part: toJson(plain(content)) } } };
}

/** As JSON can carry it. The id of a source is made up by the AI SDK, another one each time. */
function plain(content: LanguageModelV4Content): object {
  if (content.type === 'source') {
    const { id: _, ...source } = content;
    return source;
  }
  if (content.type !== 'reasoning-file' || content.data.type !== 'data') return content;
  return { ...content, data: { type: 'data', data: base64Of(content.data.data) } };
}

/** The parts a provider's own item goes back as; sources and requests for approval are for readers only. */
export function partOfProviderItem({ opaque }: ProviderItem): AssistantPart[] {
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
      return [{ type: 'tool-result', ...call, output: outputOf(part), ...own }];
    case 'custom':
      return [{ type: 'custom', kind: textIn(part.kind) as `${string}.${string}`, ...own }];
    case 'reasoning-file':
      return [{ type: 'reasoning-file', mediaType: textIn(part.mediaType), data: dataOf(part.data), ...own }];
    default:
      return [];
  }
}

function outputOf({ result, isError }: JsonObject): LanguageModelV4ToolResultOutput {
  const value = result ?? null;
  if (isError === true) return { type: 'error-json', value };
  return typeof value === 'string' ? { type: 'text', value } : { type: 'json', value };
}

type FileData = Extract<AssistantPart, { type: 'reasoning-file' }>['data'];

function dataOf(value: JsonValue | undefined): FileData {
  const { type, data, url } = objectOf(value);
  return type === 'url' ? { type, url: new URL(textIn(url)) } : { type: 'data', data: textIn(data) };
}
