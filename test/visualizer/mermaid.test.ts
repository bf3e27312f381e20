import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { agentMachine } from '../../machines/agent.ts';
import { readChart } from '../../visualizer/chart-graph.ts';
import { chartToJson, chartToMermaid } from '../../visualizer/mermaid.ts';
import { insertChart } from '../../visualizer/write-readme-chart.ts';

test("ARCHITECTURE.md contains the chart's diagram, as `npm run docs` writes it", () => {
  const document = readFileSync(new URL('../../ARCHITECTURE.md', import.meta.url), 'utf8');
  expect(document).toBe(insertChart(document));
});

function namesOf(states: object = {}): string[] {
  return Object.entries(states).flatMap(([name, state]) => [name, ...namesOf(state.states)]);
}

test('the diagram contains every state of the machine and every transition that changes the state', () => {
  const drawing = chartToMermaid();
  const { edges } = readChart();
  const names = namesOf(agentMachine.config.states);
  expect(names).toHaveLength(19);
  for (const name of names) expect(drawing).toMatch(new RegExp(`\\b${name}\\b`));
  for (const { from, to, event, guard } of edges.filter(edge => edge.from !== edge.to)) {
    const [source, target] = [from, to].map(id => id.split('.').at(-1));
    const line = drawing.split('\n').find(text => text.includes(`${source} --> ${target}:`));
    if (from === '') expect(drawing).toContain(`${target}: ${event}`);
    else expect(line).toContain(event === '' ? guard : event);
  }
});

test('the chart as JSON names services, guards and final states', () => {
  const chart = JSON.stringify(chartToJson());
  expect(JSON.parse(chart)).toEqual(readChart());
  expect(chart).toContain('"invokes":["modelTurn"]');
  expect(chart).toContain('"guard":"canDecide"');
});
