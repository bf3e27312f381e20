import { findCall, resultOf } from '../../machines/calls.ts';
import type { Call, CallResult, Context } from '../../machines/context.ts';
import { isOfChart } from '../../machines/fold.ts';
import { endsReview } from '../../machines/review.ts';
import { describeOpen, describeReview } from '../../machines/settled.ts';
import { statePath, statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { Delta } from '../../protocol/effect.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { ToolResultItem } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { Skipped } from '../../protocol/turn.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import type { Around, Happened, Place, SettledBy, StoryEvent, TurnPart } from './story-event.ts';
import type { Attempt, StreamedPart, Visibility, WireTeller } from './tell-wire.ts';

/*
 * engine/story: what happens in a run, as a conversation. Every surface writes its wire from these events:
 * `tell-story.ts` makes them of entries and deltas, with `tell-wire.ts` for what only those need who have no entries,
 * `read-story.ts` folds a journal and follows a run, and `family-story.ts` merges the stories of sub-agents.
 */

export type * from './story-event.ts';

export type StoryOptions = {
  runId: string;
  filters?: readonly (() => TextFilter)[];
};

type Entry = { seq: number; at: number };
type Of<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

/**
 * Tells the story of one run: makes its events of entries and deltas, in order.
 *
 * S1 The pieces of a turn's texts add up to the parts of `turn.closed`, since the attempt was opened or the last piece
 *    was discarded.
 * S2 Deltas only make texts appear earlier. Without them, and from any entry on, the same turns, calls and ends follow.
 * S3 Late pieces of a turn that is complete are dropped.
 * S4 Entries from before an attempt, which a reader gets after its text, do not end it.
 * S5 The pieces of an answer that another agent gives add up to the text of `answer.taken`, since the last that were
 *    discarded. After the result of its call, none are.
 */
export class StoryTeller {
  readonly #options: StoryOptions;
  readonly #wire: WireTeller | undefined;
  #attempt: Attempt | null = null;
  #over = 0;
  /** What the agent that has the conversation has said of a text. */
  #answer: { callId: string; source: string; text: string } | null = null;
  /** The last call whose result ended such a text. */
  #answered = '';
  #told: StoryEvent[] = [];

  /**
   * `begin`: the chart's state where the story begins; `null` for the run's start. Without `wire`, neither states, ends, answers
   * to questions nor the parts of turns are told, no late pieces, and answers without the filters: for those who have the
   * entries too.
   */
  constructor(options: StoryOptions, begin: ChartState | null = null, wire?: WireTeller) {
    this.#options = options;
    this.#wire = wire;
    if (begin !== null) this.#over = overIn(begin);
  }

  takeEntry(event: RunEvent, seq: number, around: Around): StoryEvent[] {
    const from = { seq, at: event.at };
    const live = this.#attempt;
    const isAhead = live !== null && around.before !== null && isAfter(live, placeIn(around.before));
    if (isAhead) this.#attempt = null;
    this.#tellPlace(event, from, around);
    this.#tellEntry(event, from, around);
    if (around.before !== null) {
      this.#tellCalls(event, from, around);
      this.#tellReview(event, from, around.before, around.after);
      this.#tellAnswer(from, around.before, around.after);
    }
    const settled = this.#wire?.endOf(around, this.#filters);
    if (settled) this.#tell({ type: 'settled', ...from, settled });
    if (!this.#told.some(told => 'seq' in told && told.type !== 'state'))
      this.#tell({ type: 'note', ...from, event });
    if (isAhead) this.#attempt = live;
    return this.#drain();
  }

  /** Replaces what readers have of the running attempt. Its reasoning follows in deltas, and comes before the text. */
  takeTextSoFar(soFar: Place & { text: string }): StoryEvent[] {
    if (isAt(this.#attempt, soFar)) this.#discard('restarted');
    if (this.#begin(soFar)) {
      (this.#attempt as Attempt).isMerged = true;
      this.#beginPart('reasoning');
      if (soFar.text !== '') this.#stream('text', soFar);
    }
    return this.#drain();
  }

  takeDelta(delta: Delta): StoryEvent[] {
    switch (delta.type) {
      case 'text.delta':
      case 'reasoning.delta':
        if (this.#begin(delta)) this.#stream(delta.type === 'text.delta' ? 'text' : 'reasoning', delta);
        break;
      case 'call.delta':
        if (this.#begin(delta)) this.#streamCall(delta);
        break;
      case 'text.discarded':
        if (isAt(this.#attempt, delta)) this.#discard('failed');
        break;
      case 'answer.delta':
        this.#streamAnswer(delta);
        break;
      case 'tool.progress':
        this.#tell({ type: 'call.progress', callId: delta.callId, data: delta.data });
        break;
      case 'reasoning.ended':
      case 'decided':
        break;
    }
    return this.#drain();
  }

  #drain(): StoryEvent[] {
    const told = this.#told;
    this.#told = [];
    return told;
  }

  #tell(happened: Happened): void {
    this.#told.push({ runId: this.#options.runId, ...happened } as StoryEvent);
  }

  #tellPlace(event: RunEvent, from: Entry, around: Around): void {
    if (event.type === 'run.started') this.#tell({ type: 'message', ...from, items: event.input });
    else if (event.type === 'message.received' && event.from === undefined) {
      const { items, by } = event;
      this.#tell({ type: 'message', ...from, items, ...omitUndefined({ by }) });
    }
    const state = this.#wire?.stateOf(event, around);
    if (state) this.#tell({ type: 'state', ...from, ...state });
  }

  #tellEntry(event: RunEvent, from: Entry, { before, after }: Around): void {
    switch (event.type) {
      case 'turn.completed':
        return this.#close(event, from, { before, after });
      case 'turn.failed':
        return this.#fail(event, from, { before, after });
      case 'run.cancelled':
        this.#discard('failed', true);
        this.#discardAnswer();
        break;
      case 'run.claimed':
      case 'run.quarantined':
        this.#discard('restarted');
        this.#discardAnswer();
        break;
      case 'answer.checked':
        return this.#tellPassed(from, after, event.text !== undefined);
      case 'review.decided':
        this.#tellReviewed(event, from, { before, after });
        return;
      case 'answer.blocked':
        return this.#tell({ type: 'answer.blocked', ...from, reason: event.reason });
      case 'tool.started': {
        const { callId, attempt, key } = event;
        const { name = '' } = findCall(after.context, callId) ?? {};
        return this.#tell({ type: 'call.started', ...from, callId, name, attempt, key });
      }
      case 'tool.suspended': {
        const { callId, childRunId } = event;
        this.#discardAnswer();
        return this.#tell({ type: 'call.suspended', ...from, callId, childRunId });
      }
      case 'run.started':
      case 'message.received':
      case 'text.started':
      case 'calls.started':
      case 'timer.fired':
      case 'review.requested':
      case 'tool.settled':
      case 'approval.decided':
      case 'result.received':
      case 'doubt.resolved':
        // Told by what it changes in its call, or in the answer.
        return;
      default:
    }
    this.#tell({ type: 'note', ...from, event });
  }

  get #filters(): readonly (() => TextFilter)[] {
    return this.#options.filters ?? [];
  }

  /** The text of an answer as readers see it. Those who have the entries have it without the filters. */
  #shown(answer: Context['answer']): string {
    const { text = '' } = answer ?? {};
    return this.#wire?.filterText(text, this.#filters) ?? text;
  }

  /** Opens the attempt of a delta. Returns false for a delta to ignore. */
  #begin(place: Place): boolean {
    if (place.turn <= this.#over) return false;
    this.#open(place);
    return true;
  }

  #open({ turn, attempt }: Place): Attempt {
    if (isAt(this.#attempt, { turn, attempt })) return this.#attempt;
    this.#discard('failed');
    this.#tell({ type: 'turn.opened', turn, attempt });
    this.#attempt = { turn, attempt, parts: [], calls: new Map(), refusals: 0, sealed: 0 };
    return this.#attempt;
  }

  #stream(
    kind: 'text' | 'reasoning',
    { text, refusals = 0, sealed = NONE }: Skipped & { text: string },
  ): void {
    const live = this.#attempt as Attempt;
    for (; live.sealed < sealed.length; live.sealed += 1) {
      this.#refuse(sealed[live.sealed] ?? 0);
      if (live.parts.at(-1)?.kind !== 'reasoning') this.#beginPart('reasoning');
    }
    this.#refuse(refusals);
    let place = live.parts.length - 1;
    if (live.isMerged === true) place = live.parts.findLastIndex(part => part.kind === kind);
    const last = live.parts[place];
    if (last?.kind === kind && !last.isRefused) return this.#add(kind, text, place);
    const before = live.parts.findLast(part => part.kind === 'text');
    live.parts.push({ kind, text: '', isRefused: false });
    this.#add(kind, text);
    const begun = this.#told.at(-1);
    if (kind === 'text' && before?.isRefused === true && begun?.type === 'text') begun.refused = true;
  }

  /** A refusal belongs to the text before it, or to one of its own. Its words come with the completed turn. */
  #refuse(refusals: number): void {
    const live = this.#attempt as Attempt;
    if (refusals <= live.refusals) return;
    live.refusals = refusals;
    const last = live.parts.at(-1);
    if (last?.kind !== 'text' || last.isRefused) this.#beginPart('text');
    (live.parts.at(-1) as StreamedPart).isRefused = true;
  }

  #beginPart(kind: 'text' | 'reasoning'): void {
    this.#attempt?.parts.push({ kind, text: '', isRefused: false });
    this.#add(kind, '');
  }

  #add(type: 'text' | 'reasoning', text: string, place?: number): void {
    const { turn, attempt, parts } = this.#attempt as Attempt;
    const part = place ?? parts.length - 1;
    (parts[part] as StreamedPart).text += text;
    this.#told.push({ runId: this.#options.runId, type, turn, attempt, part, text });
  }

  #streamCall({ index, callId, name, text }: Extract<Delta, { type: 'call.delta' }>): void {
    const { calls, ...place } = this.#attempt as Attempt;
    const { turn, attempt } = place;
    if (callId !== undefined && name !== undefined && !calls.has(index)) {
      calls.set(index, { callId, text: '' });
      this.#tell({ type: 'call.opened', turn, attempt, index, callId, name });
    }
    const call = calls.get(index);
    if (call === undefined || text === '') return;
    call.text += text;
    this.#tell({ type: 'call.arguments', turn, attempt, index, callId: call.callId, text });
  }

  #streamAnswer({ callId, source, at, text }: Extract<Delta, { type: 'answer.delta' }>): void {
    if (callId === this.#answered) return;
    if (this.#answer?.callId !== callId || this.#answer.source !== source) this.#discardAnswer();
    this.#answer ??= { callId, source, text: '' };
    const fresh = text.slice(Math.max(0, this.#answer.text.length - at));
    if (at > this.#answer.text.length || fresh === '') return;
    this.#answer.text += fresh;
    this.#tell({ type: 'answer.text', callId, text: fresh });
  }

  #discardAnswer(): void {
    const live = this.#answer;
    this.#answer = null;
    if (live !== null && live.text !== '') this.#tell({ type: 'answer.discarded', callId: live.callId });
  }

  /** Once the call has its result: discards the pieces, unless the answer begins with them. */
  #endAnswer({ callId }: Call, { answer, answeredBy }: Context): void {
    this.#answered = callId;
    const text = answeredBy?.type === 'agent' ? this.#shown(answer) : '';
    const live = this.#answer;
    if (live?.callId !== callId || text === '' || !text.startsWith(live.text)) this.#discardAnswer();
  }

  #fail(failed: Of<'turn.failed'>, from: Entry, { before, after }: Around): void {
    const ended = statusOf(after) === 'failed';
    this.#discard('failed', ended);
    this.#tell({ type: 'turn.failed', ...placeIn(before ?? after), ...from, ended, failed });
  }

  #discard(why: 'failed' | 'restarted' | 'differs', ended = false): void {
    const live = this.#attempt;
    this.#attempt = null;
    if (live === null) return;
    const { turn, attempt } = live;
    this.#tell({ type: 'turn.discarded', turn, attempt, why, ended });
  }

  #close(completed: Of<'turn.completed'>, from: Entry, { before, after }: Around): void {
    const { context } = before ?? after;
    const { turn, config } = context;
    const draft = after.context.lastTurn?.draft === true;
    const place = { turn: turn.number, attempt: turn.attempt };
    const text = turn.shown && !draft;
    const reasoning = !draft && (turn.shown || turn.final || config.finalAnswer === 'live');
    const live = this.#open(place);
    const parts = this.#tellParts(live, completed, { text, reasoning, filters: this.#filters });
    this.#attempt = null;
    this.#over = place.turn;
    this.#tell({ type: 'turn.closed', ...place, ...from, draft, parts, completed });
  }

  #tellParts(live: Attempt, completed: Of<'turn.completed'>, visible: Visibility): TurnPart[] {
    if (this.#wire === undefined) return [];
    const { partsOf, fits, alignParts, restOf } = this.#wire;
    const parts = partsOf(completed, visible);
    let told = live;
    if (!fits(parts, live, completed)) {
      this.#discard('differs');
      told = this.#open(live);
      alignParts(parts, []);
    }
    for (const piece of restOf(parts, told, completed)) this.#tell(piece);
    return parts;
  }

  #tellCalls(event: RunEvent, from: Entry, { before, after }: Around): void {
    if (before === null || before.context.calls === after.context.calls) return;
    const told = { event, from, after };
    const known = before.context.calls;
    const round = after.context.calls;
    const calls = round.length > 0 ? round : refusedBy(event, after.context);
    // Calls keep their places in a round, which may be long.
    for (let place = 0; place < Math.max(known.length, calls.length); place += 1) {
      const call = known[place];
      const now = calls[place];
      if (call === now) continue;
      if (call !== undefined) this.#tellCall(call, findCall(after.context, call.callId), told);
      if (now !== undefined && findCall(before.context, now.callId) === undefined)
        this.#tellCall(undefined, now, told);
    }
  }

  #tellCall(
    before: Call | undefined,
    now: Call | undefined,
    { event, from, after }: { event: RunEvent; from: Entry; after: ChartState },
  ): void {
    if (before?.status === 'settled') return;
    const call = now ?? before;
    if (call === undefined) return;
    const { callId } = call;
    const isDecided = before?.status === 'gated' && now?.status !== 'gated';
    if (isDecided && event.type === 'approval.decided' && event.decision.type !== 'answer')
      this.#tellDecision(callId, event, from);
    if (now !== undefined && now.status !== 'settled') {
      const open = describeOpen(after.context, now);
      const answers = before && this.#wire?.answersBetween(before, now);
      if (answers) {
        const by = 'by' in event ? event.by : undefined;
        this.#tell({ type: 'call.answered', ...from, callId, answers, ...omitUndefined({ by }) });
      }
      const isSame = before?.status === now.status && before.digest === now.digest;
      const wasOpen = isSame && before.asked === now.asked;
      if (open !== null && !wasOpen) this.#tell({ type: 'call.asked', ...from, open });
      return;
    }
    if (call.answers === 'directly') this.#endAnswer(call, after.context);
    const result = now?.result ?? resultIn(after.context, callId);
    const { output, isError } = result ?? NO_RESULT;
    const by = result === undefined ? 'edit' : settledBy(event, call, result);
    const settled =
      result === undefined ? call : { ...call, status: 'settled' as const, result: resultOf(result) };
    const who = (by === 'answer' || by === 'resolved') && 'by' in event ? event.by : undefined;
    const how = { output, isError, by, ...omitUndefined({ who }) };
    this.#tell({ type: 'call.settled', ...from, callId, call: settled, ...how });
  }

  #tellDecision(callId: string, { decision, by, sticky }: Of<'approval.decided'>, from: Entry): void {
    const reason = decision.type === 'reject' ? decision.reason : undefined;
    const input = decision.type === 'approve' ? decision.input : undefined;
    const approved = decision.type === 'approve';
    const how = omitUndefined({ reason, input, sticky, by });
    this.#tell({ type: 'call.decided', ...from, callId, approved, ...how });
  }

  /** Without a check. `#tellPassed` tells an answer that has passed one. */
  #tellAnswer(from: Entry, before: ChartState, after: ChartState): void {
    const { answeredBy, config } = after.context;
    if (answeredBy !== before.context.answeredBy && !config.checksAnswer) this.#tellTaken(from, after);
  }

  /** The answer has passed. `isChanged`: a check or a person changed the text that the model wrote. */
  #tellPassed(from: Entry, after: ChartState, isChanged: boolean): void {
    const { turn, answer, answeredBy } = after.context;
    if (answeredBy?.type === 'agent') return this.#tellTaken(from, after);
    const text = isChanged || !turn.shown ? this.#shown(answer) : '';
    if (text !== '') this.#tell({ type: 'answer.changed', ...from, text });
  }

  #tellReviewed(
    { reviewId, decision, by }: Of<'review.decided'>,
    from: Entry,
    { before, after }: Around,
  ): void {
    if (decision.type === 'withdraw') return;
    const approved = decision.type === 'approve';
    const edited = approved && decision.text !== undefined ? (true as const) : undefined;
    const given = approved && after.context.review === null ? (true as const) : undefined;
    const reason = decision.type === 'reject' ? decision.reason : undefined;
    this.#tell({
      type: 'review.decided',
      ...from,
      reviewId,
      approved,
      ...omitUndefined({ given, edited, reason, by }),
    });
    const review = before?.context.review;
    if (given === undefined || review === null) return;
    this.#tellPassed(from, after, edited === true || review?.edited === true || review?.replaced === true);
  }

  /** A review that begins, is about another answer, or ends without the answer. */
  #tellReview(event: RunEvent, from: Entry, { context: was }: ChartState, { context: is }: ChartState): void {
    const [open] = describeReview(is);
    if (open !== undefined && was.review?.digest !== open.digest)
      this.#tell({ type: 'review.asked', ...from, open });
    if (isOfChart(event) && endsReview(was, event)) {
      const last = is.transcript.at(-1);
      const reason = is.sentBack?.reason ?? (last?.type === 'message' ? textOf(last) : '');
      this.#tell({ type: 'answer.blocked', ...from, reason });
    }
  }

  #tellTaken(from: Entry, { context: { answer, answeredBy } }: ChartState): void {
    const text = this.#shown(answer);
    if (answeredBy?.type !== 'agent' || text === '') return;
    const { agent, call } = answeredBy;
    const { callId } = call;
    const rest = text.slice(this.#answer?.text.length ?? 0);
    this.#answer = null;
    if (rest !== '') this.#tell({ type: 'answer.text', callId, text: rest, late: true });
    this.#tell({ type: 'answer.taken', ...from, callId, agent, text });
  }
}

