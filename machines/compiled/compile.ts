// machines/compiled: the chart compiled from its XState machine. `compile.ts` prepares the edges,
// `compile-action.ts` the actions, `macrostep.ts` takes an event.

import { type AnyStateMachine, pathToStateValue } from 'xstate';
import type { ChartState } from '../agent.ts';
import type { Context } from '../context.ts';
import {
  ActionInput,
  compileAction,
  compileGuard,
  compileOutput,
  compileStart,
  type Expression,
  type Op,
} from './compile-action.ts';

/**
 * A compiled machine. It computes once what XState computes on every event: for each edge of each state, the states it
 * exits and enters, its operations in order, and the snapshot of its target. Guards and actions are the machine's own
 * functions.
 *
 * C1 Supported: nested states, `entry`, `exit`, `invoke`, `on` (including `*`), `always`, tags, final states of the
 *    root, `output`, and the actions and guards of `compile-action.ts`. Any other feature throws a `NotCompiled` that
 *    names it, here or in `assert-compilable.ts`.
 * C2 A step through these tables (`macrostep.ts`) equals the machine's own transition.
 */
export type CompiledMachine = {
  createContext: (event: { type: string; input: unknown }) => Context;
  start: CompiledEdge;
  places: ReadonlyMap<Node, CompiledState>;
};

export type CompiledState = {
  /** XState's snapshot in this state, without context and children. */
  snapshot: ChartState;
  /** Candidate edges by event, those of the innermost state first. `*` matches any event not listed. */
  on: ReadonlyMap<string, readonly CompiledEdge[]>;
  always: readonly CompiledEdge[];
};

export type CompiledEdge = { guard: Expression<boolean> | null; ops: readonly Op[]; to: CompiledState };

type Node = AnyStateMachine['root'];
type Transition = NonNullable<Node['always']>[number];
type DraftPlace = CompiledState & { on: Map<string, readonly CompiledEdge[]> };

/** Compiles a machine that has passed `assertCompilable`. Throws a `NotCompiled` for an action or guard it does not support. */
export function compile(machine: AnyStateMachine): CompiledMachine {
  const { root } = machine;
  const nodes = listNodes(root);
  const leaves = nodes.filter(({ type }) => type !== 'compound');
  const places = new Map(leaves.map(leaf => [leaf, draftPlace(leaf)]));
  for (const [leaf, place] of places) {
    const active = pathOut(leaf, null);
    const compileEdges = (transitions: readonly Transition[]) =>
      transitions.map(transition => compileEdge(transition, leaf, places));
    place.always = compileEdges(active.flatMap(({ always }) => always ?? []));
    for (const type of new Set(active.flatMap(({ transitions }) => [...transitions.keys()])))
      place.on.set(type, compileEdges(active.flatMap(node => listCandidates(node, type))));
  }
  const first = innermost(root);
  const start = { guard: null, ops: enter(first, null), to: placeAt(first, places) };
  return { createContext: contextOf(machine), start, places };
}

function contextOf({ config }: AnyStateMachine): CompiledMachine['createContext'] {
  const { context } = config;
  if (typeof context !== 'function') return () => context;
  return event => context(Object.assign(new ActionInput({}, event), { input: event.input }));
}

function draftPlace(leaf: Node): DraftPlace {
  const value = pathToStateValue(leaf.path);
  const snapshot = leaf.machine.resolveState({ value, context: {} });
  return { snapshot, on: new Map(), always: [] };
}

function placeAt(leaf: Node, places: ReadonlyMap<Node, CompiledState>): CompiledState {
  const place = places.get(leaf);
  if (place === undefined) throw new Error(`The chart has no innermost state "${leaf.id}".`);
  return place;
}

function listCandidates({ transitions }: Node, type: string): Transition[] {
  const any = type === '*' ? [] : (transitions.get('*') ?? []);
  return [...(transitions.get(type) ?? []), ...any];
}

/** Compiles a transition from one innermost state: exits from inside out, then its own actions, then entries. */
function compileEdge(
  transition: Transition,
  from: Node,
  places: ReadonlyMap<Node, CompiledState>,
): CompiledEdge {
  const { source, target, actions } = transition;
  const guard = compileGuard(transition.guard, source.machine);
  const own = actions.map(action => compileAction(action, source.machine));
  const goal = target?.[0];
  if (goal === undefined) return { guard, ops: own, to: placeAt(from, places) };
  const domain = domainOf(transition, goal);
  const to = innermost(goal);
  return { guard, ops: [...leave(from, domain), ...own, ...enter(to, domain)], to: placeAt(to, places) };
}

/** The innermost state around a transition, which is neither exited nor entered; `null` if even the root is. */
function domainOf({ source, reenter }: Transition, goal: Node): Node | null {
  if (!reenter && pathOut(goal, null).includes(source)) return source;
  const aroundSource = new Set(pathOut(source, null).slice(1));
  return (
    pathOut(goal, null)
      .slice(1)
      .find(node => aroundSource.has(node)) ?? null
  );
}

function leave(leaf: Node, domain: Node | null): Op[] {
  return pathOut(leaf, domain).flatMap(({ exit, invoke, machine }) => [
    ...exit.map(action => compileAction(action, machine)),
    ...invoke.map(({ id }): Op => ({ type: 'stop', id })),
  ]);
}

/** Entering a final state ends the run: it sets the output and runs the exit actions of all active states. */
function enter(leaf: Node, domain: Node | null): Op[] {
  const entered = pathOut(leaf, domain).reverse();
  const ended = leaf.type === 'final' ? pathOut(leaf, null) : [];
  return [
    ...entered.flatMap(({ entry, invoke, machine }) => [
      ...entry.map(action => compileAction(action, machine)),
      ...invoke.map(service => compileStart(service, machine)),
    ]),
    ...(leaf.type === 'final' ? [compileOutput(leaf)] : []),
    ...ended.flatMap(({ exit, machine }) => exit.map(action => compileAction(action, machine))),
  ];
}

/** The states from `node` outwards up to `end`, which is excluded; with `null`, up to and including the root. */
function pathOut(node: Node, end: Node | null): Node[] {
  const path: Node[] = [];
  for (let at: Node | undefined = node; at !== undefined && at !== end; at = at.parent) path.push(at);
  return path;
}

function innermost(node: Node): Node {
  const first = node.type === 'compound' ? node.initial.target[0] : undefined;
  return first === undefined ? node : innermost(first);
}

export function listNodes(node: Node): Node[] {
  return [node, ...Object.values(node.states).flatMap(listNodes)];
}
