import { isRetryable } from '../../../adapters/http/provider-errors.ts';
import { objectOf, objectsOf, textIn } from '../../../adapters/turn/json-access.ts';
import { Story } from '../../../engine/story/read-story.ts';
import type { StoryEvent } from '../../../engine/story/story-event.ts';
import type { Context } from '../../../machines/context.ts';
import { hasEnded } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import { describeOutput } from '../../../protocol/content/read-content.ts';
import type { Delta } from '../../../protocol/effect.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';
import type { MessageItem } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { SEARCH_TOOL } from '../../../tools/search-tools.ts';
import { compactionItem, thresholdIn } from '../request/compaction-items.ts';
import { sealSummary } from '../request/sealed-items.ts';
import {
  builtinOf,
  CallTools,
  callTypeFor,
  type ExposedTool,
  isAnswered,
  isCustomTool,
  isHidden,
  isOfLeaving,
  isServerTool,
  namespaceOf,
  OUTCOME_UNKNOWN,
  passesCalls,
  RESPONSES,
  type ResponseSpec,
} from '../runs/response-spec.ts';
import {
  type AnswerEnd,
  type AnswerEvent,
  AWAITS_ANSWERS,
  type CallEnd,
  isComplete,
  type PlacedCall,
  refusalIn,
  UNDER_REVIEW,
} from './answer-event.ts';
import { blocksIn, callMembers, TurnItems } from './turn-items.ts';
import { ITEM_KINDS, itemIdOf } from './wire-ids.ts';

type Of<Type extends StoryEvent['type']> = Extract<StoryEvent, { type: Type }>;

/** What an answer knows of the entries before it, up to `seq`. */
export type PlaceInRun = {
  seq: number;
  state: ChartState;
  tools: CallTools;
  turns: number;
  retries: number;
  open: ReadonlyMap<string, PlacedCall>;
  /** How many messages the last turn has, with the answers of other agents after it. */
  messages: number;
};

/** The answer of an agent to which the conversation was handed, as a message after turn `turn`. */
export type TakenAnswer = { turn: number; place: number; message: MessageItem };

/**
 * The answer to one request, from the journal entries and the live output of a run: what of its story the client gets.
 * `TurnItems` decides what belongs together in it; the writers of the three protocols only translate.
 *
 * R1 The answer depends only on the journal; deltas deliver parts of it earlier. They also show what failed attempts
 *    said, which the journal does not have.
 * R2 Entries before `from` are folded but give no events. The answer ends at the first entry where the run rests or has
 *    ended and everything in the request was accepted. Later entries belong to the next answer.
 */
export class GatewayAnswer {
  readonly #runId: string;
  readonly #from: number;
  readonly #spec: ResponseSpec;
  readonly #story: Story;
  readonly #tools: CallTools;
  readonly #sealed: boolean;
  /** Turns wait for their end if no client reads live, or compactions or the provider's calls have to precede the text. */
  readonly #holdsTurns: boolean;
  readonly #open: Map<string, PlacedCall> = new Map();
  readonly #running = new Map<string, { id: string; call: PlacedCall; tool: ExposedTool }>();
  #turn: TurnItems | null = null;
  #turns = 0;
  #retries = 0;
  #messages = 0;
  /** Of other agents, also those before `from`. */
  readonly taken: TakenAnswer[] = [];
  #deniedBefore = 0;
  #begun = false;
  #isOver = false;
  #ranTool = false;
  #hasItems = false;
  /** A refusal in words is a complete answer. */
  #refused = false;
  #failure: Of<'turn.failed'>['failed'] | null = null;
  /** The latest compaction failed in a way that may pass. */
  #mayCompactAgain = false;
  #cancelled: Extract<RunEvent, { type: 'run.cancelled' }> | null = null;
  #isAhead = false;
  #told: AnswerEvent[] = [];

