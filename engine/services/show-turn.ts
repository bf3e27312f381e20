import type { Context } from '../../machines/context.ts';
import { textOf } from '../../protocol/message.ts';
import type { ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { chainFilters, type TextFilter } from '../../text/text-filter.ts';
import type { ServiceScope } from './service.ts';

/**
 * What of a turn reaches the reader, and what the chart is told of it.
 *
 * T1 `text.started` is reported at most once a turn, iff text reaches the reader.
 * T2 `calls.started` is reported at most once a turn, iff the turn has calls.
 * T3 A turn that came whole gives the same reports, in the same order, as the same turn streamed.
 */
export class TurnDisplay {
  readonly #scope: ServiceScope;
  readonly #place: { turn: number; attempt: number };
  readonly #filter: TextFilter;
  /** Text is shown as it comes; under `held` only once the turn has proved final. */
  readonly #visible: boolean;
  readonly #held: boolean;
  #textStarted = false;
  #callsStarted = false;
  #streamed = false;

  constructor(scope: ServiceScope, context: Context, filters: readonly (() => TextFilter)[]) {
    this.#scope = scope;
    this.#place = { turn: context.turn.number, attempt: context.turn.attempt };
    this.#filter = chainFilters(filters);
    this.#visible = context.config.finalAnswer === 'live' || context.turn.final;
    this.#held = context.config.finalAnswer === 'held' && !context.turn.final;
  }

  /** Takes a delta of a streamed turn. */
  take(delta: Exclude<TurnDelta, { type: 'turn' }>): void {
    switch (delta.type) {
      case 'text':
        if (delta.text === '') return;
        this.#streamed = true;
        this.#showText(delta.text);
        return;
      case 'reasoning':
        if (this.#visible) this.#scope.publish({ type: 'reasoning.delta', ...this.#place, text: delta.text });
        return;
      case 'call_started':
        this.#startCalls();
        return;
      case 'call_arguments':
        return;
    }
  }

  /** The turn is complete: shows what has not been shown of it. */
  finish(turn: ModelTurn): void {
    for (const item of turn.items) {
      if (item.type === 'tool_call') this.#startCalls();
      if (!this.#streamed && item.type === 'message') this.#showText(textOf(item));
    }
    const hasCalls = turn.toolCalls.some(call => call.executedBy !== 'provider');
    if (hasCalls) this.#startCalls();
    if (this.#held && !hasCalls) this.#release(turn.text);
    if (this.#textStarted) this.#publishText(this.#filter.end());
  }

  #release(text: string): void {
    if (text === '') return;
    this.#startText();
    this.#publishText(this.#filter.push(text));
  }

  #showText(text: string): void {
    if (!this.#visible || text === '') return;
    this.#startText();
    this.#publishText(this.#filter.push(text));
  }

  #startText(): void {
    if (this.#textStarted) return;
    this.#textStarted = true;
    this.#scope.report({ type: 'text.started' });
  }

  #startCalls(): void {
    if (this.#callsStarted) return;
    this.#callsStarted = true;
    this.#scope.report({ type: 'calls.started' });
  }

  #publishText(text: string): void {
    if (text !== '') this.#scope.publish({ type: 'text.delta', ...this.#place, text });
  }
}
