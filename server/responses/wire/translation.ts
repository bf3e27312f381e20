/**
 * Translation of a run into the Responses API. `Translation` folds the journal and decides which part of it is the
 * response; `TurnWriter` writes messages and reasoning, `CallWriter` tool calls, and `ResponseWriter` numbers the events
 * and builds the response object. Ids follow from places in the journal (`wire-ids.ts`), so a stored response translates
 * to the same items every time.
 */

import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { callsWith } from '../../../machines/calls.ts';
import type { CallResult, Context } from '../../../machines/context.ts';
import { hasEnded } from '../../../machines/standing.ts';
import type { ChartState } from '../../../machines/step.ts';
import { describeOutput } from '../../../protocol/content/read-content.ts';
import type { Delta } from '../../../protocol/effect.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';
import { CallTools } from '../gateway/call-tools.ts';
import type { PlacedCall } from './call-shapes.ts';
import { CallWriter } from './call-writer.ts';
import { endingFor, isAnswered, publicError } from './response-ending.ts';
import type { ResponseHead } from './response-object.ts';
import { OUTCOME_UNKNOWN, passesBuiltins, RESPONSES, type ResponseSpec } from './response-spec.ts';
import { ResponseWriter, type WireEvent } from './response-writer.ts';
import { toolListItem } from './tool-list.ts';
import { refusalIn, TurnWriter } from './turn-writer.ts';

type Of<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

/**
 * Translates the journal entries and live output of a part of a run into the events of one response.
 *
 * R1 The response depends only on the journal; deltas deliver parts of it earlier. They also show what failed attempts
 *    said, which the journal does not have.
 * R2 Entries before `from` are folded but produce no events. The response ends at the first entry where the run rests or
 *    has ended and everything in the request was accepted. Later entries belong to the next response.
 */
export class Translation {
  readonly #runId: string;
  readonly #from: number;
  readonly #spec: ResponseSpec;
  readonly #writer: ResponseWriter;
  readonly #tools: CallTools;
  readonly #calls: CallWriter;
  readonly #sealed: boolean;
  /**
   * Whether nothing of a turn is written before it is complete: for a response that nobody reads as it is made, and
   * because compactions and calls of the provider come before the turn's text, but are known only then.
   */
  readonly #holdsTurns: boolean;
  /** The open calls of the current round. */
  readonly #open = new Map<string, PlacedCall>();
  #state: ChartState | null = null;
  #turn: TurnWriter | null = null;
  #turns = 0;
  /** The number of failed attempts of the current turn. */
  #retries = 0;
  /** The chart's number of the last completed turn. */
  #lastTurn = 0;
  /** The number of calls denied by the tool call limit in earlier responses. */
  #deniedBefore = 0;
  #begun = false;
  /** Whether an MCP call was started for the response. */
  #ranTool = false;
  /** Whether the last turn has a refusal in words, which is a complete answer. */
  #refused = false;
  /** The last failed attempt of the current turn. */
  #failure: Of<'turn.failed'> | null = null;
  #isAhead = false;

