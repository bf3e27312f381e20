import type { Run } from '../engine/run/run.ts';
import type { Delta } from '../protocol/effect.ts';
import type { RunEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Broken } from '../protocol/sent.ts';
import type { FinishReason, ToolCall, Usage } from '../protocol/turn.ts';

/** A completed turn, as the loop body gets it. */
export type RunnerTurn = {
  /** The number of the turn in its run, from 1. */
  number: number;
  /** The model's text. */
  text: string;
  /** The tool calls that the model asked for. `error` is set for a call that is invalid and does not run. */
  toolCalls: Pick<ToolCall, 'callId' | 'name' | 'input' | 'error'>[];
  /** Why the model stopped. */
  finishReason: FinishReason;
  /** Token usage; `null` if the provider did not report it. */
  usage: Usage | null;
  /** Why the request did not begin with the one before it, so that the provider's cache and `lost` reasoning were of no use. */
  broken?: Broken;
  /** The provider that replied. */
  provider: string;
  /** The model that replied. */
  model: string;
  /** The reply as transcript items. Push these to keep the reply when you edit the transcript. */
  items: Item[];
};

/** The journal entry of a completed turn. */
export type CompletedTurn = Extract<RunEvent, { type: 'turn.completed' }> & { seq: number };

/** Returns a completed turn as the loop body gets it. */
export function describeTurn(event: CompletedTurn, number: number): RunnerTurn {
  const { text, finishReason, usage, broken, provider, model, items } = event;
  const toolCalls = event.calls.map(({ callId, name, input, error }) => ({
    callId,
    name,
    input,
    ...omitUndefined({ error }),
  }));
  return {
    number,
    text,
    toolCalls,
    finishReason,
    usage,
    ...omitUndefined({ broken }),
    provider,
    model,
    items,
  };
}

const NEVER = new Promise<never>(() => {});

/**
 * A turn while it streams. Iterating yields its deltas, including those of failed attempts, which are followed
 * by `text.discarded`. `turn()` resolves to the completed turn. Iterating is optional.
 *
 * @example
 * for await (const stream of turns(agent, 'Refund order A-1001', { stream: true })) {
 *   for await (const text of stream.text()) process.stdout.write(text);
 *   const { toolCalls } = await stream.turn();
 * }
 */
export class TurnStream implements AsyncIterable<Delta> {
  readonly #run: Run;
  readonly #after: number;
  readonly #completed: Promise<RunnerTurn | undefined>;

  constructor(run: Run, after: number, completed: Promise<RunnerTurn | undefined>) {
    this.#run = run;
    this.#after = after;
    this.#completed = completed;
  }

  /** Resolves to the completed turn. Rejects if its last attempt failed or it was a draft (`finalAnswer: 'separate'`). */
  async turn(): Promise<RunnerTurn> {
    const turn = await this.#completed;
    if (turn === undefined) throw new Error('The turn has no reply. See runner.done() for the reason.');
    return turn;
  }

  /** Yields the text as it streams. */
  async *text(): AsyncGenerator<string, void> {
    for await (const delta of this) if (delta.type === 'text.delta') yield delta.text;
  }

  /** Yields the deltas of the turn. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Delta, void> {
    const happenings = this.#run.events({ after: this.#after, follow: true })[Symbol.asyncIterator]();
    const failed = this.#completed.then(
      turn => turn === undefined || NEVER,
      () => true,
    );
    try {
      for (;;) {
        const next = await Promise.race([happenings.next(), failed]);
        if (typeof next !== 'object' || next.done || next.value.type === 'turn.completed') return;
        if (!('seq' in next.value)) yield next.value;
      }
    } finally {
      void happenings.return?.();
    }
  }
}