  constructor(
    spec: ResponseSpec,
    { runId, from, begin }: { runId: string; from: number; begin?: PlaceInRun | undefined },
  ) {
    this.#runId = runId;
    this.#from = from;
    this.#spec = spec;
    this.#story = new Story({ runId }, begin);
    this.#tools = begin?.tools.copy() ?? new CallTools();
    if (begin !== undefined) {
      this.#turns = begin.turns;
      this.#retries = begin.retries;
      this.#messages = begin.messages;
      this.#deniedBefore = begin.state.context.deniedCalls;
      this.#open = new Map(begin.open);
    }
    const { include = [], openai, stream, background } = spec.request;
    this.#sealed = include.includes('reasoning.encrypted_content');
    const isStreamed = stream === true || background === true;
    const compacts = openai.context_management !== undefined && thresholdIn(spec.request) === undefined;
    const { edits } = objectOf(spec.providerOptions?.context_management);
    const asksToCompact = objectsOf(edits).some(({ type }) => textIn(type).startsWith('compact_'));
    this.#holdsTurns = !isStreamed || compacts || asksToCompact || passesCalls(spec);
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get hasRunTool(): boolean {
    return this.#ranTool;
  }

  /** Whether deltas have told something: maybe failed attempts, which the journal does not have. */
  get isAhead(): boolean {
    return this.#isAhead;
  }

  /** The state after the last entry. Throws before the first. */
  get state(): ChartState {
    const { state } = this.#story;
    if (state === null) throw new Error('a journal begins with run.started');
    return state;
  }

  /** Where it is, for the answer after it. Throws before the first entry. */
  get place(): PlaceInRun {
    const { seq } = this.#story;
    const [turns, retries, messages] = [this.#turns, this.#retries, this.#messages];
    const [tools, open] = [this.#tools.copy(), new Map(this.#open)];
    return { state: this.state, seq, tools, turns, retries, messages, open };
  }

  begin(): AnswerEvent[] {
    this.#begin();
    return this.#drain();
  }

  /** `folded`: the state after the entry, if it is known. */
  takeEntry(entry: JournalEntry, folded?: ChartState): AnswerEvent[] {
    if (this.isOver) return [];
    const story = this.#story.takeEntry(entry, folded);
    const state = this.state;
    this.#tools.take(entry.event);
    const isMine = entry.seq >= this.#from;
    if (!isMine) this.#deniedBefore = state.context.deniedCalls;
    if (isMine) this.#begin();
    if (isMine) this.#tellCompaction(entry.event, state.context);
    for (const event of story) this.#read(event, isMine);
    if (isMine && isAnswered(state, this.#spec)) this.#end(entry.event.at);
    return this.#drain();
  }

  #tellCompaction(event: RunEvent, { transcript, compaction: { count, items } }: Context): void {
    const isDone = event.type === 'transcript.compacted';
    if (!isDone && event.type !== 'compaction.failed') return;
    if (event.usage !== null) this.#tell({ type: 'usage', usage: event.usage });
    this.#mayCompactAgain = !isDone && isRetryable(event.error.code);
    const { request, compacts } = this.#spec;
    if (!isDone || (thresholdIn(request) === undefined && compacts !== true)) return;
    const { id, encrypted_content: named } = compactionItem({ runId: this.#runId, count });
    const made = transcript.filter(item => item.id !== undefined && items.includes(item.id));
    this.#tell({ type: 'compaction', id, content: request.store === false ? sealSummary(made) : named });
  }

  takeDelta(delta: Delta): AnswerEvent[] {
    if (this.isOver) return [];
    if (delta.type === 'reasoning.ended' && !this.#holds()) this.#turnItems().endReasoning(delta.item);
    for (const event of this.#story.takeDelta(delta)) this.#read(event, true);
    return this.#drain();
  }

  /** Ends the answer because this process cannot continue the run. `at` is in ms since the epoch. */
  fail(at: number, error: { code: string; message: string }): AnswerEvent[] {
    this.#begin();
    this.#abandon(error.message);
    this.#finish(at, { status: 'failed', error });
    return this.#drain();
  }

  #drain(): AnswerEvent[] {
    const told = this.#told;
    this.#told = [];
    return told;
  }

  readonly #tell = (event: AnswerEvent): void => {
    this.#hasItems ||= isComplete(event) && event.type !== 'list';
    this.#told.push(event);
  };

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#tell({ type: 'begun' });
  }

  #turnItems(firstMessage = 0): TurnItems {
    this.#turn ??= new TurnItems(this.#tell, {
      runId: this.#runId,
      turn: this.#turns + 1,
      retry: this.#retries,
      sealed: this.#sealed,
      stored: this.#spec.request.store !== false,
      firstMessage,
    });
    return this.#turn;
  }

  #read(event: StoryEvent, isMine: boolean): void {
    switch (event.type) {
      case 'message':
        if (isMine && event.seq === 1) this.#showLists(event);
        return;
      case 'text':
      case 'reasoning':
        if (!isMine || this.#holds()) return;
        this.#isAhead ||= event.late !== true;
        return this.#turnItems().take(event);
      case 'turn.discarded':
        // Text that was shown stays: the next driver repeats the attempt, and the turn's entry has the right text.
        if (event.why === 'failed') this.#turn?.tryAgain(this.#retries);
        else this.#turn?.repeat();
        return;
      case 'turn.failed':
        this.#failure = event.failed;
        return this.#retry();
      case 'turn.closed':
        return this.#closeTurn(event, isMine);
      case 'answer.taken':
        return this.#take(event.text, isMine);
      case 'answer.changed':
        if (isMine && this.#isHeld()) this.#showAnswer(messageOf(event.text), 0);
        return;
      case 'call.started': {
        const call = this.#open.get(event.callId);
        if (isMine) this.#ranTool = true;
        if (isMine && call !== undefined) this.#start(call);
        return;
      }
      case 'call.asked':
        if (event.open.kind === 'doubt') this.#settle(event.open.callId, { error: OUTCOME_UNKNOWN });
        if (event.open.kind === 'question') this.#settle(event.open.callId, { error: ASKS_PEOPLE });
        return;
      case 'call.settled':
        return this.#settleCall(event, isMine);
      case 'note':
        if (event.event.type === 'run.quarantined') this.#retry();
        if (event.event.type === 'run.cancelled') this.#cancelled = event.event;
        return;
      default:
    }
  }

  /** Whether clients get an answer only once it was checked. */
  #isHeld(): boolean {
    const { finalAnswer, checksAnswer } = this.state.context.config;
    return checksAnswer && finalAnswer === 'held';
  }

  #take(text: string, isMine: boolean): void {
    const taken = { turn: this.#turns, place: this.#messages, message: messageOf(text) };
    this.taken.push(taken);
    this.#messages += 1;
    if (isMine) this.#showAnswer(taken.message, taken.place);
  }

  /** `place`: among the messages of the last turn. */
  #showAnswer(message: MessageItem, place: number): void {
    this.#turns -= 1;
    this.#turnItems(place).finish([message], { last: this.#isCutShort() ? 'incomplete' : 'completed' });
    this.#turn = null;
    this.#turns += 1;
  }

  /** Without streaming, a turn delivers its text before its reasoning, so its deltas would come in the wrong order. */
  #holds(): boolean {
    return this.#holdsTurns || this.state.context.stream !== true;
  }

