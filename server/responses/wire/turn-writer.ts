import type { Item, Part, ProviderItem } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { refusalOf, textOf } from '../../../protocol/message.ts';
import type { Skipped } from '../../../protocol/turn.ts';
import { compactionOf, isUpstreamCompaction } from '../compaction/compaction-items.ts';
import { sealOpaque } from './opaque-seal.ts';
import { prefixOf, writeProviderItem } from './provider-items.ts';
import type { ResponseWriter } from './response-writer.ts';
import { type ItemKind, itemIdOf } from './wire-ids.ts';

/**
 * Adjacent messages or adjacent reasoning of a turn, which are one item in the Responses API. A refusal ends the text of
 * a message: text after it is another item.
 */
type TextBlock = { kind: 'message' | 'reasoning'; place: number; text: string; items: Item[] };
/** A call that the provider ran. */
type ProviderBlock = { kind: 'provider'; prefix: ItemKind; place: number; item: ProviderItem };
export type Block = TextBlock | ProviderBlock;

/** The words with which a provider refused, if they are apart from the text of the message; otherwise empty. */
export function refusalIn(items: readonly Item[]): string {
  return items.map(refusalOf).join('');
}

/** The blocks of a turn, in order. Reasoning without text counts only if `sealed`. */
export function blocksIn(items: readonly Item[], { sealed }: { sealed: boolean }): Block[] {
  const blocks: Block[] = [];
  const places = { message: 0, reasoning: 0 };
  for (const item of items) {
    const prefix = prefixOf(item);
    if (item.type === 'provider_item' && prefix !== undefined) {
      const place = blocks.filter(block => block.kind === 'provider' && block.prefix === prefix).length;
      blocks.push({ kind: 'provider', prefix, place, item });
    }
    if (item.type !== 'message' && item.type !== 'reasoning') continue;
    const text = item.type === 'message' ? textOf(item) : item.text;
    const isSealed = sealed && item.type === 'reasoning' && item.opaque !== undefined;
    if (text === '' && refusalIn([item]) === '' && !isSealed) continue;
    const last = blocks.at(-1);
    const isEnded = text !== '' && last?.kind === 'message' && refusalIn(last.items) !== '';
    if (last !== undefined && last.kind !== 'provider' && last.kind === item.type && !isEnded) {
      last.text += text;
      last.items.push(item);
    } else {
      blocks.push({ kind: item.type, place: places[item.type]++, text, items: [item] });
    }
  }
  return blocks;
}

/** The status of a closed item. */
type ItemStatus = 'completed' | 'incomplete';

/** The compaction items that the provider made in a turn. */
function compactionsIn(items: readonly Item[]): JsonObject[] {
  return items.filter(isUpstreamCompaction).map(item => compactionOf(item) ?? {});
}

type Opened = {
  kind: TextBlock['kind'];
  id: string;
  index: number;
  streamed: string;
  /** Whether its content part was announced. */
  begun: boolean;
  closed: boolean;
};

/**
 * Writes the messages and reasoning of one turn, while it streams and when it is complete, and the calls that the
 * provider ran, when it is complete.
 *
 * T1 Streamed and unstreamed turns produce the same items, ids and order.
 * T2 The deltas of an item add up to the final item. A failed attempt leaves its items as incomplete, because clients
 *    cannot take back streamed text; the next attempt writes new items.
 */
export class TurnWriter {
  readonly #writer: ResponseWriter;
  readonly #runId: string;
  readonly #turn: number;
  readonly #sealed: boolean;
  /** The number of failed attempts of the turn. */
  #retry: number;
  #opened: Opened[] = [];
  /** The index of the item that is being streamed. */
  #at = -1;
  /** The number of reasoning items without text so far that have an item. */
  #seals = 0;
  /** The number of refusals so far, and the index of the item with the last; without one, an index of no item. */
  #refusals = 0;
  #refusedAt = -2;

  constructor(
    writer: ResponseWriter,
    options: { runId: string; turn: number; retry: number; sealed: boolean },
  ) {
    this.#writer = writer;
    this.#runId = options.runId;
    this.#turn = options.turn;
    this.#sealed = options.sealed;
    this.#retry = options.retry;
  }

