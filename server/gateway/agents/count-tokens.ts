import { partsOfResult } from '../../../adapters/turn/content.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { textOfParts } from '../../../protocol/content/read-content.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { Item, Part } from '../../../protocol/item.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';

/** The provider's count, or an estimate where it or the server at its URL cannot count. Rejects with a `ProviderError`. */
export async function countTokens(adapter: ModelAdapter, request: ModelRequest): Promise<number> {
  if (adapter.countTokens === undefined) return estimateTokens(request);
  try {
    return await adapter.countTokens(request, { signal: new AbortController().signal });
  } catch (error) {
    if (error instanceof ProviderError && NOT_THERE.includes(error.status)) return estimateTokens(request);
    throw error;
  }
}

const NOT_THERE: readonly (number | null)[] = [404, 405, 501];

/** Rules of thumb for English and for media of the usual sizes. */
const BYTES_PER_TOKEN = 4;
const TOKENS_PER_ITEM = 4;
const TOKENS_PER_MEDIA = 1_000;

function estimateTokens({ instructions = '', transcript, tools, output }: ModelRequest): number {
  const items = transcript.map(contentOf);
  const texts = [
    instructions,
    ...tools.map(tool => JSON.stringify(tool)),
    output === undefined ? '' : JSON.stringify(output.schema),
    ...items.map(({ text }) => text),
  ];
  const media = items.reduce((sum, item) => sum + item.media, 0);
  const entries = items.filter(({ text, media }) => text !== '' || media > 0).length + tools.length;
  const bytes = Buffer.byteLength(texts.join(''));
  return Math.ceil(bytes / BYTES_PER_TOKEN) + entries * TOKENS_PER_ITEM + media * TOKENS_PER_MEDIA;
}

function contentOf(item: Item): { text: string; media: number } {
  switch (item.type) {
    case 'message':
      return { text: item.content.map(textOfPart).join(''), media: mediaIn(item.content) };
    case 'reasoning':
      return { text: item.text, media: 0 };
    case 'tool_call':
      return { text: item.name + item.arguments, media: 0 };
    case 'tool_result': {
      const parts = partsOfResult(item, () => true);
      return { text: textOfParts(parts), media: mediaIn(parts) };
    }
    case 'provider_item':
      return { text: JSON.stringify(item.opaque.data), media: 0 };
    default:
      return { text: '', media: 0 };
  }
}

function textOfPart(part: Part): string {
  return part.type === 'text' ? part.text : '';
}

function mediaIn(parts: readonly Part[]): number {
  return parts.filter(({ type }) => type !== 'text').length;
}
