import type { AnyStateMachine } from 'xstate';
import { listNodes } from './compile.ts';
import { NotCompiled } from './compile-action.ts';

type Node = AnyStateMachine['root'];

const STATE_KEYS = 'id initial states entry exit invoke on always tags type output description meta';
const ROOT_KEYS = `${STATE_KEYS} context types schemas version`;
const INVOKE_KEYS = 'id src input toJSON';
const TRANSITION_KEYS = 'target guard actions reenter description meta source eventType toJSON';

/** Throws a `NotCompiled` that names the first feature of a machine that `compile` does not support. */
export function assertCompilable({ root }: AnyStateMachine): void {
  listNodes(root).forEach(assertNode);
}

function assertNode(node: Node): void {
  const { id, type, parent, config, transitions, always = [], machine } = node;
  const where = `the state "${id}"`;
  if (type === 'parallel' || type === 'history') throw new NotCompiled(`${where}, which is ${type}`);
  if (parent === undefined && type !== 'compound') throw new NotCompiled(`${where}, which has no states`);
  if (type === 'final' && parent !== machine.root)
    throw new NotCompiled(`${where}, which is final within another`);
  assertKeys(config, parent === undefined ? ROOT_KEYS : STATE_KEYS, where);
  for (const service of node.invoke) assertKeys(service, INVOKE_KEYS, `the actor "${service.id}"`);
  if (node.initial.actions.length > 0) throw new NotCompiled(`actions of "initial" of ${where}`);
  for (const transition of [...[...transitions.values()].flat(), ...always]) {
    const { eventType, target = [] } = transition;
    const edge = `an edge of ${where} on "${eventType}"`;
    if (eventType.endsWith('.*')) throw new NotCompiled(`${edge}, which matches several events`);
    if (target.length > 1) throw new NotCompiled(`${edge} to several states`);
    if (target[0] === machine.root) throw new NotCompiled(`${edge} to the root`);
    assertKeys(transition, TRANSITION_KEYS, edge);
  }
}

function assertKeys(config: object, known: string, where: string): void {
  const names = known.split(' ');
  const other = Object.entries(config).find(([key, value]) => value !== undefined && !names.includes(key));
  if (other !== undefined) throw new NotCompiled(`"${other[0]}" of ${where}`);
}
