import { type AnyActorScope, createActor, createMachine, initialTransition } from 'xstate';
import type { Effect, Notice, ServiceInput } from '../protocol/effect.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { oncePer } from '../protocol/once-per.ts';
import { type AgentMachine, agentMachine, type ChartState, endCancelled } from './agent.ts';
import { assertCompilable } from './compiled/assert-compilable.ts';
import { type CompiledMachine, compile, listNodes } from './compiled/compile.ts';
import { NotCompiled } from './compiled/compile-action.ts';
import { type Step, takeEvent, takeStart } from './compiled/macrostep.ts';
import { serviceNamed } from './pending-service.ts';

/**
 * The chart as a pure function. Only this file and `compile-action.ts` depend on XState internals.
 *
 * S1 Nothing is executed: a step returns its effects.
 * S2 An event that changes nothing returns the same state object, and `handled: false`.
 * S3 A run that has ended accepts no event.
 */

export type { ChartState } from './agent.ts';
export type { Step } from './compiled/macrostep.ts';
export { statePath } from './status.ts';

/** One edge of the chart. `event` is `''` for an edge without an event. */
export type Edge = { from: string; event: string; guard?: unknown; to: string[]; actions: string[] };

/** The chart as a pure function. `trace` is `next` with XState's own transition and also returns the edges taken. */
export type Stepper = {
  /** Why the machine is not compiled and XState's own transition is used; `null` if it is compiled. */
  readonly refused: string | null;
  initial(started: RunStarted): Step;
  next(state: ChartState, event: ChartEvent): Step;
  trace(state: ChartState, event: ChartEvent): Step & { edges: Edge[] };
};

/** Compiling costs more than following a short journal. */
const compiled = oncePer((machine: AgentMachine) => {
  assertCompilable(machine);
  return compile(machine);
});

type RecordedAction = { type: string; params: unknown };

/** More actions than any step has: a sign of an endless loop. */
const MOST_ACTIONS = 200;

/** One scope is shared by all steps: creating one costs more than the step itself. */
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
 * Returns the step functions of the chart, or of a machine derived with `agentMachine.provide({ actions, guards })`,
 * whose plain-function actions are not run. A step that does not terminate throws. With `compiles`, the machine is
 * compiled if possible; otherwise XState's own transition is used.
 */
export function makeStepper(machine: AgentMachine, { compiles = machine === agentMachine } = {}): Stepper {
  const recorded: RecordedAction[] = [];
  const isOwn = machine === agentMachine;
  const record = ({ type, params }: RecordedAction) => {
    if (recorded.push({ type, params }) > MOST_ACTIONS) throw new Error('The step does not terminate.');
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

  let refused = compiles ? null : 'only the original chart is compiled';
  /** Returns `null` once compilation was refused. Functions are pure, so an abandoned step can be repeated. */
  const withTables = <Result>(work: (tables: CompiledMachine) => Result): Result | null => {
    if (refused !== null) return null;
    try {
      return work(compiled(machine));
    } catch (error) {
      if (!(error instanceof NotCompiled)) throw error;
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
      const step = withTables(tables => takeStart(tables, started));
      if (step !== null) return step;
      const [state, actions] = initialTransition(machine, started);
      return { state, effects: lower(actions, isOwn), handled: true };
    },
    next(state, event) {
      if (state.status !== 'active') return { state, effects: [], handled: false };
      const isForeign = !Object.is(state.machine, machine);
      const step = isForeign ? null : withTables(tables => takeEvent(tables, state, event));
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

/** Returns the initial state of a run and its effects. */
export const initial = chart.initial;

/** Returns the state after an event and its effects. */
export const next = chart.next;

type Node = AgentMachine['root'];
type Transition = NonNullable<Node['always']>[number];

export function listEdges(machine: AgentMachine = agentMachine): Edge[] {
  return listNodes(machine.root).flatMap(node =>
    [...[...node.transitions.values()].flat(), ...(node.always ?? [])].map(describeEdge),
  );
}

export function listStates(): string[] {
  return listNodes(agentMachine.root).flatMap(({ path }) => (path.length === 0 ? [] : [path.join('.')]));
}

function describeEdge({ source, eventType, guard, target, actions }: Transition): Edge {
  return {
    from: source.path.join('.'),
    event: eventType,
    ...omitUndefined({ guard }),
    to: (target ?? []).map(({ path }) => path.join('.')),
    actions: actions.map(String),
  };
}

/** With `isStrict`, an action that is not an effect throws; otherwise it is skipped. */
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
      if (!isStrict || type === endCancelled.name) return null;
      throw new Error(`The chart has an action that is not an effect: ${type}`);
  }
}
