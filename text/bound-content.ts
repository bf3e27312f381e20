import { type ContentOutput, describeMedia } from '../protocol/content/read-content.ts';
import type { Part } from '../protocol/item.ts';
import type { JsonValue } from '../protocol/json.ts';
import { cutText, fitsBytes, MODEL_READS_BYTES, utf8Length } from './cut-text.ts';

/** Content of at most `maxBytes` without `data`: whole media that fit, notes for others, texts cut. */
export function boundContent({ parts }: ContentOutput, maxBytes: number): JsonValue {
  let left = maxBytes - JSON.stringify({ type: 'content', parts: [] }).length;
  const kept = parts.map(part => {
    const bound = boundPart(part, left);
    left -= utf8Length(JSON.stringify(bound)) + ','.length;
    return bound;
  });
  if (left >= 0) return { type: 'content', parts: kept };
  const described = parts.map(part => (part.type === 'text' ? part.text : noteOf(part)));
  return cutText(described.join('\n'), Math.min(maxBytes, MODEL_READS_BYTES));
}

function boundPart(part: Part, maxBytes: number): Part {
  if (part.type === 'text') {
    const room = Math.min(maxBytes, MODEL_READS_BYTES) - JSON.stringify({ type: 'text', text: '' }).length;
    return { type: 'text', text: cutText(part.text, Math.max(0, room)) };
  }
  return fitsBytes(part.url, maxBytes) && fitsBytes(JSON.stringify(part), maxBytes)
    ? part
    : { type: 'text', text: noteOf(part) };
}

function noteOf(part: Exclude<Part, { type: 'text' }>): string {
  return `[The tool returned a part that is too large to show: ${describeMedia(part)}.]`;
}
