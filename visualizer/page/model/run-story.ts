import type { StoryEvent, StoryTeller } from '../../../engine/story/tell-story.ts';
import { findCall } from '../../../machines/calls.ts';
import type { Context } from '../../../machines/context.ts';
import { latestReply } from '../../../machines/fold.ts';
import { statePath } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Failure, QualifiedCall } from '../../../protocol/event.ts';
import type { Item, MessageItem } from '../../../protocol/item.ts';
import { type BreakCost, BreakCosts } from '../../../protocol/listing/cost.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { textOf } from '../../../protocol/message.ts';
import type { Broken } from '../../../protocol/sent.ts';
import { describeReplaced } from '../../describe-event.ts';
import type { StreamedEvent } from '../data/request.ts';
import { formatCount, formatLine, formatOutput, formatReply } from '../render/format.ts';
import type { CallEvent, CallRecord } from './call-facts.ts';
import { Folded, FoldedJournal } from './journal-fold.ts';
import { type Activity, kindOf } from './time-line.ts';

export type TurnRecord = {
  seq: number;
  turn: number;
  attempt: number;
  cost: number;
  ended: Of<'turn.completed' | 'turn.failed'>;
};

/** The request of the turn at `seq` did not begin with the one before it. */
export type BreakRecord = { seq: number; broken: Broken; cost: BreakCost };

/** `tokens`: of the conversation before it, 0 if unknown. */
export type CompactionRecord = {
  seq: number;
  cost: number;
  tokens: number;
  compaction: Of<'transcript.compacted' | 'compaction.failed'>;
};

type Content =
  | { kind: 'message'; item: MessageItem; by: string | undefined }
  /** `attempt` is the key of the attempt that wrote it, `replacedAt` the entry of the edit that replaced it. */
  | {
      kind: 'reply';
      item: MessageItem;
      attempt: string;
      preamble: boolean;
      checked: { seq: number; text: string } | null;
      replacedAt?: number;
    }
  /** The answer of another agent, to which the conversation was handed: from its run. */
  | { kind: 'taken'; agent: string; text: string; runId: string }
  | { kind: 'reasoning'; text: string }
  /** `later`: what was known of it at a later entry. */
  | { kind: 'aside'; title: string; text: string; isError?: true; later?: { seq: number; text: string } }
  | { kind: 'edit'; title: string; before: string; after: string }
  | { kind: 'call'; record: CallRecord }
  /** The same failure of one or more attempts. */
  | {
      kind: 'failure';
      failure: Failure;
      attempts: { seq: number; attempt: number; key: string; hadText: boolean }[];
    }
  /** A process that died: the last entry it wrote, the calls without a result, and the next entries about them. */
  | {
      kind: 'crash';
      lastSeq: number;
      lastAt: number;
      gone: string;
      by: string;
      path: string;
      running: string[];
      followed: { seq: number; callId: string }[];
    };

export type Block = { key: string; seq: number; at: number } & Content;

type Told<Type extends StoryEvent['type']> = Extract<StoryEvent, { type: Type }>;
type Of<Type extends StreamedEvent['type']> = Extract<Told<'note'>['event'], { type: Type }>;
type From = { seq: number; at: number };
type Reply = { draft: boolean; preamble: boolean; attempt: string };

export const attemptKey = ({ turn, attempt }: { turn: number; attempt: number }): string =>
  `${turn}/${attempt}`;

const MOST_FOLLOWED = 8;
const LONGEST_WHY = 200;

export class RunStory {
  readonly folds: FoldedJournal;
  readonly activities: Activity[] = [];
  readonly blocks: Block[] = [];
  readonly rows: (BreakRecord | TurnRecord | CompactionRecord | CallRecord)[] = [];
  readonly calls = new Map<string, CallRecord>();
  /** The entries at which something went wrong, in order: see `isError`. */
  readonly errors: number[] = [];
  readonly #breakCosts = new BreakCosts();
  #crash: Extract<Content, { kind: 'crash' }> | undefined;
  /** The latest compaction, until a request was made after it. */
  #compacted: Extract<Content, { kind: 'aside' }> | undefined;

  constructor(read: (seq: number) => StreamedEvent | undefined, begin = Folded.start) {
    this.folds = new FoldedJournal(read, begin);
  }

  nameOf(callId: string): string {
    return this.calls.get(callId)?.call.name ?? callId;
  }

