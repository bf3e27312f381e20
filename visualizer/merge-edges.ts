import type { ChartEdge } from './chart-graph.ts';

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
