import type { AgentMachine } from '../machines/agent.ts';
import { fromStored, pendingServices, toStored } from '../machines/snapshot.ts';
import {
  type ChartState,
  type Edge,
  makeStepper,
  type Step,
  type Stepper,
  statePath,
} from '../machines/step.ts';
import type { ServiceInput } from '../protocol/effect.ts';
import { messageOf } from '../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import { abstractState, type Detail } from './abstract-state.ts';
import {
  type BuiltInInvariant,
  type CheckedStep,
  findNonJson,
  INTERNAL_INVARIANTS,
  JSON_ONLY,
  NO_SILENT_CHANGE,
  nameMismatch,
  RESTORABLE,
  SAFETY_INVARIANTS,
  STEPS_COMPLETE,
} from './built-in-invariants.ts';
import type { Environment } from './environment.ts';
import { followReference, isEnabled, replayPast } from './follow-reference.ts';
import { generateEvents } from './generate-events.ts';
import { findBreach, makeMoment, type NamedInvariant } from './invariant.ts';
import type { ReferenceModel } from './reference-model.ts';

type WalkOptions = {
  environment: Environment;
  detail: Detail;
  mostPlaces: number;
  /** Whether the time is over; asked before each place is expanded. Default: never. */
  isOver?: () => boolean;
};

/** The option of `explore` that stopped a walk before its end. */
type StoppedBy = 'maxStates' | 'maxMs';

export type Walk = {
  /** In the order of discovery, one per key. */
  places: readonly Place[];
  /** Edges between places as pairs of indices, without cancellations. */
  moves: readonly [from: number, to: number][];
  /** Whether every place was expanded. */
  isComplete: boolean;
  /** The option that stopped it before that. */
  stoppedBy?: StoppedBy;
  /** The number of places that were not expanded, or not in full. */
  unexpanded: number;
};

/** Counts over all walks. */
type Coverage = {
  states: number;
  /** The number of offered events, accepted or not. */
  steps: number;
  crashPoints: number;
  decisions: number;
  edges: ReadonlySet<string>;
};

/** One in this many steps is repeated from the run's JSON; steps that lead to a new place always are. */
const CRASH_SAMPLE = 5;

export type Watcher = {
  onTaken?(before: Place, event: ChartEvent, step: Step, merged: Place | undefined): void;
  onPlace?(states: number): void;
};

/** Walks the states that a run can reach, checks every step, and keeps the shortest breach of each invariant. */
export class Explorer {
  readonly breaches = new Map<string, Breach>();
  readonly start: Place;
  readonly #machine: AgentMachine;
  readonly #stepper: Stepper;
  readonly started: RunStarted;
  readonly #past: readonly ChartEvent[];
  readonly #invariants: readonly NamedInvariant[];
  readonly #watcher: Watcher;
  readonly #edges = new Set<string>();
  readonly #traced = new Set<string>();
  #states = 0;
  #steps = 0;
  #crashPoints = 0;
  #decisions = 0;
  readonly #historyReaders = new Set<string>();

  /** `past`: the events after `started` that lead to the state where the walks start. Throws `journal-damaged`. */
  constructor(
    machine: AgentMachine,
    started: RunStarted,
    invariants: readonly NamedInvariant[] = [],
    watcher: Watcher = {},
    past: readonly ChartEvent[] = [],
  ) {
    this.#machine = machine;
    this.#stepper = makeStepper(machine, { compiles: true });
    this.started = started;
    this.#past = past;
    this.#invariants = invariants;
    this.#watcher = watcher;
    this.start = this.#begin();
  }

  /** Counts over all walks so far. */
  get coverage(): Coverage {
    return {
      states: this.#states,
      steps: this.#steps,
      crashPoints: this.#crashPoints,
      decisions: this.#decisions,
      edges: this.#edges,
    };
  }

