import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { arrayOf, textIn } from '../turn/json-access.ts';

/**
 * A section of a message's content: one thinking chunk, or all other chunks up to the next thinking chunk.
 */
export type Stretch = { type: 'thinking'; chunk: JsonObject } | { type: 'text'; chunks: JsonObject[] };

/**
 * Accumulates message content that arrives as text, as chunks, or as a mix. Adjacent chunks of one kind are
 * joined.
 */
export class ContentChunks {
  readonly stretches: Stretch[] = [];

  /** Adds a chunk and returns its readable text. */
  add(chunk: JsonObject): { type: 'text' | 'reasoning'; text: string } {
    const last = this.stretches.at(-1);
    if (chunk.type === 'thinking') {
      if (last?.type === 'thinking') last.chunk = joinedThinking(last.chunk, chunk);
      else this.stretches.push({ type: 'thinking', chunk: joinedThinking({}, chunk) });
      return { type: 'reasoning', text: thinkingText(chunk) };
    }
    const text = chunkText(chunk);
    if (last?.type === 'text') addToStretch(last.chunks, chunk);
    else if (chunk.type !== 'text' || text !== '')
      this.stretches.push({ type: 'text', chunks: [{ ...chunk }] });
    return { type: 'text', text };
  }
}

/** Returns the text of a thinking chunk. */
export function thinkingText(chunk: JsonObject): string {
  return typeof chunk.thinking === 'string'
    ? chunk.thinking
    : partsOf(chunk.thinking).map(chunkText).join('');
}

/** Returns the text of a text chunk, and the empty string for other chunks. */
export function chunkText(chunk: JsonObject): string {
  return chunk.type === 'text' ? textIn(chunk.text) : '';
}

function joinedThinking(known: JsonObject, chunk: JsonObject): JsonObject {
  if (typeof chunk.thinking === 'string') {
    return { ...known, ...chunk, thinking: textIn(known.thinking) + chunk.thinking };
  }
  const parts = partsOf(known.thinking);
  for (const part of partsOf(chunk.thinking)) addToStretch(parts, part);
  return { ...known, ...chunk, thinking: parts };
}

function partsOf(value: JsonValue | undefined): JsonObject[] {
  return arrayOf(value).filter(isJsonObject);
}

function addToStretch(chunks: JsonObject[], chunk: JsonObject): void {
  const last = chunks.at(-1);
  if (chunk.type === 'text' && last?.type === 'text') last.text = chunkText(last) + chunkText(chunk);
  else chunks.push({ ...chunk });
}