  /** Writes a piece of streamed text, with what the stream skipped before it. */
  take(kind: TextBlock['kind'], text: string, { refusals = 0, sealed = [] }: Skipped = {}): void {
    for (const before of this.#sealed ? sealed.slice(this.#seals) : []) {
      this.#makePlaceForRefusal(before);
      this.#makePlaceFor('reasoning');
      this.#seals += 1;
    }
    this.#makePlaceForRefusal(refusals);
    const current = this.#opened[this.#at];
    const isEnded = kind === 'message' && this.#at === this.#refusedAt;
    if (current?.kind !== kind || isEnded) {
      this.#leaveItem();
    }
    const opened = this.#opened[this.#at] ?? this.#open(kind);
    if (opened.closed || opened.kind !== kind) return;
    opened.streamed += text;
    this.#writeDelta(opened, text);
  }

  /** A refusal belongs to the message before it, or to one of its own. Its words come with the completed turn. */
  #makePlaceForRefusal(refusals: number): void {
    if (refusals <= this.#refusals) return;
    this.#refusals = refusals;
    this.#makePlaceFor('message');
    this.#refusedAt = this.#at;
  }

  #makePlaceFor(kind: TextBlock['kind']): void {
    if (this.#opened[this.#at]?.kind === kind) return;
    this.#leaveItem();
    this.#open(kind);
  }

  #leaveItem(): void {
    const current = this.#opened[this.#at];
    if (current?.kind === 'reasoning' && !this.#sealed && !current.closed)
      this.#close(current, current.streamed, []);
    this.#at += 1;
  }

  /** Closes the items of a failed attempt as incomplete. The next attempt opens new items. */
  discard(): void {
    this.abandon();
    this.#at = -1;
    this.#seals = 0;
    this.#refusals = 0;
    this.#refusedAt = -2;
    this.#opened = [];
  }

  /** Discards a failed attempt and starts the next one; `retry` counts from 1. */
  tryAgain(retry: number): void {
    this.discard();
    this.#retry = retry;
  }

