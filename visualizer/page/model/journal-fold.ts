import { agentMachine, type ChartState } from '../../../machines/agent.ts';
import { type CompiledMachine, compile } from '../../../machines/compiled/compile.ts';
import { type Step, takeEvent, takeStart } from '../../../machines/compiled/macrostep.ts';
import type { Context } from '../../../machines/context.ts';
import { hasEnded, statePath } from '../../../machines/status.ts';
import type { Effect, NextAction } from '../../../protocol/effect.ts';
import type { ChartEvent, RunEvent, RunStarted } from '../../../protocol/event.ts';
import { type ChartEdge, edgeId, readChart } from '../../chart-graph.ts';
import { describeThrown, type StreamedEvent } from '../data/request.ts';

/** The effects of one event. */
export type Taken = {
  decisions: NextAction[];
  /** The effects that the chart requested. Playing back a journal carries out none of them. */
  effects: readonly Effect[];
  /** Edge ids in the drawing, in order. */
  edges: string[];
  entered: string[];
};

const NOTHING: Taken = { decisions: [], effects: [], edges: [], entered: [] };

let tables: CompiledMachine | undefined;

/** The chart, compiled when it is first needed: folding takes no step of XState's own. */
const compiled = (): CompiledMachine => (tables ??= compile(agentMachine));

const HUB = 'deciding';
const EDGES: readonly ChartEdge[] = readChart().edges.filter(edge => edge.from !== edge.to);
/** The places of edges and states, by their ids, in what is counted. */
const PLACES = new Map(
  [...new Set(EDGES.flatMap(({ from, to }) => [edgeId(from, to), from, to]))].map((id, i) => [id, i]),
);

/**
 * The fold of a journal up to an entry, by the chart's own code. Values are immutable and share what is equal.
 *
 * J1 It depends only on the entries and their order.
 * J2 It stops at an entry that this chart cannot have produced, and sets `problem`; it never guesses.
 */
export class Folded {
  static readonly start = new Folded(0, null, new Uint32Array(PLACES.size));

  readonly seq: number;
  readonly state: ChartState | null;
  readonly taken: Taken;
  /** Why the journal cannot be folded further; `null` if it can. */
  readonly problem: string | null;
  readonly #counts: Uint32Array;

  private constructor(
    seq: number,
    state: ChartState | null,
    counts: Uint32Array,
    problem: string | null = null,
    taken = NOTHING,
  ) {
    this.seq = seq;
    this.state = state;
    this.taken = taken;
    this.problem = problem;
    this.#counts = counts;
  }

