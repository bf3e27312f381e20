import { type AnyActorScope, createActor, createMachine, initialTransition, type SnapshotFrom } from 'xstate';
import {
  type Effect,
  type Notice,
  SERVICE_NAMES,
  type ServiceInput,
  type ServiceName,
} from '../protocol/effect.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import { agentMachine } from './agent.ts';

/**
 * The chart as a pure function, and the only file that knows XState's private vocabulary.
 *
 * S1 Nothing is executed: what the chart asks for comes back as effects.
 * S2 An event that changes nothing gives back the very same state, and `handled: false`.
 * S3 A run that has ended takes no event.
 */

/** Where the chart stands, in the machine's own form; `machines/snapshot.ts` makes JSON of it and back. */
export type ChartState = SnapshotFrom<typeof agentMachine>;

export type Step = { state: ChartState; effects: Effect[]; handled: boolean };

type RecordedAction = { type: string; params: unknown };

const recorded: RecordedAction[] = [];

/** One scope for every step: making one costs more than the step itself. */
const inertScope: AnyActorScope = makeInertScope();

function makeInertScope(): AnyActorScope {
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
    actionExecutor: action => {
      recorded.push({ type: action.type, params: action.params });
    },
  };
}

/** The state a run begins in, and the services it asks for. */
export function initial(started: RunStarted): Step {
  const [state, actions] = initialTransition(agentMachine, started);
  return { state, effects: lower(actions.map(({ type, params }) => ({ type, params }))), handled: true };
}

export function next(state: ChartState, event: ChartEvent): Step {
  if (state.status !== 'active') return { state, effects: [], handled: false };
  recorded.length = 0;
  const after = agentMachine.transition(state, event, inertScope);
  const effects = lower(recorded);
  return { state: after, effects, handled: after !== state };
}

function lower(actions: readonly RecordedAction[]): Effect[] {
  const effects: Effect[] = [];
  for (const { type, params } of actions) {
    const effect = lowerAction(type, params);
    if (effect !== null) effects.push(effect);
  }
  return effects;
}

function lowerAction(type: string, params: unknown): Effect | null {
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
      throw new Error(`The chart has an action that is no effect: ${type}`);
  }
}

export function serviceNamed(name: unknown): ServiceName {
  const known = SERVICE_NAMES.find(service => service === name);
  if (known === undefined) throw new Error(`The chart has no service "${String(name)}"`);
  return known;
}