  /** The invariants that have read the transcript or the earlier events: for them, places differ by their past. */
  get historyReaders(): readonly string[] {
    return [...this.#historyReaders];
  }

  /** Walks breadth first from the places. Places with the same key count as one and are expanded once. */
  walk(from: readonly Place[], { environment, detail, mostPlaces, isOver = () => false }: WalkOptions): Walk {
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
      const stop = (stoppedBy: StoppedBy): Walk => {
        return { places, moves, isComplete: false, stoppedBy, unexpanded: places.length - index };
      };
      if (isOver()) return stop('maxMs');
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
        if (merged === undefined && places.length >= mostPlaces) return stop('maxStates');
        const to = merged ?? discover(after.place, key);
        if (event.type !== 'run.cancelled' || before.state.context.cancelling !== null)
          moves.push([index, to]);
      }
    }
    return { places, moves, isComplete: true, unexpanded: 0 };
  }

  /** Offers one event and checks the step. Returns where it leads, or `null` if the chart ignores it. */
  take(before: Place, event: ChartEvent): { place: Place; step: Step } | null {
    this.#steps += 1;
    const enabled = isEnabled(event, before.reference, before.state);
    const known = this.breaches.size;
    const step = this.#step(before, event);
    if (step === null) return null;
    if (step.handled !== enabled && !before.tainted) {
      const wrong = step.handled ? 'was accepted' : 'was ignored';
      this.#note(nameMismatch(before, event, step), `${event.type} ${wrong}`, before, event);
    }
    if (!step.handled) {
      const changed = step.state !== before.state || step.effects.length > 0;
      if (changed)
        this.#note(
          NO_SILENT_CHANGE,
          `${event.type} was ignored, but changed the state or had effects`,
          before,
          event,
        );
      return null;
    }
    if (DECISIONS.has(event.type)) this.#decisions += 1;
    this.#traceEdges(before, event, step);
    const reference = followReference(before.reference, event, step);
    const checked: CheckedStep = { before, event, after: step.state, effects: step.effects, reference };
    const broken = this.#check(checked, before, event);
    const { transcript, inbox } = step.state.context;
    const place: Place = {
      state: step.state,
      reference: broken ? reference : { ...reference, transcript, inbox },
      depth: before.depth + 1,
      from: { place: before, event },
      tainted: before.tainted || broken || this.breaches.size > known,
    };
    this.#checkInvariants(checked, before, place);
    return { place, step };
  }

  /** Describes an accepted event as an entry of a path. A step that throws stays in the same state. */
  describeStep(before: Place, event: ChartEvent): PathEntry {
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

  /** Returns the events that lead to a place, without `run.started`. */
  static eventsTo(place: Place): ChartEvent[] {
    const events: ChartEvent[] = [];
    for (let here = place; here.from !== null; here = here.from.place) events.unshift(here.from.event);
    return events;
  }

  #begin(): Place {
    const { before, event, after, effects, reference } = replayPast(this.#stepper, this.started, this.#past);
    const start: Place = { state: after, reference, depth: 0, from: null, tainted: false };
    const checked: CheckedStep = { before, event, after, effects, reference };
    const broken = event === null && this.#check(checked, start, null);
    this.#checkInvariants(checked, before, start);
    return { ...start, tainted: broken };
  }

  #step(before: Place, event: ChartEvent): Step | null {
    try {
      return this.#stepper.next(before.state, event);
    } catch (error) {
      this.#note(STEPS_COMPLETE, messageOf(error), before, event);
      return null;
    }
  }

  #check(step: CheckedStep, before: Place, event: ChartEvent | null): boolean {
    let broken = false;
    const check = ([name, invariant]: [string, BuiltInInvariant]) => {
      const wrong = invariant(step);
      if (wrong === null) return;
      broken = true;
      this.#note(name, wrong, before, event);
    };
    SAFETY_CHECKS.forEach(check);
    if (!before.tainted) INTERNAL_CHECKS.forEach(check);
    return broken;
  }

  #checkInvariants(
    { after, effects, event }: CheckedStep,
    before: CheckedStep['before'],
    place: Place,
  ): void {
    if (this.#invariants.length === 0) return;
    let reader = '';
    const knowsAll = this.#historyReaders.size === this.#invariants.length;
    const moment = makeMoment({
      after,
      effects,
      event: event ?? this.started,
      before: before?.state ?? null,
      listEvents: () => [this.started, ...this.#past, ...Explorer.eventsTo(place)],
      ...(knowsAll ? {} : { onLookBack: () => this.#historyReaders.add(reader) }),
    });
    for (const invariant of this.#invariants) {
      reader = invariant.name;
      const wrong = findBreach(invariant, moment);
      const { from } = place;
      if (wrong !== null) this.#note(invariant.name, wrong, from?.place ?? place, from?.event ?? null);
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

  /** Simulates the end of the process: returns the state restored from JSON, and checks which services it starts. */
  #drop(place: Place): ChartState | null {
    const { state, reference } = place;
    if (state.status !== 'active') return null;
    this.#crashPoints += 1;
    const nonJson = findNonJson(state.context, 'context');
    if (nonJson !== null) {
      const { place: before, event } = place.from ?? { place, event: null };
      this.#note(JSON_ONLY, nonJson, before, event);
    }
    try {
      const { restored, services } = dropProcess(state, this.#machine);
      const [restarted, running] = [JSON.stringify(services), JSON.stringify(reference.running)];
      if (restarted !== running && !place.tainted)
        this.#note(RESTORABLE, `running: ${running}; started after the restart: ${restarted}`, place, null);
      return restored;
    } catch (error) {
      this.#note(RESTORABLE, messageOf(error), place, null);
      return null;
    }
  }

  #compare(before: Place, restored: ChartState, event: ChartEvent, step: Step): void {
    try {
      const wrong = compareSteps(step, this.#stepper.next(restored, event));
      if (wrong !== null) this.#note(RESTORABLE, wrong, before, event);
    } catch (error) {
      this.#note(RESTORABLE, messageOf(error), before, event);
    }
  }
}

const SAFETY_CHECKS = Object.entries(SAFETY_INVARIANTS);
const INTERNAL_CHECKS = Object.entries(INTERNAL_INVARIANTS);

/** Decisions of people and results of clients. */
const DECISIONS: ReadonlySet<ChartEvent['type']> = new Set([
  'approval.decided',
  'result.received',
  'doubt.resolved',
]);

/**
 * Simulates the end of the process: restores the run from its JSON alone. Returns the restored state and the
 * services to start, by id. Throws the errors of reading the JSON.
 */
function dropProcess(
  state: ChartState,
  machine: AgentMachine,
): { restored: ChartState; services: Record<string, ServiceInput> } {
  const restored = fromStored(JSON.parse(JSON.stringify(toStored(state))), machine);
  return {
    restored,
    services: Object.fromEntries(pendingServices(restored).map(({ id, input }) => [id, input])),
  };
}

/** Returns the first difference between two steps, or `null` if they are equal. */
function compareSteps(expected: Step, found: Step): string | null {
  const [one, other] = [toText(expected), toText(found)];
  return one === other ? null : describeDifference(one, other);
}

function toText({ state: { value, context, status }, effects }: Step): string {
  return JSON.stringify({ value, status, effects, context });
}

function describeDifference(expected: string, found: string): string {
  let at = 0;
  while (expected[at] === found[at]) at += 1;
  const from = Math.max(0, at - 60);
  return `expected …${expected.slice(from, at + 80)}…, got …${found.slice(from, at + 80)}…`;
}

/** A state of the chart and one way that leads to it. */
export type Place = {
  state: ChartState;
  reference: ReferenceModel;
  /** The number of events from the start. */
  depth: number;
  from: { place: Place; event: ChartEvent } | null;
  /** Whether an invariant broke on the way. From here on only the safety invariants are checked. */
  tainted: boolean;
};

/** One event of a path, the state it leads to, and the reason of the chart's decision; `null` if it made none. */
export type PathEntry = { event: RunStarted | ChartEvent; state: string; why: string | null };

export type Breach = {
  invariant: string;
  message: string;
  before: Place;
  event: ChartEvent | null;
  depth: number;
};

/** Returns `source, event [guard] -> target`; an edge without a target has its actions in parentheses. */
export function nameEdge({ from, event, guard, to, actions }: Edge): string {
  const target = to.length === 0 ? `(${actions.join()})` : to.join();
  return `${from || '(any)'}, ${event || 'always'}${nameGuard(guard)} -> ${target}`;
}

function nameGuard(guard: unknown): string {
  if (guard === undefined) return '';
  return ` [${typeof guard === 'string' ? guard : JSON.stringify(guard)}]`;
}