  /** The state after an entry, as the server folded it; nothing before it is counted. */
  static from(seq: number, state: ChartState): Folded {
    return new Folded(seq, state, Folded.start.#counts);
  }

  /** The context; `null` before the first entry or after a problem. */
  get context(): Context | null {
    return this.problem === null ? (this.state?.context ?? null) : null;
  }

  /** The path of the state, such as `resting.awaitingApproval`; `null` like `context`. */
  get path(): string | null {
    return this.state === null || this.problem !== null ? null : statePath(this.state);
  }

  /** How often the journal took an edge of the drawing, or entered a state, by its id. */
  count(id: string): number {
    return this.#counts[PLACES.get(id) ?? -1] ?? 0;
  }

  /** The fold with the next entry; never throws. */
  take(seq: number, event: RunEvent): Folded {
    const { state, problem } = this;
    if (problem !== null) return new Folded(seq, state, this.#counts, problem);
    switch (event.type) {
      case 'run.claimed':
      case 'tool.late':
      case 'run.noted':
      case 'run.redacted':
        return new Folded(seq, state, this.#counts);
      default:
        try {
          return this.#fold(seq, event);
        } catch (error) {
          const why = `The chart cannot show the run from entry ${seq} on: ${describeThrown(error)}.`;
          return new Folded(seq, state, this.#counts, why);
        }
    }
  }

  #fold(seq: number, event: ChartEvent | RunStarted): Folded {
    const before = this.state;
    if (event.type === 'run.started') return this.#move(seq, '', takeStart(compiled(), event));
    if (before === null) throw new Error('the journal does not begin with run.started');
    const step = hasEnded(before) ? null : takeEvent(compiled(), before, event);
    if (!step?.handled) throw new Error(`${event.type} is not possible in ${statePath(before)}`);
    return this.#move(seq, statePath(before), step);
  }

  #move(seq: number, from: string, { state, effects }: Step): Folded {
    const decisions = effects.flatMap(effect =>
      effect.type === 'publish' && effect.notice.type === 'decided' ? [effect.notice.next] : [],
    );
    const way = walk(from, decisions, statePath(state));
    const counts = this.#counts.slice();
    for (const id of [...way.edges, ...way.entered]) {
      const place = PLACES.get(id);
      if (place !== undefined) counts[place] = (counts[place] ?? 0) + 1;
    }
    return new Folded(seq, state, counts, null, { ...way, decisions, effects });
  }
}

/** Why the chart took an action. Of a failed turn it is the code: the turn itself has the message. */
export function reasonOf(next: NextAction, context: Context | null): string {
  return next.type === 'fail' && context?.failure ? next.code : next.why;
}

function walk(from: string, decisions: readonly NextAction[], end: string) {
  const way: Pick<Taken, 'edges' | 'entered'> = { edges: [], entered: [] };
  let at = from;
  const go = (to: string): void => {
    const sources = [at, at.split('.')[0] ?? '', ''];
    const edge = EDGES.find(({ from: source, to: target }) => target === to && sources.includes(source));
    if (edge !== undefined && at !== '') way.edges.push(edgeId(edge.from, edge.to));
    way.entered.push(to);
    at = to;
  };
  for (const decision of decisions) {
    go(HUB);
    const isChecked = decision.type === 'finish' && decision.check;
    const guard = `${decision.type}${isChecked ? ', to be checked' : ''}`;
    const chosen = EDGES.find(edge => edge.from === HUB && edge.guard === guard);
    if (chosen !== undefined) go(chosen.to);
  }
  if (end !== at && !end.startsWith(`${at}.`)) go(end);
  else if (end !== at) way.entered.push(end);
  return way;
}

export const CHECKPOINT_EVERY = 256;
/** How many folds near the last position are cached, so that a step folds one entry. */
const MOST_NEAR = 300;

/**
 * The folds of a journal at each of its entries: stored at checkpoints, computed between them.
 *
 * K1 `at` folds at most `CHECKPOINT_EVERY` entries.
 * K2 It depends only on the entries and the fold that it begins with.
 */
export class FoldedJournal {
  readonly #read: (seq: number) => StreamedEvent | undefined;
  readonly #begin: Folded;
  readonly #checkpoints = new Map<number, Folded>();
  readonly #near = new Map<number, Folded>();
  #last: Folded;

  /** `read` returns the entry at a `seq`; `begin` is the fold before the first entry that it has. */
  constructor(read: (seq: number) => StreamedEvent | undefined, begin = Folded.start) {
    this.#read = read;
    this.#begin = begin;
    this.#last = begin;
  }

  get last(): Folded {
    return this.#last;
  }

  take(event: StreamedEvent): Folded {
    const folded = this.#last.take(event.seq, event);
    this.#last = folded;
    if (folded.seq % CHECKPOINT_EVERY === 0) this.#checkpoints.set(folded.seq, folded);
    return folded;
  }

  /** The fold at an entry; at the beginning or the end if there is no such entry. */
  at(seq: number): Folded {
    if (seq >= this.#last.seq) return this.#last;
    if (seq <= this.#begin.seq) return this.#begin;
    const known = this.#checkpoints.get(seq) ?? this.#near.get(seq);
    if (known !== undefined) return known;
    const before = this.at(seq - 1);
    const event = this.#read(seq);
    if (event === undefined) return before;
    if (this.#near.size > MOST_NEAR) this.#near.clear();
    const folded = before.take(seq, event);
    this.#near.set(seq, folded);
    return folded;
  }
}

/** The state after the entries of a journal from its start. Throws if this chart cannot have produced them. */
export function foldToState(entries: readonly (RunEvent & { seq: number })[]): ChartState {
  const { state, problem } = entries.reduce((before, event) => before.take(event.seq, event), Folded.start);
  if (state === null || problem !== null) throw new Error(problem ?? 'The journal has no entries.');
  return state;
}
