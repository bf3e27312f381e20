import type { Agent } from '../../agent/agent.ts';
import type { Settled } from '../../engine/log/settled.ts';
import type { Run, RunHappening } from '../../engine/run/run.ts';
import { Story } from '../../engine/story/read-story.ts';
import type { StoryEvent } from '../../engine/story/story-event.ts';
import { findCall } from '../../machines/calls.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { BreakCosts } from '../../protocol/listing/cost.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import { describeCoded } from '../exit-codes.ts';
import type { CommandLines } from './command-lines.ts';
import {
  describeBreak,
  describePlayed,
  eventLine,
  failedTurnLine,
  formatSpan,
  INTERRUPTED,
  nameModels,
  showValue,
  turnLine,
} from './format.ts';
import { bold, cyan, dim, green, type Output, red, type Segment, yellow } from './output.ts';
import { showEnd } from './show-open.ts';

type Entry = Extract<RunHappening, { seq: number }>;
type Of<Type extends Entry['type']> = Extract<Entry, { type: Type }>;

type TerminalViewOptions = {
  output: Output;
  runId: string;
  /** The fold before the first entry to show; by default the run is shown from its first event. */
  begin?: { state: ChartState; seq: number };
  filters: readonly (() => TextFilter)[];
};

export interface View {
  take(happening: RunHappening): void;
  end(settled: Exclude<Settled, { status: 'waiting' }>, commands: CommandLines): void;
}

/**
 * Prints a run as text: each state with the reason for entering it, tool calls with input and result, and the
 * model's text. With `output.isLive` text is streamed, otherwise printed when its turn is complete.
 *
 * V1 States are computed from the journal, so a run that another process drives looks the same.
 * V2 Text is printed once: as it streams, and otherwise when its turn is complete.
 */
export class TerminalView {
  readonly #output: Output;
  readonly #story: Story;
  #shown = { path: '', why: '', generation: -1 };
  #isStreaming = false;
  #unprinted = '';
  #lastText = '';
  readonly #toolsStartedAt = new Map<string, number>();
  readonly #breakCosts = new BreakCosts();

  constructor({ output, runId, begin, filters }: TerminalViewOptions) {
    this.#output = output;
    this.#story = new Story({ runId, filters }, begin);
  }

  take(happening: RunHappening): void {
    const before = this.#story.state;
    const told = this.#story.take(happening);
    for (const event of told) this.#tell(event);
    if ('seq' in happening) this.#takeEntry(happening, before);
  }

