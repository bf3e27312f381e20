import { partsOfResult } from '../../../adapters/turn/content.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { textOfParts } from '../../../protocol/content/read-content.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { Item, Part } from '../../../protocol/item.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';

/**
 * The input tokens of a request: the provider's count, or else an estimate (`estimateTokens`), where the provider or the
 * server at its URL cannot count. Rejects with a `ProviderError` for every other failure.
 */
export async function countTokens(
  adapter: ModelAdapter,
  request: ModelRequest,
  { signal = new AbortController().signal }: { signal?: AbortSignal } = {},
): Promise<number> {
  if (adapter.countTokens === undefined) return estimateTokens(request);
  try {
    return await adapter.countTokens(request, { signal });
  } catch (error) {
    if (error instanceof ProviderError && NOT_THERE.includes(error.status)) return estimateTokens(request);
    throw error;
  }
}

const NOT_THERE: readonly (number | null)[] = [404, 405, 501];

/** Rules of thumb for English text and for the usual sizes of images and files. */
const BYTES_PER_TOKEN = 4;
const TOKENS_PER_ITEM = 4;
const TOKENS_PER_MEDIA = 1_000;

function estimateTokens({ instructions = '', transcript, tools, output }: ModelRequest): number {
  const definitions = tools.map(tool => JSON.stringify(tool));
  const texts = [instructions, ...definitions, output === undefined ? '' : JSON.stringify(output.schema)];
  const items = transcript.map(contentOf);
  texts.push(...items.map(({ text }) => text));
  const media = items.reduce((sum, item) => sum + item.media, 0);
  const entries = items.filter(({ text, media }) => text !== '' || media > 0).length + tools.length;
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return Math.ceil(bytes / BYTES_PER_TOKEN) + entries * TOKENS_PER_ITEM + media * TOKENS_PER_MEDIA;
}

function contentOf(item: Item): { text: string; media: number } {
  switch (item.type) {
    case 'message':
      return { text: item.content.map(textOfPart).join(''), media: item.content.filter(isMedia).length };
    case 'reasoning':
      return { text: item.text, media: 0 };
    case 'tool_call':
      return { text: item.name + item.arguments, media: 0 };
    case 'tool_result': {
      const parts = partsOfResult(item, () => true);
      return { text: textOfParts(parts), media: parts.filter(isMedia).length };
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

function isMedia({ type }: Part): boolean {
  return type !== 'text';
}
