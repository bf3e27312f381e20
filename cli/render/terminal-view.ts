import { beginFold, foldEntry } from '../../engine/journal/load-run.ts';
import type { RunHappening } from '../../engine/run/run.ts';
import type { Settled } from '../../engine/run/settled.ts';
import { findCall } from '../../machines/calls.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import type { Delta } from '../../protocol/effect.ts';
import type { CommandLines } from './command-lines.ts';
import {
  describeEvent,
  describeFailedTurn,
  describePlayed,
  describeTurn,
  INTERRUPTED,
  nameModels,
  showValue,
} from './describe-event.ts';
import { formatSpan } from './format-time.ts';
import type { Output, Segment } from './output.ts';
import { showEnd } from './show-end.ts';

type Entry = Extract<RunHappening, { seq: number }>;
type Of<Type extends Entry['type']> = Extract<Entry, { type: Type }>;

type TerminalViewOptions = {
  output: Output;
  /** The state before the first entry to show; `null` to show the run from its first event. */
  state: ChartState | null;
  /** Applies the agent's text filters. */
  showText(text: string): string;
};

/** Shows a run while a command drives or follows it. */
export interface View {
  /** Shows a journal entry (in order) or a delta. */
  take(happening: RunHappening): void;
  /** Shows how the run ended. Waiting runs are shown by the caller. */
  end(settled: Exclude<Settled, { status: 'waiting' }>, commands: CommandLines): void;
}

/**
 * Prints a run as text: each state with the reason for entering it, tool calls with input and result, and the
 * model's text. With `output.isLive` text is streamed, otherwise printed when its turn is complete.
 *
 * V1 States are computed from the journal, so a run that another process drives looks the same.
 * V2 Text is printed once. If nothing of a turn was streamed, it is printed when the turn is complete.
 */
export class TerminalView {
  readonly #output: Output;
  readonly #showText: (text: string) => string;
  #state: ChartState | null;
  #shown = { path: '', why: '', generation: -1 };
  #streaming: { turn: number; attempt: number } | null = null;
  #over = { turn: 0, attempt: 0 };
  #lastText = '';
  readonly #toolsStartedAt = new Map<string, number>();

  constructor({ output, state, showText }: TerminalViewOptions) {
    this.#output = output;
    this.#state = state;
    this.#showText = showText;
  }

  /** Prints an entry or a delta. */
  take(happening: RunHappening): void {
    if ('seq' in happening) this.#takeEntry(happening);
    else this.#takeDelta(happening);
  }

