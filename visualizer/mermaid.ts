import { type JsonValue, toJson } from '../protocol/json.ts';
import { type ChartEdge, type ChartState, readChart } from './chart-graph.ts';

/** The chart as JSON: states with their descriptions, and edges with events and guards. */
export function chartToJson(): JsonValue {
  return toJson(readChart());
}

/**
 * The chart as a Mermaid state diagram. Edges that only record an event are left out: inputs are
 * welcome in every state, and the picture shows where they lead.
 */
export function chartToMermaid(): string {
  const { states, edges, initial } = readChart();
  const moving = edges.filter(edge => edge.from !== edge.to);
  return [
    'stateDiagram-v2',
    `  [*] --> ${nodeName(initial)}`,
    ...states.flatMap(state => drawState(state, '  ')),
    ...mergeEdges(moving).map(({ from, to, label }) => `  ${from} --> ${to}: ${label}`),
    ...states.filter(({ final }) => final).map(({ id }) => `  ${nodeName(id)} --> [*]`),
    ...moving
      .filter(({ from }) => from === '')
      .map(({ to, event }) => `  note right of ${nodeName(to)}: ${event}, from any state`),
    '',
  ].join('\n');
}

function drawState({ id, name, states, initial }: ChartState, indent: string): string[] {
  if (states.length === 0) return [`${indent}${name}`];
  return [
    `${indent}state ${nodeName(id)} {`,
    ...(initial === null || name === 'resting' ? [] : [`${indent}  [*] --> ${nodeName(initial)}`]),
    ...states.flatMap(state => drawState(state, `${indent}  `)),
    `${indent}}`,
  ];
}

/** One line for each pair of states, with its labels joined. What leads from the root becomes a note. */
function mergeEdges(edges: readonly ChartEdge[]): { from: string; to: string; label: string }[] {
  const merged = new Map<string, { from: string; to: string; labels: Set<string> }>();
  for (const { from, to, event, guard } of edges) {
    if (from === '') continue;
    const key = `${from} ${to}`;
    const line = merged.get(key) ?? { from: nodeName(from), to: nodeName(to), labels: new Set() };
    line.labels.add(event === '' ? guard : event);
    merged.set(key, line);
  }
  return [...merged.values()].map(({ from, to, labels }) => ({ from, to, label: [...labels].join('<br/>') }));
}

function nodeName(id: string): string {
  return id.split('.').at(-1) ?? id;
}
