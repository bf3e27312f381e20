import type { AgentMachine } from '../../machines/agent.ts';
import { type ChartState, makeStepper, type Step, type Stepper, statePath } from '../../machines/step.ts';
import { messageOf } from '../../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../../protocol/event.ts';
import { abstractState, type Detail } from './abstract-state.ts';
import { compareSteps, dropProcess } from './environment/drop-process.ts';
import type { Environment } from './environment/environment.ts';
import { makeMoment } from './environment/make-moment.ts';
import { generateEvents } from './events/generate-events.ts';
import { isEnabled } from './events/is-enabled.ts';
import type { Property, Taken } from './invariants/built-in-invariant.ts';
import { findWhatIsNotJson, INTERNAL_INVARIANTS } from './invariants/internal-invariants.ts';
import { findBreach, type NamedInvariant } from './invariants/invariant.ts';
import { SAFETY_INVARIANTS } from './invariants/safety-invariants.ts';
import { nameEdge } from './name-edge.ts';
import { beginLedger, followLedger } from './reference/follow-reference.ts';
import type { ReferenceModel } from './reference/reference-model.ts';

/** A state of the chart and one way that leads to it. */
export type Place = {
  state: ChartState;
  reference: ReferenceModel;
  /** Events from the start. */
  depth: number;
  from: { place: Place; event: ChartEvent } | null;
  /** Something was wrong on the way: what the chart promises is still looked at, not how it works. */
  tainted: boolean;
};

/** One event of a path, the state it leads to, and why the chart went there; `null` where nothing was decided. */
export type PathEntry = { event: RunStarted | ChartEvent; state: string; why: string | null };

export type Breach = {
  invariant: string;
  message: string;
  before: Place;
  event: ChartEvent | null;
  depth: number;
};

export type WalkOptions = { environment: Environment; detail: Detail; mostPlaces: number };

export type Walk = {
  /** In the order they were found in, the first of each key. */
  places: readonly Place[];
  /** Edges between places as pairs of indices, cancellations left out. */
  moves: readonly [from: number, to: number][];
  /** Whether every place was walked on from. */
  isComplete: boolean;
};

/** What was done so far, over all walks. */
export type Coverage = {
  states: number;
  /** Events that were offered, taken or not. */
  steps: number;
  crashPoints: number;
  decisions: number;
  edges: ReadonlySet<string>;
};

export const STRANGE = 'what fits is taken, and what is unknown or out of place is not';
export const STALE = 'a report of an older start is not listened to';
export const ENDED = 'a run that has ended takes no event';
export const UNHANDLED = 'an event that is not taken changes nothing and asks for nothing';
export const PERSISTED = 'a run that was dropped at any point goes on from its JSON as if it had not been';
export const JSON_ONLY = 'everything the chart knows is JSON';
export const THROWING = 'every event is answered: no step throws or goes on for ever';

/** What is checked of every run, whatever its agent. */
export const BUILT_IN: readonly string[] = [
  ...Object.keys(SAFETY_INVARIANTS),
  ...Object.keys(INTERNAL_INVARIANTS),
  ...[STRANGE, STALE, ENDED, UNHANDLED, JSON_ONLY, PERSISTED, THROWING],
];

/** One step in so many is taken again from the run's JSON; those that lead to a new place always are. */
const CRASH_SAMPLE = 5;

export type Watcher = {
  onTaken?(before: Place, event: ChartEvent, step: Step, merged: Place | undefined): void;
  onPlace?(states: number): void;
};

/** Walks over what runs can do, and holds every step to what must be. Finds each invariant's shortest breach. */
export class Explorer {
  readonly breaches = new Map<string, Breach>();
  readonly start: Place;
  readonly #machine: AgentMachine;
  readonly #stepper: Stepper;
  readonly started: RunStarted;
  readonly #invariants: readonly NamedInvariant[];
  readonly #watcher: Watcher;
  readonly #edges = new Set<string>();
  readonly #traced = new Set<string>();
  #states = 0;
  #steps = 0;
  #crashPoints = 0;
  #decisions = 0;
  #readsHistory = false;

  constructor(
    machine: AgentMachine,
    started: RunStarted,
    invariants: readonly NamedInvariant[] = [],
    watcher: Watcher = {},
  ) {
    this.#machine = machine;
    this.#stepper = makeStepper(machine);
    this.started = started;
    this.#invariants = invariants;
    this.#watcher = watcher;
    this.start = this.#begin();
  }

