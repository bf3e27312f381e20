import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  and,
  assign,
  cancel,
  createActor,
  createMachine,
  emit,
  enqueueActions,
  fromCallback,
  fromPromise,
  log,
  not,
  or,
  raise,
  sendTo,
  spawnChild,
  stateIn,
  stopChild,
} from 'xstate';
import { type AgentMachine, agentMachine } from '../../machines/agent.ts';
import { fromStored, toStored } from '../../machines/snapshot.ts';
import { type ChartState, makeStepper, type Step, type Stepper } from '../../machines/step.ts';
import type { RunConfig } from '../../protocol/config.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import { generateEvents } from '../../tools/explore/events/generate-events.ts';
import { makeConfig, makeStarted } from '../support/machines/builders.ts';
import { events, machines, type RandomEvent } from '../support/machines/random-machines.ts';
import { choices, configs, WORLD } from '../support/machines/random-runs.ts';

const STARTED = makeStarted(makeConfig());

const chart = makeStepper(agentMachine);
const xstate = makeStepper(agentMachine, { compiles: false });

const compiledOf = (machine: AgentMachine): Stepper => makeStepper(machine, { compiles: true });
const xstateOf = (machine: AgentMachine): Stepper => makeStepper(machine, { compiles: false });

/** All that a step shows: what XState persists of the state, its tags, its active states, and the effects. */
function show({ state, effects, handled }: Step): string {
  const { machine, tags, children, _nodes: nodes } = state;
  return JSON.stringify({
    value: state.value,
    persisted: machine.getPersistedSnapshot(state),
    tags: [...tags].sort(),
    nodes: nodes.map(({ id }) => id).sort(),
    children: Object.keys(children),
    effects,
    handled,
  });
}

const throughJson = (state: ChartState): ChartState =>
  fromStored(JSON.parse(JSON.stringify(toStored(state))));

/** Both take the events one after another; the compiled machine also from each state that XState made. */
function playBoth(machine: AgentMachine, told: readonly RandomEvent[]): void {
  const compiled = compiledOf(machine);
  const xstate = xstateOf(machine);
  let ours = compiled.initial(STARTED);
  let theirs = xstate.initial(STARTED);
  expect(show(ours)).toBe(show(theirs));
  for (const one of told) {
    const event = one as unknown as ChartEvent;
    const before = ours.state;
    const crossed = compiled.next(theirs.state, event);
    ours = compiled.next(before, event);
    theirs = xstate.next(theirs.state, event);
    expect(show(ours)).toBe(show(theirs));
    expect(show(crossed)).toBe(show(theirs));
    expect(ours.state === before).toBe(!ours.handled);
  }
  expect(compiled.refused).toBeNull();
}

describe('a compiled machine', () => {
  it('takes the steps that XState takes, whatever it is made of', () => {
    fc.assert(fc.property(machines, events, playBoth), { seed: 1, numRuns: 400 });
  });

  it('is left to XState in a state that belongs to another machine', () => {
    const other = agentMachine.provide({ guards: { next: () => false } });
    const { state } = makeStepper(other).initial(STARTED);
    expect(state.value).toBe('deciding');
    const event = { type: 'step.requested', at: STARTED.at } as const;
    expect(show(chart.next(state, event))).toBe(show(makeStepper(other).next(state, event)));
  });

  it('that goes round in circles is stopped', () => {
    const machine = makeMachine({ a: { always: 'b', entry: 'count' }, b: { always: 'a' } });
    expect(() => compiledOf(machine).initial(STARTED)).toThrow('does not terminate');
  });
});