  #retry(): void {
    this.#retries += 1;
    this.#turn?.tryAgain(this.#retries);
  }

  #showLists({ items }: Of<'message'>): void {
    for (const item of items)
      if (item.type === 'tool_list' && item.id !== undefined && this.#spec.lists.includes(item.id))
        this.#tell({ type: 'list', id: item.id, list: item });
  }

  #closeTurn({ completed }: Of<'turn.closed'>, isMine: boolean): void {
    const { items, calls, usage, appliedEdits: edits } = completed;
    this.#failure = null;
    this.#refused = refusalIn(items) !== '';
    if (isMine) {
      if (usage !== null) this.#tell({ type: 'usage', usage });
      if (edits !== undefined) this.#tell({ type: 'edited', edits });
      const shown =
        this.#isHeld() && calls.length === 0 ? items.filter(({ type }) => type !== 'message') : items;
      this.#turnItems().finish(shown, { last: this.#isCutShort() ? 'incomplete' : 'completed' });
    }
    this.#turn = null;
    this.#retries = 0;
    this.#turns += 1;
    this.#messages = blocksIn(items, { sealed: false }).filter(({ kind }) => kind === 'message').length;
    const made = new Map(
      items.flatMap(item => (item.type === 'tool_call' ? [[item.callId, item] as const] : [])),
    );
    for (const [place, { callId, name, gate }] of calls.entries()) {
      const call = { runId: this.#runId, turn: this.#turns, place, callId, name, gate };
      const item = made.get(callId);
      const more = item && callMembers(item);
      this.#open.set(callId, { ...call, arguments: item?.arguments ?? '', ...omitUndefined({ more }) });
    }
  }

  #isCutShort(): boolean {
    const state = this.state;
    const reason = hasEnded(state) ? this.#reasonOf(state.context) : undefined;
    return reason === 'length' || reason === 'content_filter';
  }

  #reasonOf({ next }: Context): string | undefined {
    if (next?.type !== 'finish') return undefined;
    return next.reason === 'content_filter' && this.#refused ? undefined : next.reason;
  }

  /** A call that never ran is shown if it could not run or was answered, not if it was rejected. */
  #settleCall({ callId, by, output, isError }: Of<'call.settled'>, isMine: boolean): void {
    const call = this.#open.get(callId);
    if (call === undefined || by === 'edit') return;
    this.#open.delete(callId);
    if (isMine && by === 'receipt') return this.#give({ ...call, more: { ...call.more, async: true } });
    const isOver = this.#spec.overBudget?.includes(callId) === true;
    if (isMine && by === 'refused') this.#start({ ...call, gate: false });
    if (isMine && (by === 'answer' || isOver)) this.#start(call);
    this.#settle(callId, isError ? { error: describeOutput(output) } : { output });
  }

  #start(call: PlacedCall): void {
    const tool = this.#shownToolOf(call);
    const ran = isServerTool(tool) ? 'mcp' : builtinOf(tool);
    if (tool === undefined || ran === undefined || this.#running.has(call.callId)) return;
    const started = { id: itemIdOf({ ...call, kind: ITEM_KINDS[ran] }), call, tool };
    this.#running.set(call.callId, started);
    this.#tell({ type: 'call.started', ...started });
  }

  #settle(callId: string, end: CallEnd): void {
    const running = this.#running.get(callId);
    if (running === undefined) return;
    this.#running.delete(callId);
    this.#tell({ type: 'call.ended', ...running, end });
  }

  #shownToolOf({ callId }: PlacedCall): ExposedTool | undefined {
    const tool = this.#tools.of(callId);
    return tool === undefined || isHidden(tool) ? undefined : tool;
  }

  #end(at: number): void {
    const state = this.state;
    const { context } = state;
    if (!hasEnded(state)) return this.#endAtRest(context, at);
    this.#abandon('The run ended before this call had a result.');
    const { next } = context;
    if (next?.type === 'fail') {
      return this.#finish(at, { status: 'failed', error: publicError(next, this.#spec) });
    }
    if (this.#cancelled !== null) {
      const { by, reason: message = 'The run was cancelled.' } = this.#cancelled;
      if (by !== RESPONSES) return this.#finish(at, { status: 'cancelled' });
      return this.#finish(at, { status: 'failed', error: { code: 'server_error', message } });
    }
    const reason = this.#reasonOf(context) ?? (this.#isCut(context) ? 'toolCalls' : undefined);
    this.#finish(at, endingFor(reason));
  }

  #endAtRest(context: Context, at: number): void {
    for (const { callId, status } of context.calls) {
      const call = this.#open.get(callId);
      if (call === undefined) continue;
      if (status === 'gated') this.#ask(call);
      if (status === 'waiting') this.#give(call);
    }
    if (context.review !== null) return this.#finish(at, endingFor('review'));
    if (context.calls.some(({ status }) => status === 'doubted'))
      return this.#finish(at, endingFor('outcome'));
    if (context.calls.some(({ status }) => status === 'asking'))
      return this.#finish(at, endingFor('question'));
    this.#finish(at, endingFor(this.#isCut(context) ? 'toolCalls' : undefined));
  }

  #ask(call: PlacedCall): void {
    const tool = this.#shownToolOf(call);
    const id = itemIdOf({ ...call, kind: 'mcpr' });
    if (isServerTool(tool)) this.#tell({ type: 'call.asked', id, call, tool });
  }

  #give(call: PlacedCall): void {
    const tool = this.#tools.of(call.callId);
    const as = callTypeFor(tool);
    const id = itemIdOf({ ...call, kind: isCustomTool(tool) ? 'ctc' : 'fc' });
    const namespace = namespaceOf(tool);
    const more = namespace === undefined ? {} : { more: { ...call.more, namespace } };
    this.#tell({ type: 'call.given', id, call: { ...call, name: tool?.name ?? call.name, ...more }, as });
  }

  #isCut({ deniedCalls }: Context): boolean {
    return deniedCalls > this.#deniedBefore || this.#spec.overBudget !== undefined;
  }

  #abandon(error: string): void {
    this.#turn?.abandon();
    this.#turn = null;
    for (const callId of [...this.#running.keys()]) this.#settle(callId, { error });
  }

  #finish(at: number, end: AnswerEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#tell({ type: 'ended', at, end, retryAfter: end.status === 'failed' ? this.#retryAfter() : null });
  }

  #retryAfter(): number | null {
    if (this.#spec.compacts === true) return this.#mayCompactAgain ? 0 : null;
    if (isOfLeaving(this.#cancelled?.reason)) return this.#ranTool ? null : 0;
    const failure = this.#failure;
    if (failure === null || this.#ranTool || this.#hasItems) return null;
    if (!failure.retryable && failure.callerRetries !== true) return null;
    const waitMs = Math.max(0, (failure.retryAt ?? 0) - failure.at);
    return Math.min(Math.ceil(waitMs / 1000), LONGEST_WAIT_S);
  }
}

const ASKS_PEOPLE = 'The tool asks people something, and the call waits for their answer.';

function messageOf(text: string): MessageItem {
  return { type: 'message', role: 'assistant', content: [{ type: 'text', text }] };
}

/** The longest wait that a client is asked for: providers can ask for any. */
const LONGEST_WAIT_S = 24 * 3600;

/** As at OpenAI, the limit of tool calls leaves a response `completed`; any other reason makes it `incomplete`. */
function endingFor(reason: string | undefined): AnswerEnd {
  if (reason === undefined) return { status: 'completed' };
  const status = reason === 'toolCalls' ? 'completed' : 'incomplete';
  return { status, incompleteReason: REASONS[reason] ?? reason };
}

const REASONS: Readonly<Record<string, string>> = {
  toolCalls: 'max_tool_calls',
  length: 'max_output_tokens',
  outcome: 'tool_outcome_unknown',
  review: UNDER_REVIEW,
  question: AWAITS_ANSWERS,
  rule: 'stopped_by_rule',
  turns: 'max_turns',
  'usage-unknown': 'usage_unknown',
};

/** Without messages for the operator: advice on the server's set-up, and quotes of hidden tools. */
function publicError(
  { code, message }: { code: string; message: string },
  { exposed, compacts }: ResponseSpec,
) {
  const isPart = compacts === true && code === 'refused';
  const wireCode = isPart ? 'compaction_incomplete' : (WIRE_CODES[code] ?? 'server_error');
  const said = (text: string) => ({ code: wireCode, message: text });
  if (OPERATOR_CODES.has(code))
    return said(`The server cannot use the model provider (${code}). See its log for the cause.`);
  return said(
    Object.entries(exposed).some(([name, tool]) => name !== SEARCH_TOOL && isHidden(tool))
      ? `The response failed (${code}). See the server's log for the cause.`
      : message,
  );
}

/** Of failures whose messages name addresses and environment variables. */
const OPERATOR_CODES: ReadonlySet<string> = new Set([
  'authentication',
  'permission',
  'not-found',
  'network',
  'redirect-refused',
]);

const WIRE_CODES: Readonly<Record<string, string>> = {
  'rate-limit': 'rate_limit_exceeded',
  quota: 'rate_limit_exceeded',
  'invalid-request': 'invalid_prompt',
  'context-too-long': 'context_length_exceeded',
};
