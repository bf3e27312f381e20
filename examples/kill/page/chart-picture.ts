import { edgeId } from '../../../visualizer/chart-graph.ts';
import type { RunModel } from '../../../visualizer/page/model/run-model.ts';
import {
  SKETCH_ARROWS,
  SKETCH_BOXES,
  SKETCH_SIZE,
  type SketchArrow,
} from '../../../visualizer/page/run/chart/chart-sketch.ts';

const APART = 9;
const HEAD = 7;

type ChartPicture = { element: SVGSVGElement; update(model: RunModel | null): void };

/** Draws the chart and highlights the current state and the edges taken last. */
export function makeChartPicture(): ChartPicture {
  const { width, height } = SKETCH_SIZE;
  const element = draw('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img' });
  const states = Object.entries(SKETCH_BOXES).map(([id, box]) => {
    const name = id.split('.').at(-1) ?? id;
    const [x, y] = box.frame ? [box.x + 12, box.y + 20] : [box.x + box.width / 2, box.y + box.height / 2 + 5];
    const group = draw('g', { class: `state${box.frame ? ' frame' : ''}`, 'data-state': id }, [
      draw('rect', { x: box.x, y: box.y, width: box.width, height: box.height, rx: 7 }),
      draw('text', { x, y, 'text-anchor': box.frame ? 'start' : 'middle' }, [name]),
    ]);
    return { id, group };
  });
  const arrows = SKETCH_ARROWS.flatMap(drawArrow);
  element.append(...arrows.map(({ group }) => group), ...states.map(({ group }) => group));
  return {
    element,
    update(model) {
      const path = model?.path.value ?? '';
      const latest = model === null ? [] : latestEdges(model);
      element.setAttribute('aria-label', `The agent's statechart. Current state: ${path || 'none yet'}.`);
      for (const { id, group } of states) {
        const isCurrent = path === id || path.startsWith(`${id}.`);
        group.classList.toggle('current', isCurrent);
        group.classList.toggle('visited', isCurrent || (model?.fold.count(id) ?? 0) > 0);
      }
      for (const { group, edges } of arrows) {
        group.classList.toggle(
          'latest',
          edges.some(edge => latest.includes(edge)),
        );
      }
    },
  };
}

/** The edges of the last entry that moved the chart. */
function latestEdges(model: RunModel): readonly string[] {
  for (let seq = model.last.value; seq > 0; seq -= 1) {
    const { edges } = model.foldAt(seq).taken;
    if (edges.length > 0) return edges;
  }
  return [];
}

type DrawnArrow = { group: SVGGElement; edges: string[] };

function drawArrow({ x, from, to, states, back }: SketchArrow): DrawnArrow[] {
  const out = back ? x - APART : x;
  return [
    { group: drawLine(out, from, to), edges: states.map(id => edgeId('deciding', id)) },
    ...(back
      ? [{ group: drawLine(x + APART, to, from), edges: states.map(id => edgeId(id, 'deciding')) }]
      : []),
  ];
}

function drawLine(x: number, from: number, to: number): SVGGElement {
  const foot = to - Math.sign(to - from) * HEAD;
  return draw('g', { class: 'arrow' }, [
    draw('path', { class: 'line', d: `M${x} ${from}V${foot}` }),
    draw('path', { class: 'head', d: `M${x} ${to}L${x - 4.5} ${foot}H${x + 4.5}Z` }),
  ]);
}

function draw<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, string | number>,
  children: readonly (Node | string)[] = [],
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}