  /**
   * `previous` is the translation of the previous response, which has taken every entry before `from`. This one
   * continues from its state. `firstNumber` is the number of the first event, by default 0.
   */
  constructor(
    head: ResponseHead,
    options: { runId: string; from: number; previous?: Translation; firstNumber?: number },
  ) {
    const { runId, from, previous, firstNumber = 0 } = options;
    this.#runId = runId;
    this.#from = from;
    this.#spec = head.spec;
    this.#writer = new ResponseWriter(head, firstNumber);
    this.#tools = previous === undefined ? new CallTools() : previous.#tools;
    const { include } = head.spec.request;
    const included = Array.isArray(include) ? include : [];
    this.#calls = new CallWriter(this.#writer, this.#tools, included);
    if (previous !== undefined) {
      this.#state = previous.#state;
      this.#turns = previous.#turns;
      this.#retries = previous.#retries;
      this.#lastTurn = previous.#lastTurn;
      this.#deniedBefore = previous.#known().context.deniedCalls;
      for (const [callId, call] of previous.#open) this.#open.set(callId, call);
    }
    this.#sealed = included.includes('reasoning.encrypted_content');
    const { context_management, stream, background } = head.spec.request;
    const isStreamed = stream === true || background === true;
    this.#holdsTurns = !isStreamed || context_management != null || passesBuiltins(head.spec);
  }

  /** Whether the response has ended. */
  get isOver(): boolean {
    return this.#writer.isOver;
  }

  /** The current response object. */
  get response() {
    return this.#writer.response;
  }

  /** Whether deltas have written something, so that the output may have more than the journal: failed attempts. */
  get isAhead(): boolean {
    return this.#isAhead;
  }

  /** The completed output items. */
  get output() {
    return this.#writer.output;
  }

  /**
   * For a failed response: the seconds after which the client may send the same request again. `null` if a retry would
   * not help, or could repeat what a tool did.
   */
  get retryAfter(): number | null {
    const failure = this.#failure;
    if (failure === null || !failure.retryable || this.#ranTool || this.output.length > 0) return null;
    const waitMs = Math.max(0, (failure.retryAt ?? 0) - failure.at);
    return Math.ceil(waitMs / 1000);
  }

  /** The first two events; nothing if they were written before. */
  begin(): WireEvent[] {
    this.#begin();
    return this.#writer.drain();
  }

  /** Takes the next journal entry and returns the new events. */
  takeEntry(entry: JournalEntry): WireEvent[] {
    if (this.isOver) return [];
    this.#state =
      entry.event.type === 'run.started'
        ? beginFold(entry.event)
        : foldEntry(this.#known(), entry, this.#runId);
    this.#tools.take(entry.event);
    const isMine = entry.seq >= this.#from;
    if (!isMine) this.#deniedBefore = this.#state.context.deniedCalls;
    if (isMine) this.#begin();
    this.#read(entry.event, isMine);
    if (isMine && isAnswered(this.#known(), this.#spec)) this.#end(entry.event);
    return this.#writer.drain();
  }

  /** Takes live output and returns the new events. */
  takeDelta(delta: Delta): WireEvent[] {
    if (this.isOver || !('turn' in delta) || delta.turn <= this.#lastTurn) return [];
    // A call is an item once it is complete.
    if (delta.type === 'call.delta') return [];
    // Without streaming, a turn delivers its text before its reasoning, so its deltas would come in the wrong order.
    if (this.#state?.context.stream !== true || this.#holdsTurns) return [];
    this.#isAhead = true;
    if (delta.type === 'text.discarded') this.#turn?.discard();
    else {
      const kind = delta.type === 'text.delta' ? 'message' : 'reasoning';
      this.#turnWriter().take(kind, delta.text, delta);
    }
    return this.#writer.drain();
  }

  /** Ends the response as failed, because this process cannot continue the run. `at` is in ms since the epoch. */
  fail(at: number, error: { code: string; message: string }): WireEvent[] {
    this.#begin();
    this.#abandon(error.message);
    this.#writer.end(at, { status: 'failed', error });
    return this.#writer.drain();
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#writer.begin();
  }

  #known(): ChartState {
    if (this.#state === null) throw new Error('a journal begins with run.started');
    return this.#state;
  }

  #turnWriter(): TurnWriter {
    this.#turn ??= new TurnWriter(this.#writer, {
      runId: this.#runId,
      turn: this.#turns + 1,
      retry: this.#retries,
      sealed: this.#sealed,
    });
    return this.#turn;
  }

  #read(event: RunEvent, isMine: boolean): void {
    switch (event.type) {
      case 'run.started':
        if (isMine) this.#showLists(event);
        return;
      case 'turn.completed':
        this.#failure = null;
        this.#refused = refusalIn(event.items) !== '';
        this.#completeTurn(event, isMine);
        break;
      case 'turn.failed':
        this.#failure = event;
        this.#retry();
        break;
      case 'run.quarantined':
        this.#retry();
        break;
      case 'tool.started': {
        const call = this.#open.get(event.callId);
        if (isMine) this.#ranTool = true;
        if (isMine && call !== undefined) this.#calls.start(call);
        return;
      }
      case 'tool.doubted':
      case 'tool.interrupted':
        // An interrupted call may run again, or be asked about, instead of being in doubt.
        if (callsWith(this.#known().context, 'doubted').some(({ callId }) => callId === event.callId))
          this.#calls.settle(event.callId, { error: OUTCOME_UNKNOWN });
        return;
      default:
    }
    this.#settleCalls(event, isMine);
  }

  #retry(): void {
    this.#retries += 1;
    this.#turn?.tryAgain(this.#retries);
  }

  #showLists({ input }: Of<'run.started'>): void {
    for (const item of input) {
      if (item.type !== 'tool_list' || item.id === undefined || !this.#spec.lists.includes(item.id)) continue;
      const full = toolListItem(item);
      const index = this.#writer.open(
        toolListItem({ type: 'tool_list', id: item.id, label: item.label, tools: [] }),
      );
      const place = { item_id: item.id, output_index: index };
      this.#writer.write('response.mcp_list_tools.in_progress', place);
      this.#writer.write(
        `response.mcp_list_tools.${item.error === undefined ? 'completed' : 'failed'}`,
        place,
      );
      this.#writer.close(index, full);
    }
  }

  #completeTurn(event: Of<'turn.completed'>, isMine: boolean): void {
    if (isMine) {
      if (event.usage !== null) this.#writer.addUsage(event.usage);
      this.#turnWriter().finish(event.items, { last: this.#isCutShort() ? 'incomplete' : 'completed' });
    }
    this.#turn = null;
    this.#retries = 0;
    this.#turns += 1;
    this.#lastTurn = this.#known().context.turn.number;
    const written = new Map(
      event.items.flatMap(item =>
        item.type === 'tool_call' ? [[item.callId, item.arguments] as const] : [],
      ),
    );
    for (const [place, { callId, name, gate }] of event.calls.entries()) {
      const call = { runId: this.#runId, turn: this.#turns, place, callId, name, gate };
      this.#open.set(callId, { ...call, arguments: written.get(callId) ?? '' });
    }
  }

  /** Whether the run ended with an answer that the provider cut. */
  #isCutShort(): boolean {
    const state = this.#known();
    const reason = hasEnded(state) ? this.#reasonOf(state.context) : undefined;
    return reason === 'length' || reason === 'content_filter';
  }

  /** Why the answer of an ended run is incomplete, if it is. */
  #reasonOf({ next }: Context): string | undefined {
    if (next?.type !== 'finish') return undefined;
    return next.reason === 'content_filter' && this.#refused ? undefined : next.reason;
  }

