/** The chart as data, read from the machine itself. Everything that shows the chart starts here. */
import { agentMachine } from '../machines/agent.ts';
import { listNodes } from '../machines/compiled/compile.ts';

export type GraphState = {
  /** The path of state names, joined by dots; empty for the root. */
  id: string;
  name: string;
  description: string;
  final: boolean;
  initial: string | null;
  invokes: string[];
  states: GraphState[];
};

export type ChartEdge = {
  from: string;
  to: string;
  /** The event; empty for an automatic transition. */
  event: string;
  /** The name of the guard; for `deciding`, the next action. */
  guard: string;
};

type ChartGraph = { states: GraphState[]; edges: ChartEdge[]; initial: string };

type Node = (typeof agentMachine)['root'];

/** Transitions that only record an event lead from a state to itself. */
export function readChart(): ChartGraph {
  const { root } = agentMachine;
  const edges = listNodes(root).flatMap(readEdges);
  return { states: Object.values(root.states).map(readState), edges, initial: idOf(root.initial.target[0]) };
}

function readState(node: Node): GraphState {
  const states = Object.values(node.states).map(readState);
  return {
    id: idOf(node),
    name: node.key,
    description: node.description ?? '',
    final: node.type === 'final',
    initial: states.length === 0 ? null : idOf(node.initial.target[0]),
    invokes: node.invoke.map(({ id }) => id),
    states,
  };
}

function readEdges(node: Node): ChartEdge[] {
  const transitions = [...[...node.transitions.values()].flat(), ...(node.always ?? [])];
  return transitions.flatMap(({ eventType, guard, target }) =>
    (target ?? [node]).map(to => ({
      from: idOf(node),
      to: idOf(to),
      event: eventType,
      guard: describeGuard(guard),
    })),
  );
}

function describeGuard(guard: unknown): string {
  if (typeof guard === 'string') return guard;
  if (typeof guard !== 'object' || guard === null || !('params' in guard)) return '';
  const { type, check } = guard.params as { type: string; check?: boolean };
  if (check === undefined) return type;
  return check ? `${type}, to be checked` : type;
}

function idOf(node: Node | undefined): string {
  return node?.path.join('.') ?? '';
}

/** All edges between two states. `labels` are events, or guards if there is no event. `from` is empty for any state. */
export type MergedEdge = { from: string; to: string; labels: string[] };

/** Merges the edges of each pair of states, in the chart's order. Omits edges from a state to itself. */
export function mergeEdges(edges: readonly ChartEdge[]): MergedEdge[] {
  const merged = new Map<string, MergedEdge>();
  for (const { from, to, event, guard } of edges) {
    if (from === to) continue;
    const key = edgeId(from, to);
    const line = merged.get(key) ?? { from, to, labels: [] };
    const label = event === '' ? guard : event;
    if (!line.labels.includes(label)) line.labels.push(label);
    merged.set(key, line);
  }
  return [...merged.values()];
}

/** The id of a state in the drawing: `state-resting-awaitingApproval`. */
export function stateId(id: string): string {
  return `state-${id.replaceAll('.', '-')}`;
}

/** The id of an edge in the drawing: `edge-deciding--resting-awaitingApproval`, `edge-any--cancelled`. */
export function edgeId(from: string, to: string): string {
  return `edge-${from === '' ? 'any' : from.replaceAll('.', '-')}--${to.replaceAll('.', '-')}`;
}