  /** Prints how the run ended. */
  end(settled: Exclude<Settled, { status: 'waiting' }>, commands: CommandLines): void {
    const runId = this.#state?.context.runId ?? '';
    showEnd(this.#output, settled, {
      runId,
      commands,
      isTextShown: settled.status === 'finished' && settled.text === this.#lastText,
    });
  }

  #takeEntry(entry: Entry): void {
    const before = this.#state;
    if (before === null) {
      if (entry.type === 'run.started') this.#begin(entry);
      return;
    }
    this.#showEntry(entry, before);
    this.#state = foldEntry(before, { seq: entry.seq, event: entry }, entry.runId);
    this.#showState(this.#state, entry);
  }

  #begin(entry: Of<'run.started'>): void {
    const { runId, agent, config, continues } = entry;
    const continued = continues === undefined ? '' : `, continues ${continues}`;
    this.#output.line(
      { style: 'bold', text: runId },
      ` ${agent.name} on ${nameModels(config.models)}${continued}`,
    );
    this.#state = beginFold(entry);
    this.#showState(this.#state, entry);
  }

  #showState(state: ChartState, { type }: Entry): void {
    const { next, generation } = state.context;
    const path = statePath(state);
    const why = STEP_IN_TURN[type] ?? (type === 'run.cancelled' ? 'on request' : (next?.why ?? ''));
    const shown = this.#shown;
    const isSame = path === shown.path && generation === shown.generation;
    if (isSame && (why === shown.why || !path.startsWith('resting.'))) return;
    this.#nameState(path, why, generation);
  }

  #nameState(path: string, why: string, generation: number): void {
    this.#shown = { path, why, generation };
    const name = path.replace(/^turn\./, '');
    this.#output.line(
      { style: 'cyan', text: `● ${name}` },
      { style: 'dim', text: why === '' ? '' : ` — ${why}` },
    );
  }

  #showEntry(entry: Entry, before: ChartState): void {
    switch (entry.type) {
      case 'turn.completed':
        return this.#showTurn(entry, before);
      case 'turn.failed':
        this.#closeTurn(before);
        return this.#detail({ style: 'red', text: '✗ ' }, `turn failed: ${describeFailedTurn(entry)}`);
      case 'tool.started': {
        this.#toolsStartedAt.set(entry.callId, entry.at);
        const again = entry.attempt > 1 ? `, attempt ${entry.attempt}` : '';
        return this.#detail('→ ', this.#nameCall(before, entry.callId), again);
      }
      case 'tool.settled':
        return this.#showResult(entry, before);
      case 'tool.interrupted':
      case 'tool.doubted':
        return this.#detail(
          { style: 'yellow', text: '? ' },
          this.#nameCall(before, entry.callId),
          ` — ${entry.type === 'tool.doubted' ? entry.reason : INTERRUPTED}`,
        );
      case 'message.received':
      case 'approval.decided':
      case 'result.received':
      case 'doubt.resolved':
      case 'transcript.edited':
      case 'turn.edited':
      case 'call.edited':
      case 'breakpoints.set':
      case 'params.changed':
      case 'pause.requested':
      case 'step.requested':
      case 'run.unpaused':
      case 'cancel.requested':
      case 'run.quarantined':
      case 'run.cancelled':
      case 'tool.late':
      case 'tool.suspended':
      case 'finishers.rejected':
      case 'run.redacted':
        return this.#detail({ style: 'bold', text: entry.type }, ` ${describeEvent(entry)}`.trimEnd());
      case 'run.started':
      case 'run.claimed':
      case 'run.noted':
      case 'text.started':
      case 'calls.started':
      case 'timer.fired':
      case 'finishers.completed':
        return;
    }
  }

  #showTurn(entry: Of<'turn.completed'>, before: ChartState): void {
    const { turn } = before.context;
    const kind = entry.calls.length > 0 ? 'preamble' : 'answer';
    const text = this.#showText(entry.text);
    if (this.#streaming !== null) {
      this.#output.endLine();
      if (kind === 'preamble') this.#detail({ style: 'dim', text: '(preamble; calls follow)' });
    } else if (turn.shown && text.trim() !== '') {
      this.#detail({ style: 'dim', text: `${kind}:` });
      this.#output.stream(text);
      this.#output.endLine();
    }
    this.#lastText = turn.shown ? text : this.#lastText;
    this.#closeTurn(before);
    this.#detail({ style: 'dim', text: `turn ${turn.number}: ${describeTurn(entry)}` });
  }

  #showResult(event: Of<'tool.settled'>, before: ChartState): void {
    const { callId, isError, output, at } = event;
    const startedAt = this.#toolsStartedAt.get(callId);
    const span = startedAt === undefined ? '' : ` ${formatSpan(at - startedAt)}`;
    const mark: Segment = isError ? { style: 'red', text: '✗ ' } : { style: 'green', text: '✓ ' };
    const name = findCall(before.context, callId)?.name ?? callId;
    this.#detail(mark, name, { style: 'dim', text: span }, `  ${showValue(output)}`, {
      style: 'dim',
      text: describePlayed(event),
    });
  }

  #nameCall(state: ChartState, callId: string): string {
    const call = findCall(state.context, callId);
    return call === undefined ? callId : `${call.name} ${showValue(call.input)}`;
  }

  #detail(...segments: Segment[]): void {
    this.#output.line('  ', ...segments);
  }

  #closeTurn({ context }: ChartState): void {
    this.#streaming = null;
    this.#over = { turn: context.turn.number, attempt: context.turn.attempt };
  }

  #takeDelta(delta: Delta): void {
    if (delta.type === 'tool.progress') {
      const name = this.#state === null ? delta.callId : this.#nameCall(this.#state, delta.callId);
      return this.#detail('… ', name, `: ${showValue(delta.data)}`);
    }
    if (!this.#output.isLive) return;
    if (delta.type === 'text.delta') return this.#streamText(delta);
    if (delta.type === 'text.discarded')
      this.#detail({ style: 'dim', text: '(the text above was discarded)' });
  }

  #streamText({ turn, attempt, text }: { turn: number; attempt: number; text: string }): void {
    if (turn < this.#over.turn || (turn === this.#over.turn && attempt <= this.#over.attempt)) return;
    if (this.#streaming === null) {
      this.#streaming = { turn, attempt };
      const { path, generation } = this.#shown;
      if (path !== FINAL_STREAMING)
        this.#nameState(FINAL_STREAMING, STEP_IN_TURN['text.started'] ?? '', generation);
    }
    this.#output.stream(text);
  }
}

const FINAL_STREAMING = 'turn.finalStreaming';

/** Why a run moves between the states of `turn`. */
const STEP_IN_TURN: { readonly [Type in Entry['type']]?: string } = {
  'text.started': 'text is streaming',
  'calls.started': 'the model calls tools',
};