const NONE: readonly number[] = [];
const NO_RESULT = { output: 'The call has no result.', isError: true };

function isAt(attempt: Attempt | null, { turn, attempt: number }: Place): attempt is Attempt {
  return attempt?.turn === turn && attempt.attempt === number;
}

function overIn(state: ChartState): number {
  const { turn, failure } = state.context;
  const isOpen = statePath(state).startsWith('turn.') || failure !== null;
  return isOpen ? turn.number - 1 : turn.number;
}

function isAfter(one: Place, other: Place): boolean {
  return one.turn > other.turn || (one.turn === other.turn && one.attempt > other.attempt);
}

function placeIn({ context: { turn } }: ChartState): Place {
  return { turn: turn.number, attempt: turn.attempt };
}

/** The calls of an event whose round is closed: none of them may run. */
function refusedBy(event: RunEvent, context: Context): Call[] {
  const calls = 'calls' in event ? event.calls : [];
  return calls.flatMap(call => {
    const result = resultIn(context, call.callId);
    return result === undefined ? [] : [{ ...call, status: 'settled', attempt: 0, result }];
  });
}

function resultIn({ transcript }: Context, callId: string): CallResult | undefined {
  return transcript.findLast(
    (item): item is ToolResultItem => item.type === 'tool_result' && item.callId === callId,
  );
}

function settledBy(event: RunEvent, call: Call, { receipt }: CallResult): SettledBy {
  if (receipt === 'client') return 'receipt';
  const isOwn = 'callId' in event && event.callId === call.callId;
  switch (event.type) {
    case 'turn.completed':
    case 'turn.edited':
    case 'call.edited':
      return 'refused';
    case 'transcript.edited':
      return 'edit';
    case 'tool.settled':
      return isOwn ? 'tool' : 'overtaken';
    case 'result.received':
      if (!isOwn) return 'overtaken';
      return event.childRunId === undefined ? 'answer' : 'sub-agent';
    case 'doubt.resolved':
      return isOwn ? 'resolved' : 'overtaken';
    case 'approval.decided':
      if (event.decision.type === 'reject') return 'denied';
      return event.decision.type === 'answer' && isOwn ? 'answer' : 'overtaken';
    default:
      return 'overtaken';
  }
}
