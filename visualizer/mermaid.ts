import { type JsonValue, toJson } from '../protocol/json.ts';
import { type GraphState, mergeEdges, readChart } from './chart-graph.ts';

export function chartToJson(): JsonValue {
  return toJson(readChart());
}

/** The chart as a Mermaid state diagram, without transitions that only record an event, which every state has. */
export function chartToMermaid(): string {
  const { states, edges, initial } = readChart();
  const merged = mergeEdges(edges);
  return [
    'stateDiagram-v2',
    `  [*] --> ${nodeName(initial)}`,
    ...states.flatMap(state => drawState(state, '  ')),
    ...merged
      .filter(({ from }) => from !== '')
      .map(({ from, to, labels }) => `  ${nodeName(from)} --> ${nodeName(to)}: ${labels.join('<br/>')}`),
    ...states.filter(({ final }) => final).map(({ id }) => `  ${nodeName(id)} --> [*]`),
    ...merged
      .filter(({ from }) => from === '')
      .map(({ to, labels }) => `  note right of ${nodeName(to)}: ${labels.join(', ')}, from any state`),
    '',
  ].join('\n');
}

function drawState({ id, name, states, initial }: GraphState, indent: string): string[] {
  if (states.length === 0) return [`${indent}${name}`];
  return [
    `${indent}state ${nodeName(id)} {`,
    ...(initial === null || name === 'resting' ? [] : [`${indent}  [*] --> ${nodeName(initial)}`]),
    ...states.flatMap(state => drawState(state, `${indent}  `)),
    `${indent}}`,
  ];
}

function nodeName(id: string): string {
  return id.split('.').at(-1) ?? id;
}