describe('the chart, compiled', () => {
  it('is all compiled', () => {
    expect(chart.refused).toBeNull();
  });

  it('takes the steps that XState takes, whatever happens, from a state of its own and from a stored one', () => {
    const compare = (config: RunConfig, picks: readonly number[]) => {
      let step = chart.initial(makeStarted(config));
      expect(show(step)).toBe(show(xstate.initial(makeStarted(config))));
      for (const pick of picks) {
        const { state } = step;
        const offers = generateEvents(state, WORLD);
        const event = offers[pick % offers.length];
        if (event === undefined) break;
        step = chart.next(state, event);
        const expected = show(xstate.next(state, event));
        expect(show(step)).toBe(expected);
        expect(show(chart.next(throughJson(state), event))).toBe(expected);
      }
    };
    fc.assert(fc.property(configs, choices, compare), { seed: 1, numRuns: 100 });
  });

  it('comes with what an actor of XState is made of', () => {
    const { state } = chart.initial(STARTED);
    const restored = createActor(agentMachine, {
      snapshot: agentMachine.getPersistedSnapshot(state),
      input: STARTED,
    }).getSnapshot();
    expect(restored.value).toEqual(state.value);
    expect(restored.context).toEqual(state.context);
    expect(Object.keys(restored.children)).toEqual(Object.keys(state.children));
    expect(state.matches('turn')).toBe(true);
    expect(state.can({ type: 'step.requested', at: 0 })).toBe(true);
    expect(state.hasTag('rest')).toBe(false);
  });
});

const service = fromCallback(() => {});

/** A machine with these states, the first of which is entered; `go` leads to what is told. */
function makeMachine(states: Record<string, object>, root: object = {}): AgentMachine {
  const config = { initial: Object.keys(states)[0], context: { n: 0 }, states, ...root };
  const actions = {
    count: assign({ n: ({ context }: { context: { n: number } }) => context.n + 1 }),
    plain: () => {},
  };
  const actors = { modelTurn: service, other: service };
  const guards = { yes: () => true, both: and(['yes', 'yes']) };
  return createMachine(config as never, { actions, actors, guards } as never) as unknown as AgentMachine;
}