  get coverage(): Coverage {
    return {
      states: this.#states,
      steps: this.#steps,
      crashPoints: this.#crashPoints,
      decisions: this.#decisions,
      edges: this.#edges,
    };
  }

  /** Whether a predicate looked at what lies behind: places with another past are not one to it. */
  get readsHistory(): boolean {
    return this.#readsHistory;
  }

  /** Breadth first from the places given. Places that share a key are one, walked on from once. */
  walk(from: readonly Place[], { environment, detail, mostPlaces }: WalkOptions): Walk {
    const places: Place[] = [];
    const moves: [number, number][] = [];
    const known = new Map<string, number>();
    const discover = (place: Place, key: string): number => {
      known.set(key, places.length);
      this.#states += 1;
      this.#watcher.onPlace?.(this.#states);
      return places.push(place) - 1;
    };
    for (const place of from) {
      const key = abstractState(place.state, place.reference, detail);
      if (!known.has(key)) discover(place, key);
    }
    for (let index = 0; index < places.length; index += 1) {
      const before = places[index];
      if (before === undefined) break;
      const restored = this.#drop(before);
      let taken = 0;
      for (const event of generateEvents(before.state, environment)) {
        const after = this.take(before, event);
        if (after === null) continue;
        const key = abstractState(after.place.state, after.place.reference, detail);
        const merged = known.get(key);
        this.#watcher.onTaken?.(before, event, after.step, merged === undefined ? undefined : places[merged]);
        taken += 1;
        if (restored !== null && (merged === undefined || taken % CRASH_SAMPLE === 0)) {
          this.#compare(before, restored, event, after.step);
        }
        if (merged === undefined && places.length >= mostPlaces) return { places, moves, isComplete: false };
        const to = merged ?? discover(after.place, key);
        if (event.type !== 'run.cancelled' || before.state.context.cancelling !== null)
          moves.push([index, to]);
      }
    }
    return { places, moves, isComplete: true };
  }

  /** One event: what it leads to, held to everything; `null` when it is not taken. */
  take(before: Place, event: ChartEvent): { place: Place; step: Step } | null {
    this.#steps += 1;
    const fits = isEnabled(event, before.reference, before.state);
    const known = this.breaches.size;
    const step = this.#step(before, event);
    if (step === null) return null;
    if (step.handled !== fits && !before.tainted) {
      const wrong = step.handled ? 'was taken' : 'was not taken';
      this.#note(nameMisfit(before, event, step), `${event.type} ${wrong}`, before, event);
    }
    if (!step.handled) {
      const changed = step.state !== before.state || step.effects.length > 0;
      if (changed) this.#note(UNHANDLED, `${event.type} changed something`, before, event);
      return null;
    }
    if (DECISIONS.has(event.type)) this.#decisions += 1;
    this.#traceEdges(before, event, step);
    const reference = followLedger(before.reference, event, step);
    const taken: Taken = { before, event, after: step.state, effects: step.effects, reference };
    const broken = this.#hold(taken, before, event);
    const { transcript, inbox } = step.state.context;
    const place: Place = {
      state: step.state,
      reference: broken ? reference : { ...reference, transcript, inbox },
      depth: before.depth + 1,
      from: { place: before, event },
      tainted: before.tainted || broken || this.breaches.size > known,
    };
    this.#holdInvariants(taken, before, place);
    return { place, step };
  }

  /** An event that was taken, as a line of a path. A step that throws leads nowhere. */
  tellStep(before: Place, event: ChartEvent): PathEntry {
    try {
      const { state, effects } = this.#stepper.next(before.state, event);
      const whys = effects.flatMap(effect =>
        effect.type === 'publish' && effect.notice.type === 'decided' ? [effect.notice.next.why] : [],
      );
      return { event, state: statePath(state), why: whys.at(-1) ?? null };
    } catch (error) {
      return { event, state: statePath(before.state), why: messageOf(error) };
    }
  }

  /** The events that lead to a place, its start left out. */
  static eventsTo(place: Place): ChartEvent[] {
    const events: ChartEvent[] = [];
    for (let here = place; here.from !== null; here = here.from.place) events.unshift(here.from.event);
    return events;
  }

