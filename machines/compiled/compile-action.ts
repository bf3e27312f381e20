import {
  type AnyStateMachine,
  assign,
  cancel,
  emit,
  raise,
  sendParent,
  sendTo,
  spawnChild,
  stopChild,
} from 'xstate';
import { type Notice, SERVICE_NAMES, type ServiceInput, type ServiceName } from '../../protocol/effect.ts';
import { endCancelled } from '../agent.ts';
import { isReplacement } from '../context.ts';

/** Names a feature that cannot be compiled; XState's own transition is used instead. */
export class NotCompiled extends Error {
  constructor(feature: string) {
    super(`not compiled: ${feature}`);
  }
}

/** The argument of the machine's functions. They are pure: access to an actor is refused. */
export class ActionInput {
  readonly context: object;
  readonly event: { type: string; output?: unknown };

  constructor(context: object, event: { type: string; output?: unknown }) {
    this.context = context;
    this.event = event;
  }

  get self(): never {
    throw new NotCompiled('a function that uses "self"');
  }

  get system(): never {
    throw new NotCompiled('a function that uses "system"');
  }

  get spawn(): never {
    throw new NotCompiled('a function that uses "spawn"');
  }
}

/** A value of the definition, or its function of context and event with bound parameters. */
export type Expression<Value> = (given: ActionInput) => Value;

/** One operation of an edge. Later operations see the changes of an `assign`. */
export type Op =
  /** `replaces`: the update is a whole context. */
  | { type: 'assign'; update: Expression<object | undefined>; replaces: boolean }
  | { type: 'publish'; notice: Expression<Notice> }
  | { type: 'start'; service: ServiceName; id: string; input: Expression<ServiceInput> }
  | { type: 'stop'; id: string }
  /** The output of the machine, which ends. */
  | { type: 'output'; value: Expression<unknown> }
  /** `collect` returns the following operations, in order. */
  | { type: 'enqueue'; collect: Expression<readonly Op[]> };

type Collect = (given: ActionInput, params: unknown) => void;

type Computed<Value> = Value | ((given: ActionInput, params: unknown) => Value);

type ServiceDefinition = {
  src: unknown;
  id?: unknown;
  input?: unknown;
  systemId?: unknown;
  syncSnapshot?: unknown;
};

/** The event that XState starts a machine with. */
export const INIT = 'xstate.init';

/** The properties that XState's action creators set on the function that they return. */
type BuiltIn =
  | { type: 'xstate.assign'; assignment: object }
  | { type: 'xstate.emit'; event: Computed<Notice> }
  | { type: 'xstate.enqueueActions'; collect: Collect }
  | ({ type: 'xstate.spawnChild' } & ServiceDefinition)
  | { type: 'xstate.stopChild'; actorRef: unknown };

const BUILT_IN: ReadonlySet<unknown> = new Set<BuiltIn['type']>([
  'xstate.assign',
  'xstate.emit',
  'xstate.enqueueActions',
  'xstate.spawnChild',
  'xstate.stopChild',
]);

function isBuiltIn(action: unknown): action is BuiltIn {
  return typeof action === 'function' && 'type' in action && BUILT_IN.has(action.type);
}

export function compileAction(action: unknown, machine: AnyStateMachine): Op {
  const { name, params } = readReference(action);
  const found: unknown = typeof action === 'function' ? action : machine.implementations.actions[name];
  if (!isBuiltIn(found)) throw new NotCompiled(`the action "${name}"`);
  switch (found.type) {
    case 'xstate.assign':
      return {
        type: 'assign',
        update: bindUpdate(found.assignment, params),
        replaces: isReplacement(found.assignment),
      };
    case 'xstate.emit':
      return { type: 'publish', notice: bind(found.event, params) };
    case 'xstate.enqueueActions':
      return { type: 'enqueue', collect: bindCollect(found.collect, params, machine) };
    case 'xstate.spawnChild':
      return compileStart(found, machine);
    case 'xstate.stopChild':
      if (typeof found.actorRef !== 'string') throw new NotCompiled('"stopChild" of a computed actor');
      return { type: 'stop', id: found.actorRef };
  }
}

