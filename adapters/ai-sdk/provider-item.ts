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

/** Converts content without a portable form to an item: the provider's own tools, sources, custom parts. */
export function providerItem(provider: string, content: LanguageModelV4Content): ProviderItem {
  const kind = content.type === 'custom' ? content.kind : content.type;
  return { type: 'provider_item', kind, opaque: { provider, data: { part: toJson(serializable(content)) } } };
}

/**
 * Returns the content in a form that JSON can represent. The id of a source is dropped: the AI SDK generates
 * it anew each time.
 */
function serializable(content: LanguageModelV4Content): object {
  if (content.type === 'source') {
    const { id: _, ...source } = content;
    return source;
  }
  if (content.type !== 'reasoning-file' || content.data.type !== 'data') return content;
  return { ...content, data: { type: 'data', data: base64Of(content.data.data) } };
}

/** Returns the prompt parts for a provider item. Sources and approval requests are not sent back. */
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