describe('what is not compiled is refused by name, and XState makes the step', () => {
  const go = (edge: object) => ({ a: { on: { go: edge } }, b: {} });
  const acting = (action: unknown) => go({ actions: action });

  const refused: [string, string, AgentMachine][] = [
    ['parallel states', 'which is parallel', makeMachine({ a: { type: 'parallel', states: { x: {} } } })],
    [
      'history',
      'which is history',
      makeMachine({
        a: { initial: 'x', states: { x: {}, past: { type: 'history' } } },
        b: { on: { go: 'a.past' } },
      }),
    ],
    ['a delay', '"after"', makeMachine({ a: { after: { 10: 'b' } }, b: {} })],
    [
      'a final state within another',
      'which is final within another',
      makeMachine({ a: { initial: 'x', states: { x: { type: 'final' } } } }),
    ],
    [
      'onDone of a state',
      '"onDone"',
      makeMachine({ a: { initial: 'x', states: { x: {} }, onDone: 'b' }, b: {} }),
    ],
    [
      'onDone of an actor',
      '"onDone"',
      makeMachine({ a: { invoke: { src: 'modelTurn', onDone: 'b' } }, b: {} }),
    ],
    ['systemId', '"systemId"', makeMachine({ a: { invoke: { src: 'modelTurn', systemId: 'm' } } })],
    ['output', '"output"', makeMachine({ a: {} }, { output: { n: 1 } })],
    ['a route', '"route"', makeMachine({ a: {}, b: { id: 'b', route: {} } })],
    ['options', '"options"', makeMachine({ a: {} }, { options: { maxIterations: 9 } })],
    [
      'actions of an initial edge',
      'actions of "initial"',
      makeMachine({ a: { initial: { target: 'x', actions: 'count' }, states: { x: {} } } }),
    ],
    ['several targets', 'to several states', makeMachine(go({ target: ['b', 'a'] }))],
    ['the root as a target', 'to the root', makeMachine(go({ target: '#m' }), { id: 'm' })],
    ["part of an event's name", 'matches several events', makeMachine({ a: { on: { 'go.*': 'b' } }, b: {} })],
    ['a word of a state that is new', '"novelty"', makeMachine({ a: { novelty: true } })],
    ['a word of an edge that is new', '"novelty"', makeMachine(go({ target: 'b', novelty: true }))],
    ["an action of the app's own", 'the action "plain"', makeMachine(acting('plain'))],
    ['an action that is not there', 'the action "none"', makeMachine(acting('none'))],
    ['raise', 'the action "raise"', makeMachine(acting(raise({ type: 'x' })))],
    ['cancel', 'the action "cancel"', makeMachine(acting(cancel('x')))],
    ['log', 'the action "log"', makeMachine(acting(log('x')))],
    ['sendTo', 'the action "sendTo"', makeMachine(acting(sendTo(({ self }) => self, { type: 'x' })))],
    ['a computed stop', '"stopChild" of a computed', makeMachine(acting(stopChild(() => 'x')))],
    ['a computed id', 'a computed id', makeMachine(acting(spawnChild('modelTurn', { id: () => 'x' })))],
    ['a spawn without id', 'a computed id', makeMachine(acting(spawnChild('modelTurn')))],
    ['an unknown service', 'the actor "other"', makeMachine({ a: { invoke: { src: 'other' } } })],
    [
      'an actor in place',
      'not a service',
      makeMachine({ a: { invoke: { src: fromPromise(async () => 1) } } }),
    ],
    ['a guard that is not there', 'the guard "none"', makeMachine(go({ target: 'b', guard: 'none' }))],
    ['and', 'the combined guard "and"', makeMachine(go({ target: 'b', guard: and(['yes']) }))],
    ['or', 'the combined guard "or"', makeMachine(go({ target: 'b', guard: or(['yes']) }))],
    ['not', 'the combined guard "not"', makeMachine(go({ target: 'b', guard: not('yes') }))],
    ['stateIn', 'the combined guard "stateIn"', makeMachine(go({ target: 'b', guard: stateIn('a') }))],
    [
      'a combined guard by name',
      'the combined guard "both"',
      makeMachine(go({ target: 'b', guard: 'both' })),
    ],
    ['a machine without states', 'which has no states', makeMachine({})],
  ];

  it.each(refused)('%s', (_feature, name, machine) => {
    const compiled = compiledOf(machine);
    expect(compiled.refused).toContain(name);
    expect(outcomeOf(compiled)).toEqual(outcomeOf(xstateOf(machine)));
  });

  const late: [string, string, unknown][] = [
    ['self', '"self"', emit(({ self }) => ({ type: 'who', id: typeof self.id }))],
    ['system', '"system"', assign(({ system }) => ({ n: typeof system }))],
    ['spawn', '"spawn"', assign(({ spawn }) => ({ n: typeof spawn }))],
    [
      'an enqueued raise',
      'the action "raise"',
      enqueueActions(({ enqueue }) => enqueue.raise({ type: 'back' })),
    ],
    [
      'an enqueued action of its own',
      'the action "own"',
      enqueueActions(({ enqueue }) => enqueue(function own() {})),
    ],
  ];

  it.each(late)('%s, which only a step finds out', (_feature, name, action) => {
    const machine = makeMachine({
      a: { on: { go: { target: 'b', actions: ['count', action] } } },
      b: { on: { back: 'a' } },
    });
    const compiled = compiledOf(machine);
    expect(compiled.refused).toBeNull();
    expect(outcomeOf(compiled)).toEqual(outcomeOf(xstateOf(machine)));
    expect(compiled.refused).toContain(name);
  });
});

/** What comes of the start and one event, errors included. */
function outcomeOf(stepper: Stepper): string {
  try {
    const begun = stepper.initial(STARTED);
    return show(begun) + show(stepper.next(begun.state, { type: 'go' } as unknown as ChartEvent));
  } catch (error) {
    return String(error);
  }
}
