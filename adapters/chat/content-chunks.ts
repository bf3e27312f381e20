import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { arrayOf, textIn } from '../turn/json-access.ts';

/** A stretch of a message's content: a thinking chunk, or all that stands up to the next one. */
export type Stretch = { type: 'thinking'; chunk: JsonObject } | { type: 'text'; chunks: JsonObject[] };

/** The content of a message that comes as text, as chunks, or as both by turns; neighbours of one kind are joined. */
export class ContentChunks {
  readonly stretches: Stretch[] = [];

  /** Takes a chunk in; what of it is readable. */
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

export function thinkingText(chunk: JsonObject): string {
  return typeof chunk.thinking === 'string'
    ? chunk.thinking
    : partsOf(chunk.thinking).map(chunkText).join('');
}

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
