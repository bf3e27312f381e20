import { findNonJson, isPlain } from '../engine/services/read-output.ts';
import type { AgentMachine } from '../machines/agent.ts';
import { fromStored, toStored } from '../machines/snapshot.ts';
import {
  type ChartState,
  type Edge,
  makeStepper,
  type Step,
  type Stepper,
  statePath,
} from '../machines/step.ts';
import { EngineError, messageOf } from '../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { abstractState, type Detail } from './abstract-state.ts';
import {
  decisionsOf,
  INTERNAL_INVARIANTS,
  JSON_ONLY,
  listPending,
  NO_SILENT_CHANGE,
  nameMismatch,
  RESTORABLE,
  SAFETY_INVARIANTS,
  STEPS_COMPLETE,
} from './built-in-invariants.ts';
import type { RuleEnforcer } from './enforce-rules.ts';
import type { Environment } from './environment.ts';
import { generateEvents } from './generate-events.ts';
import { findBreach, makeMoment, type NamedInvariant } from './invariant.ts';
import type { FollowedRules, Monitor } from './monitor.ts';
import {
  type CheckedStep,
  followReference,
  isEnabled,
  type ReferenceModel,
  startReference,
} from './reference-model.ts';

export type WalkBounds = {
  mostPlaces: number;
  /** Whether the time is over; asked before each place is expanded. Default: never. */
  isOver?: () => boolean;
};

type WalkOptions = WalkBounds & { environment: Environment; detail: Detail };

type Walked = {
  /** In the order of discovery, one per key. */
  places: readonly WalkPlace[];
  /** Edges between places as pairs of indices, without cancellations. */
  moves: readonly [from: number, to: number][];
};

export type StoppedWalk = Walked & {
  isComplete: false;
  stoppedBy: 'maxStates' | 'maxMs';
  /** The number of places that were not expanded, or not in full. */
  unexpanded: number;
  /** Continues the walk, until other bounds. */
  goOn(bounds: WalkBounds): Steps<Walk>;
};

export type Walk = (Walked & { isComplete: true }) | StoppedWalk;

/** Where a walk is: `known` has the index of each place by its key, and the places from `next` on are not expanded. */
type Progress = {
  environment: Environment;
  detail: Detail;
  places: WalkPlace[];
  moves: [number, number][];
  known: Map<string, number>;
  next: number;
};

/** A long computation, in steps between which its caller may do something else. */
export type Steps<Result> = Generator<undefined, Result>;

export function takeSteps<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** One in this many steps is repeated from the run's JSON; steps that lead to a new place always are. */
const CRASH_SAMPLE = 5;

export type WalkWatcher = {
  onTaken?(before: WalkPlace, event: ChartEvent, step: Step, merged: WalkPlace | undefined): void;
  onPlace?(states: number): void;
};

/** Walks the states that a run can reach, checks every step, and keeps the shortest breach of each invariant. */
export class Explorer {
  readonly breaches = new Map<string, Breach>();
  /** The shortest breach of each rule. */
  readonly broken = new Map<string, Breach>();
  readonly start: WalkPlace;
  readonly #machine: AgentMachine;
  readonly #stepper: Stepper;
  readonly started: RunStarted;
  readonly #past: readonly ChartEvent[];
  readonly #invariants: readonly NamedInvariant[];
  readonly #watcher: WalkWatcher;
  readonly #monitor: Monitor | undefined;
  readonly #enforcer: RuleEnforcer | undefined;
  /** Counts over all walks so far. `steps`: the offered events, accepted or not. */
  readonly coverage = { states: 0, steps: 0, crashPoints: 0, decisions: 0, edges: new Set<string>() };
  /** The invariants that have read the transcript or the earlier events: for them, places differ by their past. */
  readonly historyReaders = new Set<string>();
  readonly #traced = new Set<string>();

  /** `past`: the events after `started` that lead to the state where the walks start. Throws `journal-damaged`. */
  constructor(
    machine: AgentMachine,
    started: RunStarted,
    invariants: readonly NamedInvariant[] = [],
    watcher: WalkWatcher = {},
    past: readonly ChartEvent[] = [],
    { monitor, enforcer }: { monitor?: Monitor; enforcer?: RuleEnforcer } = {},
  ) {
    this.#machine = machine;
    this.#stepper = makeStepper(machine, { compiles: true });
    this.started = started;
    this.#past = past;
    this.#invariants = invariants;
    this.#watcher = watcher;
    this.#monitor = monitor;
    this.#enforcer = enforcer;
    this.start = this.#begin();
  }

