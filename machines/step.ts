import { type AnyActorScope, createActor, createMachine, initialTransition } from 'xstate';
import type { Effect, Notice, ServiceInput } from '../protocol/effect.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import { type AgentMachine, agentMachine, type ChartState } from './agent.ts';
import { type CompiledMachine, compile } from './compiled/compile.ts';
import { Refusal } from './compiled/compile-action.ts';
import { beginRun, type Step, takeEvent } from './compiled/macrostep.ts';
import { serviceNamed } from './pending-service.ts';

/**
 * The chart as a pure function. XState's private vocabulary is here and in `compile-action.ts`.
 *
 * S1 Nothing is executed: what the chart asks for comes back as effects.
 * S2 An event that changes nothing gives back the very same state, and `handled: false`.
 * S3 A run that has ended takes no event.
 */

export type { ChartState } from './agent.ts';
export type { Step } from './compiled/macrostep.ts';

/** One edge of the chart that a step took. `event` is `''` for an edge that needs none. */
export type Edge = { from: string; event: string; guard?: unknown; to: string[]; actions: string[] };

/** A machine of the chart as a pure function; `trace` is `next` as XState makes it, with the edges it took. */
export type Stepper = {
  /** Why XState's own transition makes the steps; `null` while the machine is compiled. */
  readonly refused: string | null;
  initial(started: RunStarted): Step;
  next(state: ChartState, event: ChartEvent): Step;
  trace(state: ChartState, event: ChartEvent): Step & { edges: Edge[] };
};

type RecordedAction = { type: string; params: unknown };

/** More actions than any step has: the machine goes round in circles. */
const MOST_ACTIONS = 200;

/** One scope for every step: making one costs more than the step itself. */
function makeInertScope(record: (action: RecordedAction) => void): AnyActorScope {
  const self = createActor(createMachine({}));
  return {
    self,
    id: 'agent',
    sessionId: self.sessionId,
    system: self.system,
    logger: () => {},
    defer: () => {},
    stopChild: () => {},
    emit: () => {},
    actionExecutor: record,
  };
}

/**
 * The chart's steps, or those of a machine made of it with `agentMachine.provide({ actions, guards })`,
 * whose actions that are plain functions are not run. A step that does not come to an end throws.
 * `compiles`: the machine is compiled; where that is refused, XState's own transition makes the steps.
 */
export function makeStepper(machine: AgentMachine, { compiles = machine === agentMachine } = {}): Stepper {
  const recorded: RecordedAction[] = [];
  const isOwn = machine === agentMachine;
  const record = ({ type, params }: RecordedAction) => {
    if (recorded.push({ type, params }) > MOST_ACTIONS) throw new Error('The step does not come to an end.');
  };
  let inertScope: AnyActorScope | undefined;

  const stepIn = (scope: AnyActorScope, state: ChartState, event: ChartEvent): Step => {
    if (state.status !== 'active') return { state, effects: [], handled: false };
    recorded.length = 0;
    const after = machine.transition(state, event, scope);
    const effects = lower(recorded, isOwn);
    return { state: after, effects, handled: after !== state };
  };

  let transitions: Transition[] = [];
  let watchedScope: AnyActorScope | undefined;
  const watch = (): AnyActorScope => {
    const scope = makeInertScope(record);
    scope.system.inspect(inspection => {
      if (inspection.type === '@xstate.microstep')
        transitions.push(...(inspection._transitions as Transition[]));
    });
    return scope;
  };

  let refused = compiles ? null : 'only the chart itself is compiled';
  let tables: CompiledMachine | undefined;
  /** `null` once anything is refused. Functions are pure: a step that is refused half-way is made again. */
  const withTables = <Result>(work: (tables: CompiledMachine) => Result): Result | null => {
    if (refused !== null) return null;
    try {
      tables ??= compile(machine);
      return work(tables);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refused = error.message;
      return null;
    }
  };

  return {
    get refused() {
      withTables(() => {});
      return refused;
    },
    initial(started) {
      const step = withTables(compiled => beginRun(compiled, { type: 'xstate.init', input: started }));
      if (step !== null) return step;
      const [state, actions] = initialTransition(machine, started);
      return { state, effects: lower(actions, isOwn), handled: true };
    },
    next(state, event) {
      if (state.status !== 'active') return { state, effects: [], handled: false };
      const isForeign = !Object.is(state.machine, machine);
      const step = isForeign ? null : withTables(compiled => takeEvent(compiled, state, event));
      if (step !== null) return step;
      inertScope ??= makeInertScope(record);
      return stepIn(inertScope, state, event);
    },
    trace(state, event) {
      watchedScope ??= watch();
      transitions = [];
      const step = stepIn(watchedScope, state, event);
      return { ...step, edges: transitions.map(describeEdge) };
    },
  };
}

const chart = makeStepper(agentMachine);

/** The state a run begins in, and the services it asks for. */
export const initial = chart.initial;

export const next = chart.next;

type Node = AgentMachine['root'];
type Transition = NonNullable<Node['always']>[number];

/** Every edge of the chart. */
export function listEdges(machine: AgentMachine = agentMachine): Edge[] {
  return listNodes(machine.root).flatMap(node =>
    [...[...node.transitions.values()].flat(), ...(node.always ?? [])].map(describeEdge),
  );
}

/** Every state of the chart, by its path, inner states included. */
export function listStates(): string[] {
  return listNodes(agentMachine.root).flatMap(({ path }) => (path.length === 0 ? [] : [path.join('.')]));
}

function listNodes(node: Node): Node[] {
  return [node, ...Object.values(node.states).flatMap(listNodes)];
}

function describeEdge({ source, eventType, guard, target, actions }: Transition): Edge {
  return {
    from: source.path.join('.'),
    event: eventType,
    ...(guard === undefined ? {} : { guard }),
    to: (target ?? []).map(({ path }) => path.join('.')),
    actions: actions.map(String),
  };
}

/** `isStrict`: an action that is no effect throws; otherwise it is left out. */
function lower(actions: readonly RecordedAction[], isStrict: boolean): Effect[] {
  const effects: Effect[] = [];
  for (const { type, params } of actions) {
    const effect = lowerAction(type, params, isStrict);
    if (effect !== null) effects.push(effect);
  }
  return effects;
}

function lowerAction(type: string, params: unknown, isStrict: boolean): Effect | null {
  switch (type) {
    case 'xstate.spawnChild': {
      const { id, src, input } = params as { id: string; src: unknown; input: ServiceInput };
      return { type: 'start', service: serviceNamed(src), id, input };
    }
    case 'xstate.stopChild': {
      const stopped = params as { id: string } | undefined;
      return stopped === undefined ? null : { type: 'stop', id: stopped.id };
    }
    case 'xstate.emit':
      return { type: 'publish', notice: (params as { event: Notice }).event };
    default:
      if (!isStrict) return null;
      throw new Error(`The chart has an action that is no effect: ${type}`);
  }
}

/** The active state as in the chart: `turn.planning`, `executingTools`, `resting.awaitingApproval`. */
export function statePath({ value }: ChartState): string {
  if (typeof value === 'string') return value;
  const [entry] = Object.entries(value);
  return entry === undefined ? '' : `${entry[0]}.${String(entry[1])}`;
}
