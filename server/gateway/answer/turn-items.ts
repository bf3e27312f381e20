import { isKnownItem } from '../../../adapters/responses/item-kinds.ts';
import type { Item, ProviderItem, ReasoningItem, ToolCallItem } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import { BUILTIN_KINDS, type BuiltinKind } from '../../builtins/builtin-schemas.ts';
import { providerCompaction } from '../request/compaction-items.ts';
import { OPENAI } from '../request/gateway-request.ts';
import { isSignedCall, sealReasoning } from '../request/sealed-items.ts';
import { type AnswerEvent, refusalIn } from './answer-event.ts';
import { ITEM_KINDS, type ItemKind, itemIdOf } from './wire-ids.ts';

/** Adjacent messages or reasoning of a turn are one item. A refusal ends the text of a message. */
type TextBlock = { kind: 'message' | 'reasoning'; place: number; text: string; items: Item[] };
type ProviderBlock = { kind: 'provider'; as: ItemKind; place: number; item: ProviderItem };
type Block = TextBlock | ProviderBlock;

/** Of OpenAI's API, with its item there; `undefined` for items that clients do not see. `as`: the kind of its id. */
export function providedItem({
  kind,
  opaque: { data },
}: ProviderItem): { builtin?: BuiltinKind; as: ItemKind; item: JsonObject } | undefined {
  const builtin = BUILTIN_KINDS.find(each => kind === `${each}_call`);
  const item = isJsonObject(data) ? data.item : undefined;
  if (!isJsonObject(item)) return undefined;
  if (builtin !== undefined) return { builtin, as: ITEM_KINDS[builtin], item };
  return isKnownItem(kind) ? { as: 'pi', item } : undefined;
}

/** The members of a call that its name and arguments do not have. */
export function callMembers({ opaque }: ToolCallItem): JsonObject | undefined {
  const data = opaque?.provider === OPENAI && isJsonObject(opaque.data) ? opaque.data : {};
  const { caller, namespace } = data;
  return caller === undefined && namespace === undefined ? undefined : omitUndefined({ caller, namespace });
}

