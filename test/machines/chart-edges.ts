import { agentMachine } from '../../machines/agent.ts';

type Node = (typeof agentMachine)['root'];
export type Transition = NonNullable<Node['always']>[number];

export const ALL_NODES: readonly Node[] = collectNodes(agentMachine.root);

function collectNodes(node: Node): Node[] {
  return [node, ...Object.values(node.states).flatMap(collectNodes)];
}

/** Every state of the chart but the root, by its path. */
export function listStates(): string[] {
  return ALL_NODES.filter(({ path }) => path.length > 0).map(pathOf);
}

/** Every edge of the chart, by name. */
export function listEdges(): string[] {
  return ALL_NODES.flatMap(node => [...[...node.transitions.values()].flat(), ...(node.always ?? [])]).map(
    nameEdge,
  );
}

/** `source, event [guard with its params] -> target`, or what it does instead of moving. */
export function nameEdge({ source, eventType, guard, target, actions }: Transition): string {
  const to = target === undefined ? `(${actions.map(String).join()})` : target.map(pathOf).join();
  return `${pathOf(source)}, ${eventType || 'always'}${nameGuard(guard)} -> ${to}`;
}

function nameGuard(guard: unknown): string {
  if (guard === undefined) return '';
  return ` [${typeof guard === 'string' ? guard : JSON.stringify(guard)}]`;
}

export function pathOf(node: { path: string[] }): string {
  return node.path.length === 0 ? '(any)' : node.path.join('.');
}