  #begin(): Place {
    const step = this.#stepper.initial(this.started);
    const reference = beginLedger(this.started, step);
    const start: Place = { state: step.state, reference, depth: 0, from: null, tainted: false };
    const taken: Taken = { before: null, event: null, after: step.state, effects: step.effects, reference };
    const broken = this.#hold(taken, start, null);
    this.#holdInvariants(taken, null, start);
    return { ...start, tainted: broken };
  }

  #step(before: Place, event: ChartEvent): Step | null {
    try {
      return this.#stepper.next(before.state, event);
    } catch (error) {
      this.#note(THROWING, messageOf(error), before, event);
      return null;
    }
  }

  #hold(taken: Taken, before: Place, event: ChartEvent | null): boolean {
    let broken = false;
    const check = ([name, property]: [string, Property]) => {
      const wrong = property(taken);
      if (wrong === null) return;
      broken = true;
      this.#note(name, wrong, before, event);
    };
    PROMISES_LIST.forEach(check);
    if (!before.tainted) WORKINGS_LIST.forEach(check);
    return broken;
  }

  #holdInvariants({ after, effects, event }: Taken, before: Place | null, place: Place): void {
    if (this.#invariants.length === 0) return;
    const moment = makeMoment({
      after,
      effects,
      event: event ?? this.started,
      before: before?.state ?? null,
      listEvents: () => [this.started, ...Explorer.eventsTo(place)],
      ...(this.#readsHistory ? {} : { onLookBack: () => (this.#readsHistory = true) }),
    });
    for (const invariant of this.#invariants) {
      const wrong = findBreach(invariant, moment);
      if (wrong !== null) this.#note(invariant.name, wrong, before ?? place, event);
    }
  }

  #note(invariant: string, message: string, before: Place, event: ChartEvent | null): void {
    const depth = before.depth + (event === null ? 0 : 1);
    const known = this.breaches.get(invariant);
    if (known === undefined || depth < known.depth)
      this.breaches.set(invariant, { invariant, message, before, event, depth });
  }

  #traceEdges(before: Place, event: ChartEvent, step: Step): void {
    const decided = step.effects.flatMap(effect =>
      effect.type === 'publish' && effect.notice.type === 'decided' ? [effect.notice.next.type] : [],
    );
    const move = `${statePath(before.state)} ${event.type} ${statePath(step.state)} ${decided}`;
    if (this.#traced.has(move)) return;
    this.#traced.add(move);
    for (const edge of this.#stepper.trace(before.state, event).edges) this.#edges.add(nameEdge(edge));
  }

  /** The process ends here: another has the run's JSON, and starts what it waits for. */
  #drop(place: Place): ChartState | null {
    const { state, reference } = place;
    if (state.status !== 'active') return null;
    this.#crashPoints += 1;
    const strange = findWhatIsNotJson(state.context, 'context');
    if (strange !== null) {
      const { place: before, event } = place.from ?? { place, event: null };
      this.#note(JSON_ONLY, strange, before, event);
    }
    try {
      const { restored, services } = dropProcess(state, this.#machine);
      const [waited, ran] = [JSON.stringify(services), JSON.stringify(reference.running)];
      if (waited !== ran && !place.tainted)
        this.#note(PERSISTED, `${ran} ran, and ${waited} is started again`, place, null);
      return restored;
    } catch (error) {
      this.#note(PERSISTED, messageOf(error), place, null);
      return null;
    }
  }

  #compare(before: Place, restored: ChartState, event: ChartEvent, step: Step): void {
    try {
      const wrong = compareSteps(step, this.#stepper.next(restored, event));
      if (wrong !== null) this.#note(PERSISTED, wrong, before, event);
    } catch (error) {
      this.#note(PERSISTED, messageOf(error), before, event);
    }
  }
}

const PROMISES_LIST = Object.entries(SAFETY_INVARIANTS);
const WORKINGS_LIST = Object.entries(INTERNAL_INVARIANTS);

/** What people and clients say about a call. */
const DECISIONS: ReadonlySet<ChartEvent['type']> = new Set([
  'approval.decided',
  'result.received',
  'doubt.resolved',
]);

function nameMisfit({ state, reference }: Place, event: ChartEvent, { handled }: Step): string {
  if (state.status !== 'active') return ENDED;
  const current = Object.values(reference.running).map(({ generation }) => generation);
  return handled && 'generation' in event && !current.includes(event.generation) ? STALE : STRANGE;
}
