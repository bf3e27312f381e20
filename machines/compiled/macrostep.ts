import type { Effect } from '../../protocol/effect.ts';
import type { ChartState } from '../agent.ts';
import type { Context } from '../context.ts';
import { pendingService } from '../pending-service.ts';
import type { CompiledEdge, CompiledMachine, CompiledState } from './compile.ts';
import { ActionInput, INIT, type Op } from './compile-action.ts';

/** The result of an event. `handled` is false if the event changed nothing. */
export type Step = { state: ChartState; effects: Effect[]; handled: boolean };

type Event = { type: string };

/** `input` is that of the context. Rethrows errors of the machine's functions. */
export function takeStart({ createContext, start }: CompiledMachine, input: unknown): Step {
  const event = { type: INIT, input };
  const step = new Macrostep(start.to, createContext(event), {}, event);
  step.take(start);
  step.settle();
  return { state: step.state, effects: step.effects, handled: true };
}

/** Applies an event to an active state of this machine. Rethrows errors of the machine's functions. */
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

/** More edges than any step takes: a sign of an endless loop. */
const MOST_EDGES = 200;

class Macrostep {
  readonly effects: Effect[] = [];
  isChanged = false;
  readonly #event: Event;
  #place: CompiledState;
  #context: Context;
  #children: ChartState['children'];
  #output: unknown;
  /** The arguments of guards and actions, until the context changes. */
  #given: ActionInput;

  constructor(place: CompiledState, context: Context, children: ChartState['children'], event: Event) {
    this.#place = place;
    this.#context = context;
    this.#children = children;
    this.#event = event;
    this.#given = new ActionInput(context, event);
  }

  get state(): ChartState {
    const state = { ...this.#place.snapshot, context: this.#context, children: this.#children };
    return this.#output === undefined ? state : ({ ...state, output: this.#output } as ChartState);
  }

  choose(edges: readonly CompiledEdge[]): CompiledEdge | undefined {
    for (const edge of edges) if (edge.guard === null || edge.guard(this.#given)) return edge;
    return undefined;
  }

  take({ ops, to }: CompiledEdge): boolean {
    let changes = to !== this.#place;
    for (const op of ops) if (this.#do(op)) changes = true;
    this.#place = to;
    if (changes) this.isChanged = true;
    return changes;
  }

  /** Takes `always` edges until no guard passes or an edge changes nothing. A run that has ended stops its services. */
  settle(): void {
    for (let taken = 0; this.#place.snapshot.status === 'active'; taken += 1) {
      if (taken > MOST_EDGES) throw new Error('The step does not terminate.');
      const edge = this.choose(this.#place.always);
      if (edge === undefined || !this.take(edge)) return;
    }
    for (const id of Object.keys(this.#children)) this.effects.push({ type: 'stop', id });
  }

  #do(op: Op): boolean {
    const given = this.#given;
    switch (op.type) {
      case 'assign':
        this.#context = changed(this.#context, op.update(given), op.replaces);
        this.#given = new ActionInput(this.#context, this.#event);
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
      case 'output':
        this.#output = op.value(given);
        return false;
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

function changed(context: Context, update: object | undefined, replaces: boolean): Context {
  return replaces ? (update as Context) : { ...context, ...update };
}