  /** Closes settled calls. A call that never ran is shown if it could not run or was answered, not if it was rejected. */
  #settleCalls(event: RunEvent, isMine: boolean): void {
    const { context } = this.#known();
    for (const [callId, call] of this.#open) {
      const result = resultOf(context, callId);
      if (result === undefined) continue;
      this.#open.delete(callId);
      const couldNotRun = event.type === 'turn.completed';
      const answered = event.type === 'approval.decided' && event.decision.type === 'answer';
      const isOver = this.#spec.overBudget?.includes(callId) === true;
      if (isMine && couldNotRun) this.#calls.start({ ...call, gate: false });
      if (isMine && (answered || isOver)) this.#calls.start(call);
      const { output, isError } = result;
      this.#calls.settle(callId, isError ? { error: describeOutput(output) } : { output });
    }
  }

  #end(event: RunEvent): void {
    const state = this.#known();
    const { context } = state;
    const at = event.at;
    if (!hasEnded(state)) return this.#endAtRest(context, at);
    this.#abandon('The run ended before this call had a result.');
    const { next } = context;
    if (next?.type === 'fail') {
      return this.#writer.end(at, { status: 'failed', error: publicError(next, this.#spec) });
    }
    if (event.type === 'run.cancelled') {
      if (event.by !== RESPONSES) return this.#writer.end(at, { status: 'cancelled' });
      const message = event.reason ?? 'The run was cancelled.';
      return this.#writer.end(at, { status: 'failed', error: { code: 'server_error', message } });
    }
    this.#writer.end(
      at,
      endingFor(this.#reasonOf(context) ?? (this.#isCut(context) ? 'toolCalls' : undefined)),
    );
  }

  #endAtRest(context: Context, at: number): void {
    for (const { callId, status } of context.calls) {
      const call = this.#open.get(callId);
      if (call === undefined) continue;
      if (status === 'gated') this.#calls.askApproval(call);
      if (status === 'waiting') this.#calls.handOver(call);
    }
    if (callsWith(context, 'doubted').length > 0) return this.#writer.end(at, endingFor('outcome'));
    this.#writer.end(at, endingFor(this.#isCut(context) ? 'toolCalls' : undefined));
  }

  /** Whether calls did not run because of the response's limit. */
  #isCut({ deniedCalls }: Context): boolean {
    return deniedCalls > this.#deniedBefore || this.#spec.overBudget !== undefined;
  }

  #abandon(error: string): void {
    this.#turn?.abandon();
    this.#turn = null;
    this.#calls.abandon(error);
  }
}

/** The result of a call; `undefined` if it has none yet. */
export function resultOf({ calls, transcript }: Context, callId: string): CallResult | undefined {
  const call = calls.find(known => known.callId === callId);
  if (call !== undefined) return call.status === 'settled' ? call.result : undefined;
  return transcript.findLast(item => item.type === 'tool_result' && item.callId === callId) as
    | CallResult
    | undefined;
}
