import type { Context } from '../../../machines/context.ts';
import type { QualifiedCall, RunEvent } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { ContentChunk, ToolChunk } from '../chunk.ts';
import type { DescribeError } from '../describe-error.ts';
import { findOutcome, type Outcome } from './find-outcome.ts';

type Followed = {
  call: QualifiedCall;
  /** The numbers of the message that made the call, and of the latest message that shows it. */
  message: number;
  shownIn: number;
  approvalId: string | null;
  isDecided: boolean;
  isInDoubt: boolean;
};

type FoldedCallsOptions = {
  messageId(number: number): string;
  describeError: DescribeError;
  emit(chunk: ContentChunk): void;
  /** Before the ids of calls. */
  prefix: string;
  /** Adds a chunk to an earlier message. */
  record(message: number, chunk: ContentChunk): void;
};

/** Follows the calls of the current round and writes the chunks of their outcomes. */
export class FoldedCalls {
  readonly #options: FoldedCallsOptions;
  #open: Followed[] = [];

  constructor(options: FoldedCallsOptions) {
    this.#options = options;
  }

  /** Follows the calls of a completed turn, whose inputs have been written. */
  begin(calls: readonly QualifiedCall[], context: Context, message: number): void {
    this.#open = calls
      .filter(({ error }) => error === undefined)
      .map(call => ({
        call,
        message,
        shownIn: message,
        approvalId: null,
        isDecided: false,
        isInDoubt: false,
      }));
    for (const followed of this.#open)
      if (statusOf(context, followed.call.callId) === 'gated') this.#ask(followed, message);
  }

  /** Writes the chunks for the calls that an entry changed. */
  follow(event: RunEvent, context: Context, message: number): void {
    if (event.type === 'turn.completed' || this.#open.length === 0) {
      if (event.type === 'turn.completed') this.#settle(event, context, message);
      return;
    }
    if (event.type === 'approval.decided') this.#decide(event, message);
    if (event.type === 'tool.suspended') this.#suspend(event, message);
    this.#settle(event, context, message);
  }

  /** Shows the calls that wait for a decision and are not in this message. */
  repeatOpen(message: number): void {
    for (const followed of this.#open)
      if (followed.shownIn < message && followed.approvalId !== null && !followed.isDecided)
        this.#show(followed, message);
  }

  #decide({ callId, decision }: Extract<RunEvent, { type: 'approval.decided' }>, message: number): void {
    const followed = this.#open.find(({ call }) => call.callId === callId);
    if (followed === undefined || decision.type === 'answer') return;
    const reason =
      decision.type === 'reject' && decision.reason !== undefined ? { reason: decision.reason } : {};
    this.#respond(followed, message, { approved: decision.type === 'approve', ...reason });
  }

  /**
   * Writes a preliminary output for a call that waits for its sub-agent: a page posts answers only when every call of a
   * step has an output.
   */
  #suspend({ callId, childRunId }: Extract<RunEvent, { type: 'tool.suspended' }>, message: number): void {
    const followed = this.#open.find(({ call }) => call.callId === callId);
    const output = { waitsFor: childRunId };
    if (followed !== undefined)
      this.#write(followed, message, { type: 'tool-output-available', toolCallId: callId, output });
  }

  #respond(followed: Followed, message: number, answer: { approved: boolean; reason?: string }): void {
    if (followed.approvalId === null || followed.isDecided) return;
    const first = this.#approvalId(followed.message, followed.call.callId);
    const late = followed.message < message;
    if (late) this.#show(followed, message);
    followed.isDecided = true;
    const { callId: toolCallId } = followed.call;
    this.#options.emit({
      type: 'tool-approval-response',
      toolCallId,
      approvalId: followed.approvalId,
      ...answer,
    });
    if (late)
      this.#options.record(followed.message, {
        type: 'tool-approval-response',
        toolCallId,
        approvalId: first,
        ...answer,
      });
  }

  #settle(event: RunEvent, context: Context, message: number): void {
    const unsettled: Followed[] = [];
    for (const followed of this.#open) {
      const status = statusOf(context, followed.call.callId);
      if (status === 'settled') {
        this.#finish(followed, event, context, message);
        continue;
      }
      unsettled.push(followed);
      if (status === 'doubted' && !followed.isInDoubt) {
        followed.isInDoubt = true;
        const errorText = 'Whether this call took effect is unknown. A person must check.';
        this.#write(followed, message, {
          type: 'tool-output-error',
          toolCallId: followed.call.callId,
          errorText,
        });
      }
    }
    this.#open = unsettled;
  }

  #finish(followed: Followed, event: RunEvent, context: Context, message: number): void {
    const { call } = followed;
    const outcome = findOutcome(context, call.callId);
    const isRefused = followed.approvalId !== null && !followed.isDecided && outcome.isError;
    if (isRefused) this.#respond(followed, message, { approved: false });
    const isDenied = isRefused || (event.type === 'approval.decided' && event.decision.type === 'reject');
    const chunk: ToolChunk =
      isDenied && outcome.isError && event.type !== 'tool.settled'
        ? { type: 'tool-output-denied', toolCallId: call.callId }
        : this.#outputChunk(call, event, outcome);
    this.#write(followed, message, chunk);
  }

  #outputChunk({ callId, name }: QualifiedCall, event: RunEvent, { output, isError }: Outcome): ToolChunk {
    if (!isError) return { type: 'tool-output-available', toolCallId: callId, output };
    const message = typeof output === 'string' ? output : JSON.stringify(output);
    const isGiven = event.type === 'result.received' || event.type === 'doubt.resolved';
    const errorText = isGiven
      ? message
      : this.#options.describeError({ type: 'tool', code: 'tool-failed', message, toolName: name });
    return { type: 'tool-output-error', toolCallId: callId, errorText };
  }

  #write(followed: Followed, message: number, chunk: ToolChunk): void {
    if (followed.message < message) {
      this.#show(followed, message);
      this.#options.record(followed.message, chunk);
    }
    this.#options.emit(chunk);
  }

  /** Shows a call of an earlier message in this one. */
  #show(followed: Followed, message: number): void {
    if (followed.shownIn >= message) return;
    followed.shownIn = message;
    const { callId, name, input } = followed.call;
    this.#options.emit({ type: 'tool-input-available', toolCallId: callId, toolName: name, input });
    if (followed.approvalId !== null && !followed.isDecided) this.#ask(followed, message);
  }

  #approvalId(message: number, callId: string): string {
    return approvalIdOf(this.#options.messageId(message), `${this.#options.prefix}${callId}`);
  }

  #ask(followed: Followed, message: number): void {
    const { callId, reason } = followed.call;
    followed.approvalId = this.#approvalId(message, callId);
    this.#options.emit({
      type: 'tool-approval-request',
      toolCallId: callId,
      approvalId: followed.approvalId,
      ...omitUndefined({ reason }),
    });
  }
}

/** Returns the id of the request to approve a call, in the message that shows it. */
export function approvalIdOf(messageId: string, callId: string): string {
  return `${messageId}:${callId}`;
}

function statusOf({ calls }: Context, callId: string): string {
  return calls.find(call => call.callId === callId)?.status ?? 'settled';
}
