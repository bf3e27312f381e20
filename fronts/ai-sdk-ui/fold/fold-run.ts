// fronts/ai-sdk-ui/fold: a run's journal as messages and chunks of the AI SDK.

import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import type { RunHappening } from '../../../engine/run/run-events.ts';
import { describeSettled } from '../../../engine/run/settled.ts';
import { statusOf } from '../../../machines/standing.ts';
import { type ChartState, statePath } from '../../../machines/step.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import {
  type ContentChunk,
  isToolChunk,
  type RunData,
  type UIMessage,
  type UIMessageChunk,
} from '../chunk.ts';
import type { DescribeError } from '../describe-error.ts';
import { FoldedCalls } from './fold-calls.ts';
import { StepWriter } from './step-writer.ts';
import { partsOfTurn, type Visibility } from './turn-parts.ts';
import { userMessagesOf } from './user-message.ts';

/** Options of the fold. */
export type FoldOptions = {
  /** The id of the run's assistant message number `number`, from 1. */
  messageId(number: number): string;
  /** Applies the agent's text filters to a model's text. */
  showText(text: string): string;
  /** Returns the text that a page shows for a failure. */
  describeError: DescribeError;
  /** Before the ids of calls, for those of a sub-agent's run. */
  callPrefix?: string;
};

type TurnBefore = { number: number; final: boolean };

/**
 * A chunk and its place: the number of its message, and the number of its step in that message (0 before the first
 * step).
 */
export type Placed = { message: number; step: number; chunk: ContentChunk };

/** An assistant message of the run under construction. */
export type Draft =
  | { type: 'user'; message: UIMessage }
  | { type: 'assistant'; number: number; id: string; chunks: Placed[] };

/**
 * Projects a run into UI messages: takes events and deltas, writes chunks. Pure: the same events give the same chunks.
 * The journal alone, without deltas, gives chunks that build the same messages.
 *
 * U1 An assistant message begins with the run, and after each message that the run receives. A step is one turn.
 * U2 If the streamed output of a turn differs from its entry, `reset-step` drops it and the entry's output is sent.
 * U3 The outcome of a call from an earlier message is recorded in that message and shown again in the current one.
 */
export class RunFold {
  readonly #options: FoldOptions;
  readonly #placed: (placed: Placed) => void;
  readonly drafts: Draft[] = [];
  #state: ChartState | null = null;
  #writer: StepWriter;
  readonly #calls: FoldedCalls;
  #number = 0;
  #isShown = false;
  #lastTurn: { parts: ReturnType<typeof partsOfTurn> } | null = null;
  #shownState = '';