  take(event: StreamedEvent, teller: StoryTeller): StoryEvent[] {
    const { seq, at } = event;
    const { state: before } = this.folds.last;
    const { state: after, path } = this.folds.take(event);
    this.activities.push({ seq, at, kind: kindOf(path ?? ''), path: path ?? '' });
    this.#breakCosts.follow(event);
    if (after === null) return [];
    const told = teller.takeEntry(event, seq, { before, after });
    for (const one of told) this.#write(one, before ?? after, after);
    if ((event.type === 'result.received' || event.type === 'tool.settled') && event.answered) {
      const { callId, output, answered, runId } = event;
      this.#addToCall(callId, { type: 'note', runId, seq, at, event });
      if (answered.handedBack)
        this.#addHandOff(event, answered.agent, after.context.agent.name, formatOutput(output));
    }
    if (told.some(isError)) this.errors.push(seq);
    return told;
  }

  #write(told: StoryEvent, before: ChartState, after: ChartState): void {
    switch (told.type) {
      case 'message':
        if (after.context.onlyCall !== undefined)
          for (const call of before.context.calls) this.#addCall(call, told);
        for (const [index, item] of told.items.entries()) this.#addItem(item, told, index, told.by);
        return;
      case 'turn.closed':
        this.#addBreak(told, before.context);
        return this.#addTurn(told, after.context.cost - before.context.cost);
      case 'turn.failed':
        return this.#addFailure(told, before.context.turn.shown);
      case 'answer.changed': {
        const reply = this.blocks.findLast(block => block.kind === 'reply');
        if (reply !== undefined) reply.checked = told;
        return;
      }
      case 'answer.taken':
        return this.#addTaken(told, after.context);
      case 'answer.blocked':
        if (this.blocks.at(-1)?.seq === told.seq) return;
        return this.#addAside(told, 'The answer was blocked', told.reason, true);
      case 'review.asked':
        return this.#addAside(told, 'The answer waits for a review', told.open.reason ?? '');
      case 'review.decided': {
        const edited = told.edited === true ? ' with changes' : '';
        const what = told.approved ? `approved${edited}` : 'sent back';
        return this.#addAside(told, `The answer was ${what}${byOf(told)}`, told.reason ?? '');
      }
      case 'call.asked':
        return this.#addToCall(told.open.callId, told);
      case 'call.decided':
      case 'call.started':
      case 'call.suspended':
      case 'call.settled':
        this.#addToCall(told.callId, told);
        return this.#followHandOff(told, before.context);
      case 'note':
        return this.#addNote(told, before, after);
      default:
    }
  }

  #addNote(note: Told<'note'>, before: ChartState, after: ChartState): void {
    const { event } = note;
    if ('callId' in event) return this.#addToCall(event.callId, note);
    switch (event.type) {
      case 'run.claimed':
        if (event.replaces !== undefined) this.#addCrash(note, event, event.replaces, before);
        return;
      case 'turn.edited':
        return this.#editTurn(note, event, before.context, after.context);
      case 'transcript.edited':
        return this.#addAside(
          note,
          `Transcript edited${byOf(event)}`,
          `It now has ${event.items.length} items.`,
        );
      case 'transcript.compacted':
      case 'compaction.failed':
        return this.#addCompaction(note, event, before.context, after.context);
      case 'message.received':
        return this.#addOutcome(note, event);
      case 'sign-in.requested':
        return this.#addAside(note, `A person must sign in at ${event.server}`, '');
      case 'sign-in.completed':
        return this.#addAside(note, `Signed in at ${event.server}${byOf(event)}`, '');
      case 'run.cancelled':
        return this.#addAside(note, `Cancelled${byOf(event)}`, event.reason ?? '');
      default:
    }
  }

  /** `index`: the place among the blocks of one kind and entry. */
  #push({ seq, at }: From, content: Content, index = 0): void {
    this.blocks.push({ key: `${seq}.${index}`, seq, at, ...content });
  }

  #addTaken(told: Told<'answer.taken'>, { answeredBy }: Context): void {
    if (answeredBy?.type !== 'agent') return;
    const { agent, text } = told;
    this.#push(told, { kind: 'taken', agent, text, runId: answeredBy.runId });
  }

  #followHandOff(told: CallEvent & { callId: string }, before: Context): void {
    const { agent, handedBy } = before;
    const call = findCall(before, told.callId);
    const { input = null, forwards } = call ?? {};
    const to = (call?.name ?? '').replace('transfer_to_', '');
    if (told.type === 'call.started' && call?.answers === 'directly' && told.attempt === 1) {
      const [said] = typeof input === 'object' ? Object.values(input ?? {}) : [];
      const why = String(said || latestReply(before).text);
      this.#addHandOff(told, agent.name, to, forwards === undefined ? why : 'it has the conversation');
    } else if (told.type === 'call.settled' && call?.answers === 'back')
      this.#addHandOff(told, agent.name, handedBy ?? to, formatOutput(told.output));
  }

  #addHandOff(from: From, who: string, to: string, why: string): void {
    this.#addAside(from, `Hand-off from ${who} to ${to}${why && `: ${formatLine(why, LONGEST_WHY)}`}`, '');
  }

  #addOutcome(note: Told<'note'>, { items, from }: Of<'message.received'>): void {
    this.#addToCall(from?.callId ?? '', note);
    const parts = items.flatMap(item => (item.type === 'message' ? item.content.slice(1) : []));
    const title = `Outcome of the work of ${this.nameOf(from?.callId ?? '')}`;
    this.#addAside(note, title, formatOutput({ type: 'content', parts }));
  }

  #addAside(from: From, title: string, text: string, isError = false): void {
    this.#push(from, { kind: 'aside', title, text, ...(isError && { isError }) });
  }

  #addToCall(callId: string, told: CallEvent): void {
    this.calls.get(callId)?.told.push(told);
    const { running = [], followed = [] } = this.#crash ?? {};
    const isNews = running.includes(callId) && followed.at(-1)?.seq !== told.seq;
    if (isNews && followed.length < MOST_FOLLOWED) followed.push({ seq: told.seq, callId });
  }

  #addCrash(from: From, { by }: Of<'run.claimed'>, gone: string, before: ChartState): void {
    const last = this.activities.at(-2);
    if (last === undefined) return;
    last.kind = 'dead';
    const { seq: lastSeq, at: lastAt } = last;
    const running = before.context.calls.flatMap(({ callId, status, attempt }) =>
      attempt > 0 && status !== 'settled' && status !== 'waiting' ? [callId] : [],
    );
    const path = statePath(before);
    this.#crash = { kind: 'crash', lastSeq, lastAt, gone, by, path, running, followed: [] };
    this.#push(from, this.#crash);
  }

  #addBreak({ seq, completed }: Told<'turn.closed'>, { config }: Context): void {
    const cost = this.#breakCosts.take(completed, config.prices);
    const { broken } = completed;
    if (broken !== undefined && cost !== undefined) this.rows.push({ seq, broken, cost });
  }

  #addTurn(told: Told<'turn.closed'>, cost: number): void {
    const { seq, turn, attempt, draft, completed } = told;
    const { calls, items, usage } = completed;
    const compacted = this.#compacted;
    this.#compacted = undefined;
    if (compacted && usage)
      compacted.later = { seq, text: `, ${formatNumber(usage.inputTokens)} in the next request` };
    this.rows.push({ seq, turn, attempt, cost, ended: completed });
    for (const call of calls) this.#addCall(call, told);
    const reply = { draft, preamble: calls.length > 0, attempt: attemptKey(told) };
    for (const [index, item] of items.entries()) this.#addItem(item, told, index, reply);
  }

  #addCompaction(from: From, event: CompactionRecord['compaction'], before: Context, after: Context): void {
    const { tokens } = before.compaction;
    this.rows.push({ seq: from.seq, cost: after.cost - before.cost, tokens, compaction: event });
    if (event.type === 'compaction.failed')
      return this.#addAside(from, 'The transcript could not be compacted', event.error.message, true);
    this.#addAside(
      from,
      `Transcript compacted: a summary replaces ${describeReplaced(event)} for the model${tokens > 0 ? `; ${formatNumber(tokens)} tokens before it` : ''}`,
      tellSummary(event),
    );
    this.#compacted = this.blocks.at(-1) as Extract<Block, { kind: 'aside' }>;
  }

  #addCall(call: QualifiedCall, { seq }: From): void {
    const record: CallRecord = { call, seq, told: [] };
    this.calls.set(call.callId, record);
    this.rows.push(record);
  }

  #addFailure(told: Told<'turn.failed'>, hadText: boolean): void {
    const { seq, turn, attempt, failed } = told;
    const { error: failure } = failed;
    this.rows.push({ seq, turn, attempt, cost: 0, ended: failed });
    const place = { seq, attempt, key: attemptKey(told), hadText };
    const last = this.blocks.at(-1);
    const known = last?.kind === 'failure' ? last.failure : null;
    const isSame = (['code', 'message', 'model'] as const).every(key => known?.[key] === failure[key]);
    if (last?.kind === 'failure' && isSame) last.attempts.push(place);
    else this.#push(told, { kind: 'failure', failure, attempts: [place] });
  }

  #editTurn(note: Told<'note'>, event: Of<'turn.edited'>, before: Context, after: Context): void {
    const { seq } = note;
    const { calls, text, items } = event;
    const was = latestReply(before);
    const texts = { before: formatReply(was.text, was.calls), after: formatReply(text, calls) };
    this.#push(note, { kind: 'edit', title: `Reply edited${byOf(event)}`, ...texts });
    const isNew = text !== was.text;
    const last = this.blocks.findLast(({ kind }) => kind === 'reply' || kind === 'message');
    if (isNew && last?.kind === 'reply') last.replacedAt = seq;
    for (const call of calls) {
      const record = this.calls.get(call.callId);
      const { digest } = findCall(before, call.callId) ?? record?.call ?? {};
      if (record === undefined) this.#addCall(call, note);
      else if (digest !== call.digest) record.told.push(note);
    }
    const { number: turn, attempt } = before.turn;
    const draft = after.lastTurn?.draft === true;
    const reply = { draft, preamble: calls.length > 0, attempt: attemptKey({ turn, attempt }) };
    for (const [index, item] of items.entries()) {
      const isNewCall = item.type === 'tool_call' && this.calls.get(item.callId)?.seq === seq;
      if (isNewCall || (item.type === 'message' && isNew)) this.#addItem(item, note, index, reply);
    }
  }

  #addItem(item: Item, from: From, index: number, of: Reply | string | undefined): void {
    const add = (content: Content): void => void this.#push(from, content, index);
    const aside = (title: string, text: string): void => add({ kind: 'aside', title, text });
    const isReply = typeof of === 'object';
    switch (item.type) {
      case 'message': {
        if (!isReply) return add({ kind: 'message', item, by: of });
        const { draft, ...turn } = of;
        const text = textOf(item);
        if (text === '') return;
        if (draft) return aside('Draft of the planning turn (not shown to users)', text);
        return add({ kind: 'reply', item, ...turn, checked: null });
      }
      case 'reasoning':
        if (item.text !== '') add({ kind: 'reasoning', text: item.text });
        return;
      case 'tool_call': {
        const record = this.calls.get(item.callId);
        if (record?.seq === from.seq) return add({ kind: 'call', record });
        const title = isReply ? `${item.name} (run by the provider)` : `Earlier call of ${item.name}`;
        return aside(title, item.arguments);
      }
      case 'tool_result':
        return aside(`${item.isError ? 'Error' : 'Result'} of an earlier call`, formatOutput(item.output));
      case 'provider_item':
        if (isReply) aside(`Provider item ${item.kind}`, '');
    }
  }
}

