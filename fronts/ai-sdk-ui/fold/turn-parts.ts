import type { RunEvent } from '../../../protocol/event.ts';
import type { Item, Part } from '../../../protocol/item.ts';
import type { ContentChunk } from '../chunk.ts';
import { providerChunks } from './provider-chunks.ts';
import { sourceOf } from './source-chunks.ts';

type Turn = Extract<RunEvent, { type: 'turn.completed' }>;

/** A part that a completed turn shows. Parts are in order. */
export type TurnPart =
  | { type: 'text' | 'reasoning'; text: string }
  | { type: 'call'; call: Turn['calls'][number] }
  | { type: 'chunks'; chunks: ContentChunk[] };

/** How the texts of a turn are shown. */
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