  end(settled: Exclude<Settled, { status: 'waiting' }>, commands: CommandLines): void {
    const runId = this.#story.state?.context.runId ?? '';
    showEnd(this.#output, settled, {
      runId,
      commands,
      isTextShown: settled.status === 'finished' && settled.text === this.#lastText,
    });
  }

  #tell(event: StoryEvent): void {
    switch (event.type) {
      case 'text':
        if (this.#output.isLive && (event.late !== true || this.#isStreaming)) this.#stream(event.text);
        else this.#unprinted += event.text;
        return;
      case 'turn.discarded':
        return this.#discard(event.ended);
      case 'answer.text':
        if (!this.#output.isLive || (event.late === true && !this.#isStreaming)) return;
        this.#isStreaming = true;
        this.#output.stream(event.text);
        return;
      case 'answer.discarded':
        return this.#discard(false);
      case 'answer.taken':
        if (!this.#isStreaming) return;
        this.#output.endLine();
        this.#isStreaming = false;
        this.#lastText = event.text;
        return;
      case 'turn.closed':
        if (event.parts.some(part => part.kind === 'text' && part.part !== null))
          this.#lastText = event.parts.map(part => (part.kind === 'text' ? part.text : '')).join('');
        return;
      case 'call.progress': {
        const { state } = this.#story;
        const name = state === null ? event.callId : this.#nameCall(state, event.callId);
        return this.#detail('… ', name, `: ${showValue(event.data)}`);
      }
      default:
    }
  }

  #discard(ended: boolean): void {
    if (this.#isStreaming && !ended) this.#detail(dim('(the text above was discarded)'));
    this.#isStreaming = false;
    this.#unprinted = '';
  }

  #stream(text: string): void {
    if (!this.#isStreaming) {
      this.#isStreaming = true;
      const { path, generation } = this.#shown;
      if (path !== FINAL_STREAMING)
        this.#nameState(FINAL_STREAMING, STEP_IN_TURN['text.started'] ?? '', generation);
    }
    this.#output.stream(text);
  }

  #takeEntry(entry: Entry, before: ChartState | null): void {
    this.#breakCosts.follow(entry);
    if (before !== null) this.#showEntry(entry, before);
    else if (entry.type === 'run.started') this.#begin(entry);
    const { state } = this.#story;
    if (state !== null) this.#showState(state, entry);
  }

  #begin({ runId, agent, config, continues }: Of<'run.started'>): void {
    const continued = continues === undefined ? '' : `, continues ${continues}`;
    this.#output.line(bold(runId), ` ${agent.name} on ${nameModels(config.models)}${continued}`);
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
    this.#output.line(cyan(`● ${name}`), dim(why === '' ? '' : ` — ${why}`));
  }

  #showEntry(entry: Entry, before: ChartState): void {
    switch (entry.type) {
      case 'turn.completed':
        return this.#showTurn(entry, before);
      case 'turn.failed':
        return this.#detail(red('✗ '), `turn failed: ${failedTurnLine(entry)}`);
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
          yellow('? '),
          this.#nameCall(before, entry.callId),
          ` — ${entry.type === 'tool.doubted' ? entry.reason : INTERRUPTED}`,
        );
      case 'run.started':
      case 'run.claimed':
      case 'run.noted':
      case 'text.started':
      case 'calls.started':
      case 'timer.fired':
      case 'answer.checked':
        return;
      case 'answer.blocked':
        return this.#detail(red('✗ '), `the answer was blocked: ${eventLine(entry)}`);
      default:
        return this.#detail(bold(entry.type), ` ${eventLine(entry)}`.trimEnd());
    }
  }

  #showTurn(entry: Of<'turn.completed'>, { context: { turn, config } }: ChartState): void {
    const kind = entry.calls.length > 0 ? 'preamble' : 'answer';
    if (this.#isStreaming) {
      this.#output.endLine();
      if (kind === 'preamble') this.#detail(dim('(preamble; calls follow)'));
    } else if (this.#unprinted.trim() !== '') {
      this.#detail(dim(`${kind}:`));
      this.#output.stream(this.#unprinted);
      this.#output.endLine();
    }
    this.#isStreaming = false;
    this.#unprinted = '';
    this.#detail(dim(`turn ${turn.number}: ${turnLine(entry)}`));
    const cost = this.#breakCosts.take(entry, config.prices);
    if (entry.broken !== undefined) this.#detail(yellow('! '), `prefix ${describeBreak(entry.broken, cost)}`);
  }

  #showResult(event: Of<'tool.settled'>, before: ChartState): void {
    const { callId, isError, output, at } = event;
    const startedAt = this.#toolsStartedAt.get(callId);
    const span = startedAt === undefined ? '' : ` ${formatSpan(at - startedAt)}`;
    const mark: Segment = isError ? red('✗ ') : green('✓ ');
    const name = findCall(before.context, callId)?.name ?? callId;
    this.#detail(mark, name, dim(span), `  ${showValue(output)}`, dim(describePlayed(event)));
  }

  #nameCall(state: ChartState, callId: string): string {
    const call = findCall(state.context, callId);
    return call === undefined ? callId : `${call.name} ${showValue(call.input)}`;
  }

  #detail(...segments: Segment[]): void {
    this.#output.line('  ', ...segments);
  }
}

const FINAL_STREAMING = 'turn.finalStreaming';

const STEP_IN_TURN: { readonly [Type in Entry['type']]?: string } = {
  'text.started': 'text is streaming',
  'calls.started': 'the model calls tools',
};

type ViewOptions = {
  output: Output;
  run: Pick<Run, 'id'>;
  agent: Agent;
  /** The fold before the first entry to show; `null` to show the run from its first event. */
  begin: { state: ChartState; seq: number } | null;
  options: { deltas?: boolean | undefined };
};

export function makeView({ output, run, agent, begin, options }: ViewOptions): View {
  if (output.json) return makeJsonView(output, run.id, { deltas: options.deltas === true });
  const filters = agent.options.textFilters ?? [];
  return new TerminalView({ output, runId: run.id, filters, ...(begin !== null && { begin }) });
}

function makeJsonView(output: Output, runId: string, { deltas }: { deltas: boolean }): View {
  return {
    take(happening) {
      if ('seq' in happening) output.data(orderEvent(happening));
      else if (deltas) output.data({ runId, ...happening });
    },
    end(settled) {
      if (settled.status === 'failed')
        output.problem(`${settled.error.code}: ${describeCoded(settled.error)}`);
    },
  };
}

export function orderEvent({
  runId,
  seq,
  at,
  type,
  ...facts
}: Extract<RunHappening, { seq: number }>): object {
  return { runId, seq, at, type, ...facts };
}
