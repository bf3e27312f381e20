import type { Context } from '../../machines/context.ts';
import { type ChartState, initial, next, type Step, statePath } from '../../machines/step.ts';
import type { NextAction } from '../../protocol/effect.ts';
import type { ChartEvent, RunEvent, RunStarted } from '../../protocol/event.ts';
import { type ChartEdge, readChart } from '../chart-graph.ts';
import { edgeId } from '../merge-edges.ts';

/** What one event did: the states entered, the edges taken, and the decisions with their reasons. */
export type Taken = {
  decisions: NextAction[];
  /** Edge ids in the drawing, in order. */
  edges: string[];
  /** The ids of the states entered, in order. */
  entered: string[];
  /** The turn that was running when the event arrived. */
  turn: { number: number; attempt: number };
  /** Whether the turn's text is a draft, which is not part of the transcript. */
  draft: boolean;
};

const NOTHING: Taken = {
  decisions: [],
  edges: [],
  entered: [],
  turn: { number: 0, attempt: 0 },
  draft: false,
};

const HUB = 'deciding';

/**
 * Folds a journal in the page with the chart's own code, and records the path through the chart.
 *
 * J1 The result depends only on the entries and their order.
 * J2 It stops at an entry that this chart cannot have produced, and sets `problem`; it never guesses.
 */
export class JournalFold {
  #state: ChartState | null = null;
  #problem: string | null = null;
  readonly #edges: readonly ChartEdge[] = readChart().edges.filter(edge => edge.from !== edge.to);
  readonly edgeCounts = new Map<string, number>();
  readonly stateCounts = new Map<string, number>();

  /** The current context; `null` before the first entry or after a problem. */
  get context(): Context | null {
    return this.#problem === null ? (this.#state?.context ?? null) : null;
  }

  /** The path of the current state, such as `resting.awaitingApproval`; `null` like `context`. */
  get path(): string | null {
    return this.#state === null || this.#problem !== null ? null : statePath(this.#state);
  }

  /** Why the journal cannot be folded further; `null` if it can. */
  get problem(): string | null {
    return this.#problem;
  }

  /** Folds the next entry and returns what it did; never throws. */
  take(seq: number, event: RunEvent): Taken {
    if (this.#problem !== null || event.type === 'run.claimed' || event.type === 'tool.late') return NOTHING;
    if (event.type === 'run.noted' || event.type === 'run.redacted') return NOTHING;
    try {
      return this.#fold(seq, event);
    } catch (error) {
      return this.#stop(seq, error instanceof Error ? error.message : String(error));
    }
  }

  #fold(seq: number, event: ChartEvent | RunStarted): Taken {
    const before = this.#state;
    if (event.type === 'run.started') return this.#move('', initial(event), { number: 1, attempt: 1 });
    if (before === null) return this.#stop(seq, 'the journal does not begin with run.started');
    const step = next(before, event);
    if (!step.handled) return this.#stop(seq, `${event.type} is not possible in ${statePath(before)}`);
    return this.#move(statePath(before), step, before.context.turn);
  }

  #move(from: string, step: Step, turn: Taken['turn']): Taken {
    const { state, effects } = step;
    this.#state = state;
    const decisions = effects.flatMap(effect =>
      effect.type === 'publish' && effect.notice.type === 'decided' ? [effect.notice.next] : [],
    );
    const taken: Taken = {
      decisions,
      edges: [],
      entered: [],
      turn: { number: turn.number, attempt: turn.attempt },
      draft: state.context.lastTurn?.draft === true,
    };
    let at = from;
    for (const decision of decisions) {
      at = this.#go(taken, at, HUB);
      const chosen = this.#edges.find(edge => edge.from === HUB && edge.guard === nameChoice(decision));
      if (chosen !== undefined) at = this.#go(taken, HUB, chosen.to);
    }
    const end = statePath(state);
    if (!isWithin(end, at)) this.#go(taken, at, end);
    else if (end !== at) this.#enter(taken, end);
    return taken;
  }

  #go(taken: Taken, from: string, to: string): string {
    const sources = [from, from.split('.')[0] ?? '', ''];
    const edge = this.#edges.find(
      ({ from: source, to: target }) => target === to && sources.includes(source),
    );
    if (edge !== undefined && from !== '') {
      const id = edgeId(edge.from, edge.to);
      taken.edges.push(id);
      this.edgeCounts.set(id, (this.edgeCounts.get(id) ?? 0) + 1);
    }
    this.#enter(taken, to);
    return to;
  }

  #enter(taken: Taken, id: string): void {
    taken.entered.push(id);
    this.stateCounts.set(id, (this.stateCounts.get(id) ?? 0) + 1);
  }

  #stop(seq: number, problem: string): Taken {
    this.#problem = `The chart cannot show the run from entry ${seq} on: ${problem}.`;
    return NOTHING;
  }
}

function isWithin(path: string, frame: string): boolean {
  return path === frame || path.startsWith(`${frame}.`);
}

/** The name of the decision's guard in the chart. */
function nameChoice(decision: NextAction): string {
  return decision.type === 'finish' && decision.finishers ? 'finish, to be checked' : decision.type;
}
