import type { Context } from '../../machines/context.ts';
import { type ChartState, initial, next, type Step, statePath } from '../../machines/step.ts';
import type { NextAction } from '../../protocol/effect.ts';
import type { ChartEvent, RunEvent, RunStarted } from '../../protocol/event.ts';
import { type ChartEdge, readChart } from '../chart-graph.ts';
import { edgeId } from '../merge-edges.ts';

/** What one event did: the states the run went through, the edges it took, and why each decision fell so. */
export type Taken = {
  decisions: NextAction[];
  /** Ids in the picture, in order. */
  edges: string[];
  /** States entered, by id, in order. */
  entered: string[];
  /** The turn that was running when it came. */
  turn: { number: number; attempt: number };
  /** The turn's text is a draft, kept out of the transcript. */
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
 * Follows a journal with the chart's own code, in the page: exact states, and why.
 *
 * J1 What it says is a function of the entries alone, in order.
 * J2 A journal that this chart cannot have written stops it, and `problem` says so; it never guesses.
 */
export class JournalFold {
  #state: ChartState | null = null;
  #problem: string | null = null;
  readonly #edges: readonly ChartEdge[] = readChart().edges.filter(edge => edge.from !== edge.to);
  readonly edgeCounts = new Map<string, number>();
  readonly stateCounts = new Map<string, number>();

  get context(): Context | null {
    return this.#problem === null ? (this.#state?.context ?? null) : null;
  }

  /** The active state as a path: `resting.awaitingApproval`. */
  get path(): string | null {
    return this.#state === null || this.#problem !== null ? null : statePath(this.#state);
  }

  get problem(): string | null {
    return this.#problem;
  }

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
    if (before === null) return this.#stop(seq, 'the journal here does not begin with run.started');
    const step = next(before, event);
    if (!step.handled) return this.#stop(seq, `${event.type} does not fit ${statePath(before)}`);
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
    this.#problem = `The path cannot be followed from entry ${seq} on: ${problem}.`;
    return NOTHING;
  }
}

function isWithin(path: string, frame: string): boolean {
  return path === frame || path.startsWith(`${frame}.`);
}

/** The guard's name in the chart. */
function nameChoice(decision: NextAction): string {
  return decision.type === 'finish' && decision.finishers ? 'finish, to be checked' : decision.type;
}
