import type { Context } from '../../machines/context.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { refusalOf, textOf } from '../../protocol/message.ts';
import type { ModelTurn, Skipped, TurnDelta } from '../../protocol/turn.ts';
import { chainFilters, type TextFilter } from '../../text/text-filter.ts';
import type { ServiceScope } from './service.ts';

/**
 * Streams a turn's text to readers and reports it to the chart.
 *
 * T1 `text.started` is reported at most once per turn, if and only if text is streamed.
 * T2 `calls.started` is reported at most once per turn, if and only if the turn has calls.
 * T3 Pieces of calls carry only ids that the calls keep in the journal.
 * T4 A generated turn leads to the same reports, in the same order, as the same turn streamed.
 */
export class TurnDisplay {
  readonly #scope: ServiceScope;
  readonly #place: { turn: number; attempt: number };
  readonly #filter: TextFilter;
  /** Text is shown immediately; with `held`, only after the turn proved to be the answer. */
  readonly #visible: boolean;
  readonly #held: boolean;
  readonly #findUsed: () => Set<string>;
  #used: Set<string> | undefined;
  #textStarted = false;
  #callsStarted = false;
  #streamed = false;
  /** What the stream skipped before the text. */
  #skipped: Skipped = {};

  constructor(
    scope: ServiceScope,
    context: Context,
    filters: readonly (() => TextFilter)[],
    /** Returns the ids of the calls before this turn, as a new set. */
    findUsed: () => Set<string>,
  ) {
    this.#scope = scope;
    this.#place = { turn: context.turn.number, attempt: context.turn.attempt };
    this.#filter = chainFilters(filters);
    this.#findUsed = findUsed;
    this.#visible = context.config.finalAnswer === 'live' || context.turn.final;
    this.#held = context.config.finalAnswer === 'held' && !context.turn.final;
  }

  /** Handles a delta of a streamed turn. */
  take(delta: Exclude<TurnDelta, { type: 'turn' }>): void {
    switch (delta.type) {
      case 'text':
        if (delta.text === '') return;
        this.#streamed = true;
        this.#showText(delta.text, delta);
        return;
      case 'reasoning':
        if (this.#visible) this.#scope.publish({ ...delta, type: 'reasoning.delta', ...this.#place });
        return;
      case 'call_started':
        this.#startCalls();
        this.#publishCall({ index: delta.index, name: delta.name, text: '', ...this.#freshId(delta.callId) });
        return;
      case 'call_arguments':
        if (delta.text !== '') this.#publishCall({ index: delta.index, text: delta.text });
        return;
    }
  }

  /** Shows the rest of the complete turn. */
  finish(turn: ModelTurn): void {
    let refusals = 0;
    for (const item of turn.items) {
      if (item.type === 'tool_call') this.#startCalls();
      if (!this.#streamed && item.type === 'message')
        this.#showText(textOf(item), refusals > 0 ? { refusals } : {});
      if (refusalOf(item) !== '') refusals += 1;
    }
    const hasCalls = turn.toolCalls.some(call => call.executedBy !== 'provider');
    if (hasCalls) this.#startCalls();
    if (this.#held && !hasCalls) this.#release(turn);
    if (this.#textStarted) this.#publishText(this.#filter.end());
  }

  #release({ text, items }: ModelTurn): void {
    if (text === '') return;
    for (const item of this.#streamed ? items : [])
      if (item.type === 'reasoning' && item.text !== '')
        this.#scope.publish({ type: 'reasoning.delta', ...this.#place, text: item.text });
    this.#startText();
    this.#publishText(this.#filter.push(text));
  }

  #showText(text: string, { refusals, sealed }: Skipped): void {
    if (!this.#visible || text === '') return;
    this.#skipped = omitUndefined({ refusals, sealed });
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

  #publishCall(piece: { index: number; callId?: string; name?: string; text: string }): void {
    this.#scope.publish({ type: 'call.delta', ...this.#place, ...piece });
  }

  /** The id, unless the run has used it: such a call gets another id once the turn is complete. */
  #freshId(callId: string | undefined): { callId?: string } {
    this.#used ??= this.#findUsed();
    if (callId === undefined || this.#used.has(callId)) return {};
    this.#used.add(callId);
    return { callId };
  }

  #publishText(text: string): void {
    if (text !== '') this.#scope.publish({ type: 'text.delta', ...this.#place, text, ...this.#skipped });
  }
}