/** Failed turns, calls and compactions, rejections, doubts, blocked answers, and processes that died. */
function isError(told: StoryEvent): boolean {
  switch (told.type) {
    case 'turn.failed':
    case 'answer.blocked':
      return true;
    case 'call.asked':
      return told.open.kind === 'doubt';
    case 'call.settled':
      return told.isError && told.by !== 'edit' && told.by !== 'overtaken';
    case 'note': {
      const { event } = told;
      return (
        event.type === 'compaction.failed' || (event.type === 'run.claimed' && event.replaces !== undefined)
      );
    }
    default:
      return false;
  }
}

/** The summary of a compaction, and the ledger, as people read them. */
export function tellSummary({ summary, items = [], ledger }: Of<'transcript.compacted'>): string {
  const others = Object.entries(ledger.others).map(([name, count]) => `${name} × ${count}`);
  const deeds = ledger.deeds.map(
    ({ name, input, outcome, output }) => `${name} ${input}: ${outcome}, ${output}`,
  );
  const own =
    items.length === 0 ? '' : `The provider compacted it to ${formatCount(items.length, 'item')} of its own.`;
  const done = others.length + deeds.length === 0 ? '' : ['Done before it:', ...others, ...deeds].join('\n');
  return [summary || own, done].filter(Boolean).join('\n\n');
}

function byOf({ by }: { by?: string }): string {
  return by === undefined ? '' : ` by ${by}`;
}