  /** `placed` receives each chunk as it is made. */
  constructor(options: FoldOptions, placed: (placed: Placed) => void = () => {}) {
    this.#options = options;
    this.#placed = placed;
    this.#writer = new StepWriter(chunk => this.#emit(chunk));
    this.#calls = new FoldedCalls({
      messageId: number => options.messageId(number),
      describeError: options.describeError,
      emit: chunk => this.#emit(chunk),
      record: (number, chunk) => this.#record(number, chunk),
      prefix: options.callPrefix ?? '',
    });
  }

  /** The number of the current assistant message. */
  get current(): number {
    return this.#number;
  }

  /** The chart's state after the last entry. Throws a `TypeError` before the first entry. */
  get state(): ChartState {
    if (this.#state === null) throw new TypeError('The fold has no entry yet.');
    return this.#state;
  }

  take(happening: RunHappening): void {
    if ('seq' in happening) this.#takeEntry(happening);
    else this.#takeDelta(happening);
  }

  /** Adds the chunks of a sub-agent's calls at the current place. */
  show(chunks: readonly ContentChunk[]): void {
    for (const chunk of chunks) this.#emit(chunk);
  }

  /** Shows the calls that wait for a decision and are in an earlier message. Call it at the end of a response. */
  rest(): void {
    this.#calls.repeatOpen(this.#number);
  }

  #takeDelta(delta: Exclude<RunHappening, { seq: number }>): void {
    switch (delta.type) {
      case 'text.delta':
      case 'reasoning.delta':
        this.#writer.write(delta.type === 'text.delta' ? 'text' : 'reasoning', delta);
        return;
      case 'call.delta':
        this.#writer.writeCall(delta);
        return;
      case 'tool.progress':
        this.#emit({
          type: 'data-progress',
          data: { toolCallId: delta.callId, data: delta.data },
          transient: true,
        });
        return;
      case 'text.discarded':
        this.#writer.discard();
        return;
      case 'decided':
        return;
    }
  }

  #takeEntry(event: RunEvent & { runId: string; seq: number }): void {
    const { runId, seq } = event;
    let turn = { number: 0, final: false };
    if (event.type === 'run.started') {
      this.#state = beginFold(event);
      this.#addUser(event.input, `${runId}.input`);
      this.#beginMessage();
    } else {
      turn = this.state.context.turn;
      this.#state = foldEntry(this.state, { seq, event }, runId);
      if (event.type === 'message.received') {
        this.#addUser(event.items, `${runId}.${seq}`);
        this.#beginMessage();
      }
    }
    this.#showState();
    this.#takeTurn(event, turn);
    this.#calls.follow(event, this.state.context, this.#number);
  }

  /** `turn` is the turn before the entry, because the entry may have begun the next turn. */
  #takeTurn(event: RunEvent, turn: TurnBefore): void {
    switch (event.type) {
      case 'text.started':
        this.#isShown = true;
        return;
      case 'turn.failed':
      case 'run.claimed':
      case 'run.cancelled':
        this.#writer.discard();
        this.#isShown = false;
        return;
      case 'finishers.rejected':
        this.#writer.replace([]);
        return;
      case 'turn.completed':
        this.#completeTurn(event, turn);
        return;
      case 'finishers.completed':
        if (event.text !== undefined) this.#replaceAnswer(event.text);
        return;
      default:
        return;
    }
  }

  #completeTurn(event: Extract<RunEvent, { type: 'turn.completed' }>, { number, final }: TurnBefore): void {
    const { context } = this.state;
    const { config, lastTurn } = context;
    const visible: Visibility = {
      text: this.#isShown,
      reasoning: this.#isShown || final || config.finalAnswer === 'live',
      showText: this.#options.showText,
    };
    this.#isShown = false;
    const parts = lastTurn?.draft === true ? [] : partsOfTurn(event, visible, `${context.runId}-${number}`);
    this.#lastTurn = { parts };
    this.#writer.complete(number, parts);
    this.#calls.begin(event.calls, context, this.#number);
  }

  /** A finisher has changed the answer. */
  #replaceAnswer(text: string): void {
    const shown = this.#options.showText(text);
    const kept = (this.#lastTurn?.parts ?? []).filter(({ type }) => type !== 'text');
    this.#writer.replace([...kept, { type: 'text', text: shown }]);
  }

  #addUser(items: readonly Item[], id: string): void {
    for (const message of userMessagesOf(items, id)) this.drafts.push({ type: 'user', message });
  }

  #beginMessage(): void {
    this.#writer.discard();
    this.#writer.end();
    this.#number += 1;
    this.drafts.push({
      type: 'assistant',
      number: this.#number,
      id: this.#options.messageId(this.#number),
      chunks: [],
    });
    this.#writer = new StepWriter(chunk => this.#emit(chunk));
    this.#shownState = '';
  }

  #showState(): void {
    const data = describeState(this.state);
    const shown = JSON.stringify(data);
    if (shown === this.#shownState) return;
    this.#shownState = shown;
    this.#emit({ type: 'data-run', id: 'run', data });
  }

  #emit(chunk: ContentChunk): void {
    const placed = { message: this.#number, step: this.#writer.step, chunk: this.#prefixed(chunk) };
    this.#draft(this.#number)?.push(placed);
    this.#placed(placed);
  }

  /** Adds a chunk to an earlier message. It is not sent to pages that already have that message. */
  #record(number: number, chunk: ContentChunk): void {
    this.#draft(number)?.push({
      message: number,
      step: Number.MAX_SAFE_INTEGER,
      chunk: this.#prefixed(chunk),
    });
  }

  #prefixed(chunk: ContentChunk): ContentChunk {
    const { callPrefix } = this.#options;
    if (callPrefix === undefined || !isToolChunk(chunk)) return chunk;
    return { ...chunk, toolCallId: `${callPrefix}${chunk.toolCallId}` };
  }

  #draft(number: number): Placed[] | undefined {
    for (const draft of this.drafts)
      if (draft.type === 'assistant' && draft.number === number) return draft.chunks;
    return undefined;
  }
}

function describeState(state: ChartState): RunData {
  const { context } = state;
  const status = statusOf(state);
  const { next } = context;
  const why = status === 'waiting' ? next?.why : undefined;
  const error = status === 'failed' && next?.type === 'fail' ? next.code : undefined;
  return { runId: context.runId, state: statePath(state), status, ...omitUndefined({ why, error }) };
}

/**
 * Returns the final chunks of a response, by the state of its run. `isAskedBelow`: a call of a sub-agent waits for an
 * approval.
 */
export function endOf(
  state: ChartState,
  describeError: DescribeError,
  { isAskedBelow }: { isAskedBelow: boolean },
): UIMessageChunk[] {
  const settled = describeSettled(state, text => text);
  switch (settled?.status) {
    case 'finished': {
      // Without `interrupted`, a page may post a message that ends with calls again.
      const endsWithCalls = (state.context.lastTurn?.calls ?? 0) > 0;
      const reason = finishReasonOf(settled.incomplete?.reason);
      return [{ type: 'finish', finishReason: endsWithCalls ? 'interrupted' : reason }];
    }
    case 'failed':
      return [
        { type: 'finish', finishReason: 'error' },
        { type: 'error', errorText: describeError({ type: 'run', ...settled.error }) },
      ];
    case 'cancelled':
      return [
        { type: 'abort', reason: 'The run was cancelled.' },
        { type: 'finish', finishReason: 'interrupted' },
      ];
    case 'waiting': {
      const isAsking =
        isAskedBelow || settled.open.some(({ kind }) => kind === 'approval' || kind === 'result');
      return [{ type: 'finish', finishReason: isAsking && !settled.paused ? 'tool-calls' : 'interrupted' }];
    }
    default:
      return [{ type: 'finish', finishReason: 'other' }];
  }
}

function finishReasonOf(reason: string | undefined): 'stop' | 'length' | 'content-filter' | 'other' {
  if (reason === undefined) return 'stop';
  if (reason === 'length') return 'length';
  return reason === 'content_filter' ? 'content-filter' : 'other';
}
