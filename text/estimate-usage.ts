import type { RunConfig } from '../protocol/config.ts';
import { readContent } from '../protocol/content/read-content.ts';
import type { Item, Part } from '../protocol/item.ts';
import type { ModelRequest, ModelTurn, Usage } from '../protocol/turn.ts';
import { utf8Length } from './cut-text.ts';

/** Rules of thumb for English and for media of the usual sizes. */
const BYTES_PER_TOKEN = 4;
const TOKENS_PER_ENTRY = 4;
const TOKENS_PER_MEDIA = 1_000;

/**
 * What a turn used, as its provider says, or as an estimate; else `null`. A call of a model cannot read no tokens at all: a
 * provider that says so, or nothing of them, has not counted.
 */
export function countUsage(
  turn: Pick<ModelTurn, 'usage' | 'items'>,
  request: ModelRequest,
  { onUnknownUsage }: Pick<RunConfig, 'onUnknownUsage'>,
): Usage | null {
  const { usage } = turn;
  if (usage !== null && usage.inputTokens > 0) return usage;
  return onUnknownUsage === 'estimate' ? estimateUsage(request, turn) : null;
}

type EstimatedParts = Pick<ModelRequest, 'instructions' | 'transcript' | 'tools' | 'output'>;

/** What a turn used, from the length of what was sent and received. A request that continues a stored turn counts in full. */
export function estimateUsage(request: EstimatedParts, { items }: Pick<ModelTurn, 'items'>): Usage {
  return {
    inputTokens: estimateRequest(request),
    outputTokens: estimateRequest({ transcript: items, tools: [] }),
    cachedInputTokens: null,
    cacheWriteTokens: null,
    reasoningTokens: null,
    estimated: true,
  };
}

/**
 * Estimates the tokens of a request: one for four bytes of UTF-8, 4 more for each item and tool, and 1,000 for each
 * image or file, however large. Deferred tools are none of it.
 */
export function estimateRequest({
  instructions = '',
  transcript,
  tools: declared,
  output,
}: EstimatedParts): number {
  const tools = declared.filter(({ deferred }) => !deferred);
  const items = transcript
    .map(partsIn)
    .filter(parts => parts.some(part => part.type !== 'text' || part.text !== ''));
  const parts = items.flat();
  const texts = [
    instructions,
    ...tools.map(tool => JSON.stringify(tool)),
    output === undefined ? '' : JSON.stringify(output.schema),
    ...parts.map(part => (part.type === 'text' ? part.text : '')),
  ];
  const media = parts.filter(({ type }) => type !== 'text').length;
  const bytes = texts.reduce((sum, text) => sum + utf8Length(text), 0);
  const entries = items.length + tools.length;
  return Math.ceil(bytes / BYTES_PER_TOKEN) + entries * TOKENS_PER_ENTRY + media * TOKENS_PER_MEDIA;
}

/** What a model reads of an item. */
function partsIn(item: Item): readonly Part[] {
  switch (item.type) {
    case 'message':
      return item.content;
    case 'reasoning':
      return [textPart(item.text)];
    case 'tool_call':
      return [textPart(item.name + item.arguments)];
    case 'tool_result': {
      const { output, shown } = item;
      const parts = readContent(output)?.parts;
      if (parts === undefined)
        return [textPart(shown ?? (typeof output === 'string' ? output : JSON.stringify(output)))];
      return shown === undefined ? parts : [textPart(shown), ...parts.filter(({ type }) => type !== 'text')];
    }
    case 'provider_item':
      return [textPart(JSON.stringify(item.opaque.data))];
    default:
      return [];
  }
}

const textPart = (text: string): Part => ({ type: 'text', text });