  /** Writes the rest of the completed turn and closes its items, the last one with the `last` status. */
  finish(items: readonly Item[], { last }: { last: ItemStatus }): void {
    for (const [place, item] of compactionsIn(items).entries()) this.#writeCompaction(item, place);
    const blocks = blocksIn(items, { sealed: this.#sealed });
    const statusAt = (at: number) => (at === blocks.length - 1 ? last : 'completed');
    const streamed = [...this.#opened];
    for (const [at, block] of blocks.entries()) {
      if (block.kind === 'provider') {
        this.#writeProvider(block);
        continue;
      }
      const { kind, text, items: from } = block;
      // What has no text was not streamed, unless a place was made for it.
      const first = streamed.findIndex(opened => opened.kind === kind);
      const isPlace = streamed[first]?.streamed === '';
      const known = text === '' && !isPlace ? -1 : first;
      const [opened = this.#open(kind)] = known === -1 ? [] : streamed.splice(known, 1);
      if (opened.closed) continue;
      const rest = text.startsWith(opened.streamed) ? text.slice(opened.streamed.length) : '';
      if (rest !== '') this.#writeDelta(opened, rest);
      this.#close(opened, text, from, statusAt(at));
    }
    for (const opened of this.#opened) if (!opened.closed) this.#close(opened, opened.streamed, []);
  }

  /** Closes the items of a turn that was not completed. */
  abandon(): void {
    for (const opened of this.#opened) {
      if (!opened.closed) this.#close(opened, opened.streamed, [], 'incomplete');
    }
  }

  #writeProvider({ prefix, place, item }: ProviderBlock): void {
    const id = itemIdOf({ kind: prefix, runId: this.#runId, turn: this.#turn, place });
    writeProviderItem(this.#writer, item, id);
  }

  #open(kind: TextBlock['kind']): Opened {
    const place = this.#opened.filter(opened => opened.kind === kind).length;
    const prefix = kind === 'message' ? 'msg' : 'rs';
    const id = itemIdOf({ kind: prefix, runId: this.#runId, turn: this.#turn, place, retry: this.#retry });
    const item: JsonObject =
      kind === 'message'
        ? { id, type: 'message', status: 'in_progress', role: 'assistant', content: [] }
        : { id, type: 'reasoning', status: 'in_progress', summary: [] };
    const index = this.#writer.open(item);
    const opened = { kind, id, index, streamed: '', begun: false, closed: false };
    this.#opened.push(opened);
    return opened;
  }

  #writeCompaction(compaction: JsonObject, place: number): void {
    const id = itemIdOf({ kind: 'cmp', runId: this.#runId, turn: this.#turn, place });
    const { encrypted_content = '' } = compaction;
    const item = { id, type: 'compaction', encrypted_content };
    this.#writer.close(this.#writer.open(item), item);
  }

  #begin(opened: Opened): void {
    if (opened.begun) return;
    opened.begun = true;
    if (opened.kind === 'message') {
      const part = { type: 'output_text', text: '', annotations: [], logprobs: [] };
      this.#writer.write('response.content_part.added', { ...placeOf(opened), part });
    } else {
      const part = { type: 'summary_text', text: '' };
      this.#writer.write('response.reasoning_summary_part.added', { ...summaryOf(opened), part });
    }
  }

  #writeDelta(opened: Opened, text: string): void {
    if (text === '') return;
    this.#begin(opened);
    if (opened.kind === 'message') {
      this.#writer.write('response.output_text.delta', { ...placeOf(opened), delta: text, logprobs: [] });
    } else {
      this.#writer.write('response.reasoning_summary_text.delta', { ...summaryOf(opened), delta: text });
    }
  }

  #close(opened: Opened, text: string, items: readonly Item[], status: ItemStatus = 'completed'): void {
    opened.closed = true;
    if (opened.kind === 'message') this.#closeMessage(opened, text, items, status);
    else this.#closeReasoning(opened, text, items, status);
  }

  #closeMessage(opened: Opened, text: string, items: readonly Item[], status: ItemStatus): void {
    const refusal = refusalIn(items);
    const content: JsonObject[] = [];
    if (text !== '' || refusal === '') {
      this.#begin(opened);
      const part = { type: 'output_text', text, annotations: annotationsOf(items), logprobs: [] };
      this.#writer.write('response.output_text.done', { ...placeOf(opened), text, logprobs: [] });
      this.#writer.write('response.content_part.done', { ...placeOf(opened), part });
      content.push(part);
    }
    if (refusal !== '') content.push(this.#writeRefusal(refusal, placeOf(opened, content.length)));
    this.#writer.close(opened.index, {
      id: opened.id,
      type: 'message',
      status,
      role: 'assistant',
      content,
      ...phaseOf(items),
    });
  }

  #writeRefusal(refusal: string, place: JsonObject): JsonObject {
    const part = { type: 'refusal', refusal };
    this.#writer.write('response.content_part.added', { ...place, part: { ...part, refusal: '' } });
    this.#writer.write('response.refusal.delta', { ...place, delta: refusal });
    this.#writer.write('response.refusal.done', { ...place, refusal });
    this.#writer.write('response.content_part.done', { ...place, part });
    return part;
  }

  #closeReasoning(opened: Opened, text: string, items: readonly Item[], status: ItemStatus): void {
    const summary: JsonObject[] = opened.begun ? [{ type: 'summary_text', text }] : [];
    for (const part of summary) {
      this.#writer.write('response.reasoning_summary_text.done', { ...summaryOf(opened), text });
      this.#writer.write('response.reasoning_summary_part.done', { ...summaryOf(opened), part });
    }
    this.#writer.close(opened.index, {
      id: opened.id,
      type: 'reasoning',
      status,
      summary,
      ...omitUndefined({ encrypted_content: this.#sealed ? sealOpaque(items) : undefined }),
    });
  }
}

function placeOf({ id, index }: Opened, content_index = 0): JsonObject {
  return { item_id: id, output_index: index, content_index };
}

function summaryOf({ id, index }: Opened): JsonObject {
  return { item_id: id, output_index: index, summary_index: 0 };
}

function annotationsOf(items: readonly Item[]): JsonValue[] {
  const parts: Part[] = items.flatMap(item => (item.type === 'message' ? item.content : []));
  return parts.flatMap(part => (part.type === 'text' ? (part.annotations ?? []) : []));
}

/** The provider's phase of the message, if it has one. */
function phaseOf(items: readonly Item[]): JsonObject {
  const [first, second] = items;
  if (first?.type !== 'message' || second !== undefined) return {};
  const data = first.opaque?.data;
  return isJsonObject(data) && typeof data.phase === 'string' ? { phase: data.phase } : {};
}
