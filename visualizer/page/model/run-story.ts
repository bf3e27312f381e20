import type { Failure, QualifiedCall } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import type { Usage } from '../../../protocol/turn.ts';
import type { StreamedEvent } from '../data/request.ts';
import { formatOutput, formatReply } from '../render/format.ts';
import { type ActivityKind, kindOf } from './activity-kind.ts';
import { attemptKey } from './attempt-key.ts';
import type { CallEvent, CallRecord } from './call-facts.ts';
import type { Folded } from './journal-fold.ts';

/** An entry on the time line. `kind` is the activity from this entry to the next. */
export type Activity = { seq: number; at: number; kind: ActivityKind };

/** A process that died while it drove the run, seen when the next one took over. */
export type Crash = {
  seq: number;
  at: number;
  /** The last entry that the dead process wrote. */
  lastSeq: number;
  lastAt: number;
  gone: string;
  by: string;
  path: string;
  /** The calls that had started and had no result. */
  running: string[];
  /** The findings and actions of the next process about these calls, by entry. */
  followed: { seq: number; type: string; callId: string }[];
};

/** A model call that ended. */
export type TurnRecord = {
  seq: number;
  number: number;
  attempt: number;
  from: number;
  to: number;
  usage: Usage | null;
  cost: number;
  model: string;
  calls: number;
  failure: Failure | null;
};

/** One block of the conversation, as the journal has it. */
export type Block = { key: string; seq: number; at: number } & (
  | {
      kind: 'message';
      role: string;
      text: string;
      id: string | undefined;
      by: string | undefined;
      others: string[];
    }
  | {
      kind: 'reply';
      item: Item;
      attempt: string;
      preamble: boolean;
      checked: { seq: number; text: string } | null;
      /** The entry of the edit that replaced it. */
      replacedAt?: number;
    }
  | { kind: 'reasoning'; text: string }
  | { kind: 'aside'; title: string; text: string }
  | { kind: 'edit'; title: string; before: string; after: string }
  | { kind: 'call'; record: CallRecord }
  | {
      kind: 'failure';
      failure: Failure;
      attempts: { seq: number; attempt: number; key: string; hadText: boolean }[];
    }
  | { kind: 'crash'; crash: Crash }
);

/** A row of the waterfall. */
export type Row = { type: 'turn'; turn: TurnRecord } | { type: 'call'; record: CallRecord };

type Of<Type extends StreamedEvent['type']> = Extract<StreamedEvent, { type: Type }>;

/** The story of a journal, built entry by entry: the conversation, turns, calls, crashes and the time line. */
export class RunStory {
  readonly activities: Activity[] = [];
  readonly blocks: Block[] = [];
  readonly rows: Row[] = [];
  readonly calls = new Map<string, CallRecord>();
  readonly crashes: Crash[] = [];
  readonly #running = new Set<string>();
  #path = '';
  #cost = 0;
  #hasText = false;
  #turn: { text: string; calls: readonly QualifiedCall[] } = { text: '', calls: [] };

  /** The number of entries. */
  get length(): number {
    return this.activities.length;
  }

  /** The name of a call's tool. */
  nameOf(callId: string): string {
    return this.calls.get(callId)?.call.name ?? callId;
  }