export function compileStart(service: ServiceDefinition, machine: AnyStateMachine): Op {
  const { src, id, input, systemId, syncSnapshot } = service;
  const name = SERVICE_NAMES.find(known => known === src);
  if (name === undefined || machine.implementations.actors[name] === undefined)
    throw new NotCompiled(`the actor "${String(src)}", which is not a service of the machine`);
  if (typeof id !== 'string') throw new NotCompiled(`the actor "${name}" with a computed id`);
  if (systemId !== undefined) throw new NotCompiled(`"systemId" of the actor "${id}"`);
  if (syncSnapshot) throw new NotCompiled(`"syncSnapshot" of the actor "${id}"`);
  return { type: 'start', service: name, id, input: bind(input as Computed<ServiceInput>, undefined) };
}

export function compileGuard(guard: unknown, machine: AnyStateMachine): Expression<boolean> | null {
  if (guard === undefined) return null;
  const { name, params } = readReference(guard);
  const found: unknown = typeof guard === 'function' ? guard : machine.implementations.guards[name];
  if (!isFunction<boolean>(found)) throw new NotCompiled(`the guard "${name}", which is not a function`);
  if ('check' in found) throw new NotCompiled(`the combined guard "${name}"`);
  return bind(found, params);
}

/** Compiles the output of the machine for one of its final states, whose own output is in the event. */
export function compileOutput({ id, output, machine }: AnyStateMachine['root']) {
  const inner = bind<unknown>(output, undefined);
  const outer = bind<unknown>(machine.root.output, undefined);
  const value: Expression<unknown> = given =>
    outer(new ActionInput(given.context, { type: `xstate.done.state.${id}`, output: inner(given) }));
  return { type: 'output', value } as const;
}

function readReference(reference: unknown): { name: string; params: Computed<unknown> } {
  if (typeof reference === 'function') return { name: reference.name, params: undefined };
  if (typeof reference === 'string') return { name: reference, params: undefined };
  const { type, params } = reference as { type: string; params?: unknown };
  return { name: type, params };
}

function bind<Value>(value: Computed<Value>, params: Computed<unknown>): Expression<Value> {
  if (!isFunction<Value>(value)) return () => value;
  if (!isFunction<unknown>(params)) return given => value(given, params);
  return given => value(given, params(given, undefined));
}

function isFunction<Value>(value: unknown): value is (given: ActionInput, params: unknown) => Value {
  return typeof value === 'function';
}

/** `assign` accepts a function, or an object with a value or a function for each key. */
function bindUpdate(assignment: object, params: Computed<unknown>): Expression<object | undefined> {
  if (typeof assignment === 'function') return bind<object | undefined>(assignment, params);
  const members = Object.entries(assignment).map(([key, value]) => [key, bind(value, params)] as const);
  return given => Object.fromEntries(members.map(([key, member]) => [key, member(given)]));
}

const CREATORS = { assign, cancel, emit, raise, sendParent, sendTo, spawnChild, stopChild };

/** The function runs first; its enqueued actions run afterwards, each with the then-current context. */
function bindCollect(
  collect: Collect,
  params: Computed<unknown>,
  machine: AnyStateMachine,
): Expression<readonly Op[]> {
  let ops: Op[] = [];
  const put = (action: unknown) => {
    if (action !== endCancelled) ops.push(compileAction(action, machine));
  };
  const creators = Object.entries(CREATORS).map(([name, create]: [string, (...args: never[]) => unknown]) => [
    name,
    (...args: never[]) => put(create(...args)),
  ]);
  const enqueue = Object.assign(put, Object.fromEntries(creators));
  const run = bind<void>(collect, params);
  return given => {
    ops = [];
    const check = (guard: unknown) => compileGuard(guard, machine)?.(given) ?? true;
    run(Object.assign(new ActionInput(given.context, given.event), { enqueue, check }));
    return ops;
  };
}