  /** Walks breadth first from the places. Places with the same key count as one and are expanded once. */
  walk(from: readonly WalkPlace[], options: WalkOptions): Walk {
    return takeSteps(this.walkInSteps(from, options));
  }

  /** As `walk`; each step expands one place. */
  walkInSteps(from: readonly WalkPlace[], { environment, detail, ...bounds }: WalkOptions): Steps<Walk> {
    const walk: Progress = { environment, detail, places: [], moves: [], known: new Map(), next: 0 };
    for (const place of from) {
      const key = this.#abstract(place, detail, environment);
      if (!walk.known.has(key)) this.#discover(walk, place, key);
    }
    return this.#expand(walk, bounds);
  }

  #discover({ places, known }: Progress, place: WalkPlace, key: string): number {
    known.set(key, places.length);
    this.coverage.states += 1;
    this.#watcher.onPlace?.(this.coverage.states);
    return places.push(place) - 1;
  }

  /** A place in whose middle the walk stopped before is expanded again. */
  *#expand(walk: Progress, { mostPlaces, isOver = () => false }: WalkBounds): Steps<Walk> {
    const { environment, detail, places, moves, known } = walk;
    const stop = (stoppedBy: StoppedWalk['stoppedBy']): Walk => {
      const goOn = (more: WalkBounds) => this.#expand(walk, more);
      return { places, moves, isComplete: false, stoppedBy, unexpanded: places.length - walk.next, goOn };
    };
    for (; walk.next < places.length; walk.next += 1) {
      const before = places[walk.next];
      if (before === undefined) break;
      if (isOver()) return stop('maxMs');
      const restored = this.#drop(before);
      let taken = 0;
      for (const offered of generateEvents(before.state, environment)) {
        const after = this.take(before, offered);
        if (after === null) continue;
        const { event } = after;
        const key = this.#abstract(after.place, detail, environment);
        const merged = known.get(key);
        this.#watcher.onTaken?.(before, event, after.step, merged === undefined ? undefined : places[merged]);
        taken += 1;
        if (restored !== null && (merged === undefined || taken % CRASH_SAMPLE === 0)) {
          this.#compare(before, restored, event, after.step);
        }
        if (merged === undefined && places.length >= mostPlaces) return stop('maxStates');
        const to = merged ?? this.#discover(walk, after.place, key);
        if (event.type !== 'run.cancelled' || before.state.context.cancelling !== null)
          moves.push([walk.next, to]);
      }
      yield;
    }
    return { places, moves, isComplete: true };
  }

  /** Of a run that has ended, nothing more can break a rule. */
  #abstract({ state, reference, followed }: WalkPlace, detail: Detail, environment: Environment): string {
    const key = abstractState(state, reference, detail, environment);
    if (this.#monitor === undefined || followed === undefined || state.status !== 'active') return key;
    return `${key}|${this.#monitor.describe(followed, reference)}`;
  }

  #followRules(before: WalkPlace, event: ChartEvent, after: ReferenceModel): FollowedRules | undefined {
    if (this.#monitor === undefined || before.followed === undefined) return undefined;
    const { now, broken } = this.#monitor.follow(before.followed, { before: before.reference, event, after });
    for (const { name, message } of broken) keepShortest(this.broken, name, message, before, event);
    return now;
  }

  /** The event as the engine, with the agent's rules, gives it to the chart. */
  #enforce({ state, followed }: WalkPlace, event: ChartEvent): ChartEvent | null {
    const monitor = this.#monitor;
    if (this.#enforcer === undefined || monitor === undefined || followed === undefined) return event;
    return this.#enforcer.apply(state, event, condition => monitor.statesOf(followed, condition));
  }

  /**
   * Offers one event, as rules leave it, and checks the step. Returns where it leads, or `null` if the chart ignores it or
   * the engine refuses it.
   */
  take(before: WalkPlace, offered: ChartEvent): { place: WalkPlace; step: Step; event: ChartEvent } | null {
    this.coverage.steps += 1;
    const event = this.#enforce(before, offered);
    if (event === null) return null;
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
    if (DECISIONS.has(event.type)) this.coverage.decisions += 1;
    this.#traceEdges(before, event, step);
    const reference = followReference(before.reference, event, step);
    const checked: CheckedStep = { before, event, after: step.state, effects: step.effects, reference };
    const broken = this.#check(checked, before, event);
    const { transcript, inbox } = step.state.context;
    const followed = this.#followRules(before, event, reference);
    const place: WalkPlace = {
      state: step.state,
      reference: broken ? reference : { ...reference, transcript, inbox },
      depth: before.depth + 1,
      from: { place: before, event },
      tainted: before.tainted || broken || this.breaches.size > known,
      ...omitUndefined({ followed }),
    };
    this.#checkInvariants(checked, before, place);
    return { place, step, event };
  }

  /** Describes an accepted event as an entry of a path. A step that throws stays in the same state. */
  describeStep(before: WalkPlace, event: ChartEvent): PathEntry {
    try {
      const step = this.#stepper.next(before.state, event);
      return { event, state: statePath(step.state), why: decisionsOf(step.effects).at(-1)?.why ?? null };
    } catch (error) {
      return { event, state: statePath(before.state), why: messageOf(error) };
    }
  }

  /** Follows the past, of which only the last step is checked: its events have happened. */
  #begin(): WalkPlace {
    const first = this.#stepper.initial(this.started);
    let checked: CheckedStep = {
      before: null,
      event: null,
      after: first.state,
      effects: first.effects,
      reference: startReference(this.started, first),
    };
    let followed = this.#monitor?.start;
    for (const [index, event] of this.#past.entries()) {
      const before = { state: checked.after, reference: checked.reference };
      const step = this.#stepper.next(before.state, event);
      if (!step.handled)
        throw new EngineError(
          'journal-damaged',
          `The chart does not accept event ${index + 1} after the start, ${event.type}.`,
        );
      const { transcript, inbox } = step.state.context;
      const reference = { ...followReference(before.reference, event, step), transcript, inbox };
      if (followed !== undefined)
        followed = this.#monitor?.follow(followed, { before: before.reference, event, after: reference }).now;
      checked = { before, event, after: step.state, effects: step.effects, reference };
    }
    const { after: state, reference, before, event } = checked;
    const start: WalkPlace = {
      state,
      reference,
      depth: 0,
      from: null,
      tainted: false,
      ...omitUndefined({ followed }),
    };
    const broken = event === null && this.#check(checked, start, null);
    this.#checkInvariants(checked, before, start);
    return { ...start, tainted: broken };
  }

  #step(before: WalkPlace, event: ChartEvent): Step | null {
    try {
      return this.#stepper.next(before.state, event);
    } catch (error) {
      this.#note(STEPS_COMPLETE, messageOf(error), before, event);
      return null;
    }
  }

  #check(step: CheckedStep, before: WalkPlace, event: ChartEvent | null): boolean {
    let broken = false;
    for (const [name, invariant] of before.tainted ? SAFETY_CHECKS : ALL_CHECKS) {
      const wrong = invariant(step);
      if (!wrong) continue;
      broken = true;
      this.#note(name, wrong, before, event);
    }
    return broken;
  }

  #checkInvariants(
    { after, effects, event }: CheckedStep,
    before: CheckedStep['before'],
    place: WalkPlace,
  ): void {
    if (this.#invariants.length === 0) return;
    let reader = '';
    const knowsAll = this.historyReaders.size === this.#invariants.length;
    const moment = makeMoment({
      after,
      effects,
      event: event ?? this.started,
      before: before?.state ?? null,
      listEvents: () => [this.started, ...this.#past, ...eventsTo(place)],
      ...(knowsAll ? {} : { onLookBack: () => this.historyReaders.add(reader) }),
    });
    for (const invariant of this.#invariants) {
      reader = invariant.name;
      const wrong = findBreach(invariant, moment);
      const { from } = place;
      if (wrong !== null) this.#note(invariant.name, wrong, from?.place ?? place, from?.event ?? null);
    }
  }

  #note(invariant: string, message: string, before: WalkPlace, event: ChartEvent | null): void {
    keepShortest(this.breaches, invariant, message, before, event);
  }

  #traceEdges(before: WalkPlace, event: ChartEvent, step: Step): void {
    const decided = decisionsOf(step.effects).map(({ type }) => type);
    const move = `${statePath(before.state)} ${event.type} ${statePath(step.state)} ${decided}`;
    if (this.#traced.has(move)) return;
    this.#traced.add(move);
    for (const edge of this.#stepper.trace(before.state, event).edges)
      this.coverage.edges.add(nameEdge(edge));
  }

  /** Simulates the end of the process: returns the state restored from JSON, and checks which services it starts. */
  #drop(place: WalkPlace): ChartState | null {
    const { state, reference } = place;
    if (state.status !== 'active') return null;
    this.coverage.crashPoints += 1;
    const nonJson = findNonJson(state.context, ({ value }) => !isJson(value), 'context');
    if (nonJson !== undefined) {
      const { place: before, event } = place.from ?? { place, event: null };
      this.#note(JSON_ONLY, `${nonJson.path} is ${kindOf(nonJson.value)}`, before, event);
    }
    try {
      const restored = fromStored(JSON.parse(JSON.stringify(toStored(state))), this.#machine);
      const [restarted, running] = [listPending(restored), JSON.stringify(reference.running)];
      if (restarted !== running && !place.tainted)
        this.#note(RESTORABLE, `running: ${running}; started after the restart: ${restarted}`, place, null);
      return restored;
    } catch (error) {
      this.#note(RESTORABLE, messageOf(error), place, null);
      return null;
    }
  }

  #compare(before: WalkPlace, restored: ChartState, event: ChartEvent, step: Step): void {
    try {
      const [expected, found] = [toText(step), toText(this.#stepper.next(restored, event))];
      if (expected !== found) this.#note(RESTORABLE, describeDifference(expected, found), before, event);
    } catch (error) {
      this.#note(RESTORABLE, messageOf(error), before, event);
    }
  }
}

function keepShortest(
  breaches: Map<string, Breach>,
  invariant: string,
  message: string,
  before: WalkPlace,
  event: ChartEvent | null,
): void {
  const depth = before.depth + (event === null ? 0 : 1);
  const known = breaches.get(invariant);
  if (known === undefined || depth < known.depth)
    breaches.set(invariant, { invariant, message, before, event, depth });
}

const SAFETY_CHECKS = Object.entries(SAFETY_INVARIANTS);
const ALL_CHECKS = [...SAFETY_CHECKS, ...Object.entries(INTERNAL_INVARIANTS)];

const DECISIONS: ReadonlySet<ChartEvent['type']> = new Set([
  'approval.decided',
  'review.decided',
  'result.received',
  'doubt.resolved',
]);

function kindOf(value: unknown): string {
  if (typeof value === 'object') return `a ${value?.constructor.name}`;
  return typeof value === 'number' ? String(value) : typeof value;
}

/** Whether a value, without its members, is JSON. */
function isJson(value: unknown): boolean {
  if (typeof value === 'object') return value === null || isPlain(value);
  return Number.isFinite(value) || typeof value === 'string' || typeof value === 'boolean';
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
export type WalkPlace = {
  state: ChartState;
  reference: ReferenceModel;
  /** The number of events from the start. */
  depth: number;
  from: { place: WalkPlace; event: ChartEvent } | null;
  /** Whether an invariant broke on the way. From here on only the safety invariants are checked. */
  tainted: boolean;
  /** Where the rules are, if any are followed. */
  followed?: FollowedRules;
};

/** Returns the events that lead to a place, without `run.started`. */
export function eventsTo(place: WalkPlace): ChartEvent[] {
  return pathTo(place).flatMap(({ from }) => (from === null ? [] : [from.event]));
}

export function pathTo(place: WalkPlace): WalkPlace[] {
  const places: WalkPlace[] = [];
  for (let here: WalkPlace | undefined = place; here !== undefined; here = here.from?.place)
    places.unshift(here);
  return places;
}

/** One event of a path, the state it leads to, and the reason of the chart's decision; `null` if it made none. */
export type PathEntry = { event: RunStarted | ChartEvent; state: string; why: string | null };

export type Breach = {
  invariant: string;
  message: string;
  before: WalkPlace;
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