  /** Adds the next entry; `folded` is the fold at it. */
  take(event: StreamedEvent, folded: Folded): void {
    if (event.type === 'run.claimed' && event.replaces !== undefined) this.#addCrash(event, event.replaces);
    this.#path = folded.path ?? this.#path;
    this.activities.push({ seq: event.seq, at: event.at, kind: kindOf(this.#path) });
    if ('callId' in event) this.#addToCall(event);
    this.#addBlocks(event, folded);
    this.#cost = folded.context?.cost ?? this.#cost;
  }

  #addCrash(event: Of<'run.claimed'>, gone: string): void {
    const before = this.activities.at(-1);
    if (before === undefined) return;
    before.kind = 'dead';
    const crash: Crash = {
      seq: event.seq,
      at: event.at,
      lastSeq: before.seq,
      lastAt: before.at,
      gone,
      by: event.by,
      path: this.#path,
      running: [...this.#running],
      followed: [],
    };
    this.crashes.push(crash);
    this.#push({ key: `crash ${event.seq}`, seq: event.seq, at: event.at, kind: 'crash', crash });
  }

  #addToCall(event: CallEvent): void {
    this.calls.get(event.callId)?.events.push(event);
    if (event.type === 'call.edited')
      this.#turn = {
        ...this.#turn,
        calls: this.#turn.calls.map(call => (call.callId === event.callId ? event.call : call)),
      };
    const { type, callId, seq } = event;
    const crash = this.crashes.at(-1);
    if (crash?.running.includes(callId) && crash.followed.length < 8)
      crash.followed.push({ seq, type, callId });
    if (type === 'tool.started') this.#running.add(callId);
    else if (type !== 'tool.interrupted' && type !== 'tool.doubted') this.#running.delete(callId);
  }

  #addBlocks(event: StreamedEvent, folded: Folded): void {
    const { seq, at } = event;
    switch (event.type) {
      case 'run.started':
        return this.#addItems(event.input, { seq, at });
      case 'message.received':
        return this.#addItems(event.items, { seq, at }, event.by);
      case 'text.started':
        this.#hasText = true;
        return;
      case 'turn.completed':
        return this.#addTurn(event, folded);
      case 'turn.failed':
        return this.#addFailure(event, folded);
      case 'finishers.completed': {
        const reply = this.blocks.findLast(block => block.kind === 'reply');
        if (reply !== undefined && event.text !== undefined) reply.checked = { seq, text: event.text };
        return;
      }
      case 'finishers.rejected':
        return this.#addAside(event, 'A finisher rejected the answer', event.feedback);
      case 'transcript.edited':
        return this.#addAside(
          event,
          `Transcript edited${authorSuffix(event)}`,
          `It now has ${event.items.length} items.`,
        );
      case 'turn.edited':
        return this.#editTurn(event, folded);
      case 'run.cancelled':
        return this.#addAside(event, `Cancelled${authorSuffix(event)}`, event.reason ?? '');
      default:
    }
  }

  #push(block: Block): void {
    this.blocks.push(block);
  }

  #addAside({ seq, at }: StreamedEvent, title: string, text: string): void {
    this.#push({ key: `${seq}`, seq, at, kind: 'aside', title, text });
  }

  #addTurn(event: Of<'turn.completed'>, folded: Folded): void {
    const { seq, at, items, calls, usage, model, startedAt } = event;
    const { turn } = folded.taken;
    const cost = (folded.context?.cost ?? this.#cost) - this.#cost;
    const { number, attempt } = turn;
    const record = { seq, number, attempt, from: startedAt, to: at, usage, cost, model, calls: calls.length };
    this.rows.push({ type: 'turn', turn: { ...record, failure: null } });
    for (const call of calls) this.#addCall(call, event, number);
    this.#turn = { text: event.text, calls };
    for (const [index, item] of items.entries()) this.#addTurnItem(item, index, event, folded);
    this.#hasText = false;
  }

  /** An edit of the latest turn: the difference, its new text, and its changed, dropped and new calls. */
  #editTurn(event: Of<'turn.edited'>, folded: Folded): void {
    const { seq, at, runId, calls, text, by } = event;
    const before = this.#turn;
    const title = `Reply edited${authorSuffix(event)}`;
    const texts = { before: formatReply(before.text, before.calls), after: formatReply(text, calls) };
    this.#push({ key: `${seq}`, seq, at, kind: 'edit', title, ...texts });
    const reply = this.blocks.findLast(block => block.kind === 'reply' || block.kind === 'message');
    const isNew = text !== before.text;
    if (isNew && reply?.kind === 'reply') reply.replacedAt = seq;
    for (const call of calls) {
      const { callId, digest } = call;
      const known = before.calls.find(one => one.callId === callId);
      if (known === undefined) this.#addCall(call, event, folded.taken.turn.number);
      else if (known.digest !== digest)
        this.#addToCall({
          type: 'call.edited',
          seq,
          at,
          runId,
          callId,
          digest,
          call,
          ...omitUndefined({ by }),
        });
    }
    for (const { callId } of before.calls) {
      const record = this.calls.get(callId);
      if (record !== undefined && calls.every(call => call.callId !== callId)) record.droppedAt = seq;
    }
    for (const [index, item] of event.items.entries())
      if (item.type === 'tool_call' || (item.type === 'message' && isNew))
        this.#addTurnItem(item, index, event, folded);
    this.#turn = { text, calls };
  }

  #addCall(call: QualifiedCall, { seq, at }: StreamedEvent, turn: number): void {
    const made: CallRecord = { call, seq, turn, madeAt: at, events: [] };
    this.calls.set(call.callId, made);
    this.rows.push({ type: 'call', record: made });
  }

  #addTurnItem(
    item: Item,
    index: number,
    { seq, at, type, calls }: Of<'turn.completed' | 'turn.edited'>,
    folded: Folded,
  ): void {
    const place = { key: `${seq}.${index}`, seq, at };
    const { turn, draft } = folded.taken;
    switch (item.type) {
      case 'message': {
        const text = textOf(item);
        if (text === '') return;
        if (draft) {
          const title = 'Draft of the planning turn (not shown to users)';
          return this.#push({ ...place, kind: 'aside', title, text });
        }
        const attempt = attemptKey({ turn: turn.number, attempt: turn.attempt });
        return this.#push({
          ...place,
          kind: 'reply',
          item,
          attempt,
          preamble: calls.length > 0,
          checked: null,
        });
      }
      case 'tool_call': {
        const record = this.calls.get(item.callId);
        if (record?.seq === seq)
          return this.#push({ ...place, key: `call ${item.callId} ${seq}`, kind: 'call', record });
        if (type === 'turn.edited') return;
        const title = `${item.name} (run by the provider)`;
        return this.#push({ ...place, kind: 'aside', title, text: item.arguments });
      }
      case 'provider_item':
        return this.#push({ ...place, kind: 'aside', title: `Provider item ${item.kind}`, text: '' });
      case 'reasoning':
        if (item.text !== '') this.#push({ ...place, kind: 'reasoning', text: item.text });
        return;
      default:
    }
  }

  #addItems(items: readonly Item[], { seq, at }: { seq: number; at: number }, by?: string): void {
    for (const [index, item] of items.entries()) this.#addItem(item, { key: `${seq}.${index}`, seq, at }, by);
  }

  #addFailure({ seq, at, error, startedAt }: Of<'turn.failed'>, folded: Folded): void {
    const { number, attempt } = folded.taken.turn;
    const place = { seq, attempt, key: attemptKey({ turn: number, attempt }), hadText: this.#hasText };
    this.#hasText = false;
    const turn = { seq, number, attempt, from: startedAt, to: at, usage: null, cost: 0, calls: 0 };
    this.rows.push({ type: 'turn', turn: { ...turn, model: error.model ?? '', failure: error } });
    const before = this.blocks.at(-1);
    if (before?.kind === 'failure' && isSameFailure(before.failure, error)) before.attempts.push(place);
    else this.#push({ key: `${seq}`, seq, at, kind: 'failure', failure: error, attempts: [place] });
  }

  #addItem(item: Item, place: { key: string; seq: number; at: number }, by?: string): void {
    switch (item.type) {
      case 'message': {
        const others = item.content.filter(part => part.type !== 'text').map(part => part.type);
        const { role, id } = item;
        return this.#push({ ...place, kind: 'message', role, id, text: textOf(item), by, others });
      }
      case 'reasoning':
        return this.#push({ ...place, kind: 'reasoning', text: item.text });
      case 'tool_call':
        return this.#push({
          ...place,
          kind: 'aside',
          title: `Earlier call of ${item.name}`,
          text: item.arguments,
        });
      case 'tool_result': {
        const title = item.isError ? 'Error of an earlier call' : 'Result of an earlier call';
        return this.#push({ ...place, kind: 'aside', title, text: formatOutput(item.output) });
      }
      default:
    }
  }
}

function isSameFailure(one: Failure, other: Failure): boolean {
  return one.code === other.code && one.message === other.message && one.model === other.model;
}

function authorSuffix({ by }: { by?: string | undefined }): string {
  return by === undefined ? '' : ` by ${by}`;
}
