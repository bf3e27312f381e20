import type { QualifiedCall } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { refusalOf, textOf } from '../../protocol/message.ts';
import { filterTexts, type TextFilter } from '../../text/text-filter.ts';
import type { TextPart, TurnPart } from './story-event.ts';

/** Text or reasoning as deltas deliver it. A refusal ends a text: more text is another one. */
export type StreamedPart = { kind: 'text' | 'reasoning'; text: string; isRefused: boolean };

/** How the texts of a turn are shown. */
export type Visibility = { text: boolean; reasoning: boolean; filters: readonly (() => TextFilter)[] };

/**
 * The parts of a turn, in the model's order. Messages that only calls or items of the provider separate are one text, and
 * so is reasoning, because deltas do not tell them apart either. With `exact`, for readers who take no deltas, items of the
 * provider separate them.
 */
export function partsOf(
  { items, calls }: { items: readonly Item[]; calls: readonly QualifiedCall[] },
  visible: Visibility,
  { exact = false }: { exact?: boolean } = {},
): TurnPart[] {
  const parts: TurnPart[] = [];
  const byId = new Map(calls.map(call => [call.callId, call]));
  let last: TextPart | null = null;
  for (const item of items) {
    switch (item.type) {
      case 'message': {
        const text = textOf(item);
        const refusal = refusalOf(item);
        if (last?.kind === 'text' && (text === '' || last.refusal === '')) {
          last.items.push(item);
          last.refusal += refusal;
        } else if (text !== '' || refusal !== '') {
          last = { kind: 'text', part: null, text: '', refusal, items: [item] };
          parts.push(last);
        } else parts.push({ kind: 'text', part: null, text: '', refusal, items: [item] });
        break;
      }
      case 'reasoning':
        if (last?.kind === 'reasoning') {
          last.items.push(item);
          last.text += item.text;
        } else if (item.text !== '' || item.opaque !== undefined) {
          last = { kind: 'reasoning', part: null, text: item.text, items: [item] };
          parts.push(last);
        }
        break;
      case 'tool_call': {
        const call = byId.get(item.callId);
        parts.push({ kind: 'call', item, ...(call !== undefined && { call }) });
        break;
      }
      default:
        parts.push({ kind: 'item', item });
        if (exact) last = null;
    }
  }
  showTexts(parts, visible);
  return parts;
}

/** Filters the texts and numbers what readers see. */
function showTexts(parts: readonly TurnPart[], { text, reasoning, filters }: Visibility): void {
  const texts = parts.filter(part => part.kind === 'text');
  const shown = filterTexts(
    texts.map(({ items }) => items.map(textOf).join('')),
    filters,
  );
  for (const [place, part] of texts.entries()) part.text = shown[place] ?? '';
  let number = 0;
  for (const part of parts) {
    if (part.kind !== 'text' && part.kind !== 'reasoning') continue;
    const isSeen = part.kind === 'text' ? text && hasWords(part) : reasoning;
    if (isSeen) part.part = number++;
  }
}

function hasWords({ text, refusal }: Extract<TurnPart, { kind: 'text' }>): boolean {
  return text !== '' || refusal !== '';
}

/**
 * Numbers the parts as they were streamed, those that were not streamed after them. Returns false if a streamed text is
 * not the beginning of its part.
 */
export function alignParts(parts: readonly TurnPart[], streamed: readonly StreamedPart[]): boolean {
  const seen = parts.filter(
    part => (part.kind === 'text' || part.kind === 'reasoning') && part.part !== null,
  );
  const open = seen.filter((part): part is TextPart => part.kind === 'text' || part.kind === 'reasoning');
  const numbers = new Map<TextPart, number>();
  for (const [number, { kind, text }] of streamed.entries()) {
    const match = open.find(
      part =>
        part.kind === kind && !numbers.has(part) && (text === '' || part.text !== '' || kind === 'text'),
    );
    if (match === undefined ? text !== '' : !match.text.startsWith(text)) return false;
    if (match !== undefined) numbers.set(match, number);
  }
  let next = streamed.length;
  for (const part of open) part.part = numbers.get(part) ?? next++;
  return true;
}
