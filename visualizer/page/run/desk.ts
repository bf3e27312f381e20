import { computed, type Signal, signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Breakpoint } from '../../../protocol/debugger/breakpoint.ts';
import { watchMedia } from '../app/watch-media.ts';
import { mayOperate } from '../data/caller.ts';
import { sendCommand } from '../data/send-command.ts';
import type { PageSource } from '../data/source.ts';
import type { RunModel } from '../model/run-model.ts';
import { TimeLine } from '../model/time-line.ts';

export const TABS = ['conversation', 'waterfall', 'journal', 'sequence', 'tree', 'ahead', 'chart'] as const;
export type Tab = (typeof TABS)[number];

/** Whether the window has room for one pane. The chart is a tab then. */
export const isNarrow = watchMedia('(width < 720px)');

export class Desk {
  readonly model: RunModel;
  readonly source: PageSource;
  readonly tab: Signal<Tab>;
  /** The outcome of the last command, for a person. */
  readonly notice = signal<{ tone: 'good' | 'bad' | 'busy'; text: string } | null>(null);
  /** The call that the decision bar shows; `null` for the first. */
  readonly deciding = signal<string | null>(null);
  readonly playing = signal(false);
  /** What the breakpoint editor starts with; `null` if it is closed. */
  readonly breaking = signal<Omit<Breakpoint, 'id'> | null>(null);
  /** Whether the form that forks the run at the cursor is open. */
  readonly forking = signal(false);
  /** The text that is searched in the run; `null` without a search. */
  readonly finding = signal<string | null>(null);
  /** The entries that have it, in order. */
  readonly hits = signal<readonly number[]>([]);
  readonly #copied = computed(() => this.model.view.value?.forkOf?.at ?? 0);
  readonly timeLine = computed(() => new TimeLine(this.model.story.activities, this.#copied.value));
  readonly #look: () => void;

  constructor(model: RunModel, source: PageSource, tab: Tab, look: () => void) {
    this.model = model;
    this.source = source;
    this.tab = signal(tab);
    this.#look = look;
  }

  get isSteered(): boolean {
    return this.source.live && mayOperate() && !this.model.ended.value;
  }

  /** Moves the cursor. At the last entry it follows the run. */
  goTo(seq: number): void {
    const { model, playing } = this;
    playing.value = false;
    model.choose(seq >= model.last.peek() ? null : seq);
  }

  /** Moves the cursor to the next of `places`, or the one before with `by` -1; from the last to the first. */
  goAlong(places: readonly number[], by: number): void {
    const at = this.model.at.peek();
    const next = by > 0 ? places.find(seq => seq > at) : places.findLast(seq => seq < at);
    const found = next ?? places.at(by > 0 ? 0 : -1);
    if (found !== undefined) this.goTo(found);
  }

  /** Submits a command to this run or one of its sub-agents'. Resolves to a problem for the person, or `null`. */
  async act(command: string, body: object = {}, runId = this.model.runId): Promise<string | null> {
    const { model, notice } = this;
    notice.value = null;
    const outcome = await sendCommand(command, body, {
      runId,
      after: runId === model.runId ? model.last.peek() : 0,
      onLost: text => (notice.value = { tone: 'busy', text }),
    });
    this.#look();
    if (outcome.type === 'refused') {
      notice.value = { tone: 'bad', text: outcome.message };
      return outcome.message;
    }
    if (outcome.view?.runId === model.runId) model.takeView(outcome.view);
    notice.value = outcome.message === undefined ? null : { tone: 'good', text: outcome.message };
    return null;
  }
}

export const DeskContext = createContext<Desk | null>(null);

export function useDesk(): Desk {
  const desk = useContext(DeskContext);
  if (desk === null) throw new Error('This part belongs in the view of a run.');
  return desk;
}