/** In order. Reasoning without text counts only if `sealed`. */
export function blocksIn(items: readonly Item[], { sealed }: { sealed: boolean }): Block[] {
  const blocks: Block[] = [];
  const places = { message: 0, reasoning: 0 };
  for (const item of items) {
    const as = item.type === 'provider_item' ? providedItem(item)?.as : undefined;
    if (item.type === 'provider_item' && as !== undefined) {
      const place = blocks.filter(block => block.kind === 'provider' && block.as === as).length;
      blocks.push({ kind: 'provider', as, place, item });
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

/** `rest`: the end of the text, which no delta carried. */
type Opened = {
  kind: TextBlock['kind'];
  part: number;
  id: string;
  text: string;
  rest: string;
  isClosed: boolean;
};

type Piece = { type: 'text' | 'reasoning'; part: number; text: string; late?: true; refused?: true };

/**
 * The texts and the reasoning of one turn as items of an answer, while it streams and when it is complete, and then the
 * calls that the provider ran.
 *
 * T1 Streamed and unstreamed turns have the same items, ids and order.
 * T2 The pieces of an item add up to its text. A failed attempt leaves its items as incomplete, because clients cannot
 *    take back streamed text; the next attempt has new items.
 */
export class TurnItems {
  readonly #emit: (event: AnswerEvent) => void;
  readonly #place: { runId: string; turn: number };
  readonly #sealed: boolean;
  readonly #stored: boolean;
  readonly #firstMessage: number;
  #retry: number;
  #opened: Opened[] = [];
  /** Complete reasoning that no item has been closed with. */
  #ended: ReasoningItem[] = [];
  /** Whether reasoning that clients do not see came after the last piece. */
  #isApart = false;
  /** Whether the pieces that follow repeat what clients have, and cannot take back. */
  #repeats = false;

  constructor(
    emit: (event: AnswerEvent) => void,
    {
      retry,
      sealed,
      stored,
      firstMessage,
      ...place
    }: {
      runId: string;
      turn: number;
      retry: number;
      sealed: boolean;
      stored: boolean;
      /** The place of the first message among those of the turn. */
      firstMessage: number;
    },
  ) {
    this.#firstMessage = firstMessage;
    this.#stored = stored;
    this.#emit = emit;
    this.#place = place;
    this.#sealed = sealed;
    this.#retry = retry;
  }

  take({ type, part, text, late, refused }: Piece): void {
    if (this.#repeats) return;
    if (late) {
      const known = this.#opened.find(opened => opened.part === part);
      if (known !== undefined) known.rest = text;
      return;
    }
    const kind = type === 'text' ? 'message' : 'reasoning';
    const last = this.#opened.at(-1);
    if (kind === 'reasoning' && text === '' && !this.#sealed) {
      this.#isApart = true;
      return;
    }
    const isSame = last?.part === part || (this.#isApart && refused !== true);
    const continues = last?.kind === kind && isSame;
    if (!continues && last?.kind === 'reasoning' && !last.isClosed) this.#closeReasoning(last);
    const opened = continues ? last : this.#open(kind, part);
    opened.part = part;
    this.#isApart = false;
    if (!opened.isClosed) this.#add(opened, text);
  }

  /** Reasoning that is complete before what follows it has begun. */
  endReasoning(item: ReasoningItem): void {
    if (!this.#repeats) this.#ended.push(item);
  }

  /** Before what follows it, because clients keep items in the order in which they end: if its seal is known by then. */
  #closeReasoning(opened: Opened): void {
    if (!this.#sealed) return this.#close(opened, []);
    const items = this.#ended;
    if (items.length === 0 || items.map(({ text }) => text).join('') !== opened.text) return;
    this.#ended = [];
    this.#close(opened, items);
  }

  /** Ignores the pieces of this attempt that follow. The turn's end closes what they would have added to. */
  repeat(): void {
    this.#repeats = true;
  }

  /** Ends a failed attempt: closes its items as incomplete. `retry`: the number of attempts before the next. */
  tryAgain(retry: number): void {
    this.abandon();
    this.#retry = retry;
    this.#repeats = false;
    this.#isApart = false;
    this.#opened = [];
    this.#ended = [];
  }

  abandon(): void {
    for (const opened of this.#opened) if (!opened.isClosed) this.#close(opened, [], 'incomplete');
  }

  finish(items: readonly Item[], { last }: { last: 'completed' | 'incomplete' }): void {
    for (const [place, item] of items
      .map(providerCompaction)
      .filter(made => made !== undefined)
      .entries()) {
      const id = itemIdOf({ ...this.#place, kind: 'cmp', place });
      this.#emit({ type: 'compaction', id, content: item.encrypted_content ?? '', item });
    }
    const blocks = blocksIn(items, { sealed: this.#sealed });
    const carrier = blocks.findLast(({ kind }) => kind === 'reasoning');
    let signed = this.#sealed && !this.#stored ? items.filter(isSignedCall) : [];
    const left = [...this.#opened];
    for (const [at, block] of blocks.entries()) {
      if (block.kind === 'provider') {
        const { as, place, item } = block;
        const { builtin, item: theirs = {} } = providedItem(item) ?? {};
        // The provider must get its own id back, which only the store could find for ours.
        const named = as === 'pi' && !this.#stored ? theirs.id : undefined;
        const id = typeof named === 'string' ? named : itemIdOf({ ...this.#place, kind: as, place });
        this.#emit({ type: 'provided', id, item: { ...theirs, id }, ...omitUndefined({ builtin }) });
        continue;
      }
      const { kind, text, items: from } = block;
      // Reasoning without text may not have been streamed.
      const place = left.findIndex(
        one => one.kind === kind && (kind === 'message' || (text === '') === (one.text === '')),
      );
      const [opened = this.#open(kind, -1)] = place === -1 ? [] : left.splice(place, 1);
      if (opened.isClosed) continue;
      this.#add(opened, opened.text === '' ? text : opened.rest);
      opened.text = text;
      const status = at === blocks.length - 1 ? last : 'completed';
      this.#close(opened, from, status, block === carrier ? signed : []);
      if (block === carrier) signed = [];
    }
    for (const opened of this.#opened) if (!opened.isClosed) this.#close(opened, []);
    if (signed.length > 0) this.#close(this.#open('reasoning', -1), [], 'completed', signed);
  }

  #open(kind: Opened['kind'], part: number): Opened {
    const before = kind === 'message' ? this.#firstMessage : 0;
    const place = before + this.#opened.filter(opened => opened.kind === kind).length;
    const prefix = kind === 'message' ? 'msg' : 'rs';
    const id = itemIdOf({ ...this.#place, kind: prefix, place, retry: this.#retry });
    const opened = { kind, part, id, text: '', rest: '', isClosed: false };
    this.#opened.push(opened);
    this.#emit({ type: 'opened', kind, id });
    return opened;
  }

  #add(opened: Opened, text: string): void {
    if (text === '') return;
    opened.text += text;
    this.#emit({ type: 'text', kind: opened.kind, id: opened.id, text });
  }

  #close(
    opened: Opened,
    items: readonly Item[],
    status: 'completed' | 'incomplete' = 'completed',
    signed: readonly Item[] = [],
  ): void {
    opened.isClosed = true;
    const { kind, id, text } = opened;
    const isSealed = this.#sealed && kind === 'reasoning';
    const closed = { type: 'closed', kind, id, text, items, status } as const;
    this.#emit(isSealed ? { ...closed, seal: sealReasoning([...items, ...signed]) } : closed);
  }
}
