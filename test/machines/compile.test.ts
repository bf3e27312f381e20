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
import { generateEvents } from '../../explore/generate-events.ts';
import { type AgentMachine, agentMachine } from '../../machines/agent.ts';
import { fromStored, toStored } from '../../machines/snapshot.ts';
import { type ChartState, makeStepper, type Step, type Stepper } from '../../machines/step.ts';
import type { RunConfig } from '../../protocol/config.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import { makeConfig, makeStarted } from '../support/machines/builders.ts';
import { events, machines, type RandomEvent } from '../support/machines/random-machines.ts';
import { choices, configs, WORLD } from '../support/machines/random-runs.ts';
import { randomCases } from '../support/sample.ts';

const STARTED = makeStarted(makeConfig());

const chart = makeStepper(agentMachine);
const xstate = makeStepper(agentMachine, { compiles: false });

const compiledOf = (machine: AgentMachine): Stepper => makeStepper(machine, { compiles: true });
const xstateOf = (machine: AgentMachine): Stepper => makeStepper(machine, { compiles: false });

/** All observable parts of a step: the persisted state, its tags, its active states, and the effects. */
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

/** Steps both machines through the events; the compiled machine also steps from each state of XState. */
function playBoth(machine: AgentMachine, script: readonly RandomEvent[]): void {
  const compiled = compiledOf(machine);
  const xstate = xstateOf(machine);
  let ours = compiled.initial(STARTED);
  let theirs = xstate.initial(STARTED);
  expect(show(ours)).toBe(show(theirs));
  for (const one of script) {
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
  it('takes the same steps as XState, for random machines', () => {
    fc.assert(fc.property(machines, events, playBoth), { numRuns: randomCases(200) });
  });

  it('leaves a state of another machine to XState', () => {
    const other = agentMachine.provide({ guards: { next: () => false } });
    const { state } = makeStepper(other).initial(STARTED);
    expect(state.value).toBe('deciding');
    const event = { type: 'step.requested', at: STARTED.at } as const;
    expect(show(chart.next(state, event))).toBe(show(makeStepper(other).next(state, event)));
  });

  it('stops an endless loop of transitions', () => {
    const machine = makeMachine({ a: { always: 'b', entry: 'count' }, b: { always: 'a' } });
    expect(() => compiledOf(machine).initial(STARTED)).toThrow('does not terminate');
  });
});

describe('the compiled chart', () => {
  it('is compiled completely', () => {
    expect(chart.refused).toBeNull();
  });

  it('takes the same steps as XState on random events, from live and from stored states', () => {
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
    fc.assert(fc.property(configs, choices, compare), { numRuns: randomCases(50) });
  });

  it('has states with the members of an XState actor', () => {
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

/** A machine with these states, starting in the first; `go` is the event of the tests. */
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

describe('an unsupported feature is refused by name, and XState makes the step', () => {
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
    ['options', '"options"', makeMachine({ a: {} }, { options: { maxIterations: 9 } })],
    [
      'actions of an initial edge',
      'actions of "initial"',
      makeMachine({ a: { initial: { target: 'x', actions: 'count' }, states: { x: {} } } }),
    ],
    ['several targets', 'to several states', makeMachine(go({ target: ['b', 'a'] }))],
    ['the root as a target', 'to the root', makeMachine(go({ target: '#m' }), { id: 'm' })],
    ["part of an event's name", 'matches several events', makeMachine({ a: { on: { 'go.*': 'b' } }, b: {} })],
    ['an unknown property of a state', '"novelty"', makeMachine({ a: { novelty: true } })],
    ['an unknown property of an edge', '"novelty"', makeMachine(go({ target: 'b', novelty: true }))],
    ['a custom action', 'the action "plain"', makeMachine(acting('plain'))],
    ['a missing action', 'the action "none"', makeMachine(acting('none'))],
    ['raise', 'the action "raise"', makeMachine(acting(raise({ type: 'x' })))],
    ['cancel', 'the action "cancel"', makeMachine(acting(cancel('x')))],
    ['log', 'the action "log"', makeMachine(acting(log('x')))],
    ['sendTo', 'the action "sendTo"', makeMachine(acting(sendTo(({ self }) => self, { type: 'x' })))],
    ['a computed stop', '"stopChild" of a computed', makeMachine(acting(stopChild(() => 'x')))],
    ['a computed id', 'a computed id', makeMachine(acting(spawnChild('modelTurn', { id: () => 'x' })))],
    ['a spawn without id', 'a computed id', makeMachine(acting(spawnChild('modelTurn')))],
    ['an unknown service', 'the actor "other"', makeMachine({ a: { invoke: { src: 'other' } } })],
    ['an inline actor', 'not a service', makeMachine({ a: { invoke: { src: fromPromise(async () => 1) } } })],
    ['a missing guard', 'the guard "none"', makeMachine(go({ target: 'b', guard: 'none' }))],
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
      'an enqueued custom action',
      'the action "own"',
      enqueueActions(({ enqueue }) => enqueue(function own() {})),
    ],
  ];

  it.each(late)('%s is only refused during a step', (_feature, name, action) => {
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

/** The steps of the start and one event, or the error. */
function outcomeOf(stepper: Stepper): string {
  try {
    const begun = stepper.initial(STARTED);
    return show(begun) + show(stepper.next(begun.state, { type: 'go' } as unknown as ChartEvent));
  } catch (error) {
    return String(error);
  }
}
