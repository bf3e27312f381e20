import type { Effect } from '../../protocol/effect.ts';
import type { ChartState } from '../agent.ts';
import type { Context } from '../context.ts';
import { pendingService } from '../pending-service.ts';
import type { CompiledMachine, Edge, Place } from './compile.ts';
import { Given, type Op } from './compile-action.ts';

export type Step = { state: ChartState; effects: Effect[]; handled: boolean };

type Event = { type: string };

/**
 * The state a run begins in; `event.input` is what its context is made of.
 * Throws what the machine's functions throw.
 */
export function beginRun({ createContext, start }: CompiledMachine, event: Event & { input: unknown }): Step {
  const step = new Macrostep(start.to, createContext(event), {}, event);
  step.take(start);
  step.settle();
  return { state: step.state, effects: step.effects, handled: true };
}

/** An event in a state of this machine that has not ended. Throws what the machine's functions throw. */
export function takeEvent({ places }: CompiledMachine, state: ChartState, event: Event): Step {
  const leaf = state._nodes.at(-1);
  const place = leaf === undefined ? undefined : places.get(leaf);
  if (place === undefined) throw new Error(`The chart has no state ${JSON.stringify(state.value)}.`);
  const step = new Macrostep(place, state.context, state.children, event);
  const edge = step.choose(place.on.get(event.type) ?? place.on.get('*') ?? []);
  if (edge !== undefined) step.take(edge);
  step.settle();
  const { effects, isChanged } = step;
  return { state: isChanged ? step.state : state, effects, handled: isChanged };
}

/** More edges than a step takes: the machine goes round in circles. */
const MOST_EDGES = 200;

/** One event and every edge it leads over. */
class Macrostep {
  readonly effects: Effect[] = [];
  /** Whether anything is another than before, the place or what is in it. */
  isChanged = false;
  readonly #event: Event;
  #place: Place;
  #context: Context;
  #children: ChartState['children'];

  constructor(place: Place, context: Context, children: ChartState['children'], event: Event) {
    this.#place = place;
    this.#context = context;
    this.#children = children;
    this.#event = event;
  }

  get state(): ChartState {
    return { ...this.#place.snapshot, context: this.#context, children: this.#children };
  }

  /** The first edge whose guard lets it pass. */
  choose(edges: readonly Edge[]): Edge | undefined {
    return edges.find(({ guard }) => guard === null || guard(new Given(this.#context, this.#event)));
  }

  /** Takes one edge. Tells whether it changed anything. */
  take({ ops, to }: Edge): boolean {
    let changes = to !== this.#place;
    for (const op of ops) if (this.#do(op)) changes = true;
    this.#place = to;
    if (changes) this.isChanged = true;
    return changes;
  }

  /** Takes edges that need no event until none passes, or one changes nothing. An ended run stops what runs. */
  settle(): void {
    for (let taken = 0; this.#place.snapshot.status === 'active'; taken += 1) {
      if (taken > MOST_EDGES) throw new Error('The step does not come to an end.');
      const edge = this.choose(this.#place.always);
      if (edge === undefined || !this.take(edge)) return;
    }
    for (const id of Object.keys(this.#children)) this.effects.push({ type: 'stop', id });
  }

  #do(op: Op): boolean {
    const given = new Given(this.#context, this.#event);
    switch (op.type) {
      case 'assign':
        this.#context = merge(this.#context, op.update(given));
        return true;
      case 'publish':
        this.effects.push({ type: 'publish', notice: op.notice(given) });
        return false;
      case 'start':
        this.#start({ type: 'start', service: op.service, id: op.id, input: op.input(given) });
        return true;
      case 'stop':
        this.#stop(op.id);
        return true;
      case 'enqueue': {
        let changes = false;
        for (const collected of op.collect(given)) if (this.#do(collected)) changes = true;
        return changes;
      }
    }
  }

  #start(effect: Extract<Effect, { type: 'start' }>): void {
    this.#children = { ...this.#children, [effect.id]: pendingService(effect) };
    this.effects.push(effect);
  }

  #stop(id: string): void {
    if (this.#children[id] === undefined) return;
    const { [id]: _, ...others } = this.#children;
    this.#children = others;
    this.effects.push({ type: 'stop', id });
  }
}

/** `update` itself where it has all of the context's keys: a context is not copied twice. */
function merge(context: Context, update: object | undefined): Context {
  return isWhole(update, context) ? update : { ...context, ...update };
}

function isWhole(update: object | undefined, context: Context): update is Context {
  if (update === undefined || update === context) return update === context;
  const keys = Object.keys(context);
  const others = Object.keys(update);
  return keys.length === others.length && keys.every((key, place) => key === others[place]);
}
