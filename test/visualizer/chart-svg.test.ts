import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { agentMachine } from '../../machines/agent.ts';
import { edgeId, readChart, stateId } from '../../visualizer/chart-graph.ts';
import { chartToSvg } from '../../visualizer/chart-svg.ts';
import type { Box } from '../../visualizer/draw-svg.ts';
import { layoutChart, writePlaces } from '../../visualizer/layout-chart.ts';

const read = (file: string): string => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

test('the shipped places match the machine: otherwise run `npm run docs`', async () => {
  expect(read('visualizer/chart-places.ts')).toBe(await writePlaces());
});

test('the picture in the docs is the shipped one', () => {
  expect(read('docs/images/chart.svg')).toBe(chartToSvg());
});

test('every state and every transition that changes the state has its id in the picture, once', () => {
  const svg = chartToSvg();
  const { edges } = readChart();
  const moving = edges.filter(({ from, to }) => from !== to).map(({ from, to }) => edgeId(from, to));
  const ids = [...pathsOf(agentMachine.config.states).map(stateId), ...new Set(moving)];
  expect(ids).toContain('state-resting-awaitingApproval');
  expect(ids).toContain('edge-deciding--turn');
  for (const id of ids) expect(svg.split(`id="${id}"`)).toHaveLength(2);
  expect(svg.match(/ id="/g)).toHaveLength(ids.length);
});

test('transitions that only record are left out, and run.cancelled is drawn once, from any state', () => {
  const svg = chartToSvg();
  expect(svg.match(/run\.cancelled/g)).toHaveLength(1);
  expect(svg).toContain('id="edge-any--cancelled"');
  expect(svg).not.toMatch(/tool\.started|tool\.settled/);
});

test('the picture supports light and dark mode by itself and loads no external resource', () => {
  const svg = chartToSvg();
  expect(svg).toContain('prefers-color-scheme: dark');
  expect(svg.match(/https?:\/\/[^"]+/g)).toEqual(['http://www.w3.org/2000/svg']);
  expect(svg).not.toMatch(/<script|url\(|href/);
});

test('no state overlaps another, and no edge crosses a state that it does not connect', async () => {
  const { states, edges } = await layoutChart();
  const leaves = states.filter(state => state.states.length === 0);
  for (const one of leaves) {
    for (const other of leaves) if (one !== other) expect(overlap(one, other)).toBe(false);
  }
  for (const { from, to, points } of edges) {
    const unrelated = leaves.filter(({ id }) => id !== from && id !== to && !id.startsWith(`${to}.`));
    for (const [index, end] of points.slice(1).entries()) {
      const start = points[index] ?? end;
      const line = {
        x: Math.min(start.x, end.x),
        y: Math.min(start.y, end.y),
        width: Math.abs(start.x - end.x),
        height: Math.abs(start.y - end.y),
      };
      for (const state of unrelated)
        expect(overlap(line, state), `${from} → ${to} over ${state.id}`).toBe(false);
    }
  }
});

function pathsOf(states: object = {}, prefix = ''): string[] {
  return Object.entries(states).flatMap(([name, state]) => [
    `${prefix}${name}`,
    ...pathsOf(state.states, `${prefix}${name}.`),
  ]);
}

function overlap(one: Box, other: Box): boolean {
  return (
    one.x < other.x + other.width &&
    other.x < one.x + one.width &&
    one.y < other.y + other.height &&
    other.y < one.y + one.height
  );
}
