import { edgeId, stateId } from './chart-graph.ts';
import {
  type Box,
  layoutChart,
  type PlacedChart,
  type PlacedEdge,
  type PlacedState,
  type Point,
  TEXT,
} from './layout-chart.ts';

/** The line length of a description in characters: in a frame, and in the hub. */
const WRAP = { frame: 25, hub: 14 };

/**
 * Draws the chart as SVG without a style sheet; `CHART_STYLE` has the styles. Every state and edge is a group with a
 * stable id (`stateId`, `edgeId`) and an empty `text.count` for the page to fill.
 */
function drawSvg(chart: PlacedChart): string {
  const width = Math.ceil(chart.width);
  const height = Math.ceil(chart.height);
  const frames = chart.states.filter(({ frame }) => frame);
  const leaves = chart.states.filter(({ frame }) => !frame);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="The agent's statechart">`,
    ...frames.map(drawState),
    ...chart.edges.map(drawEdge),
    drawStart(chart),
    drawAnywhere(chart.anywhere),
    ...leaves.map(drawState),
    '</svg>',
    '',
  ].join('\n');
}

function drawState(state: PlacedState): string {
  const { id, name, description, final, invokes, frame, x, y, width, height } = state;
  const tall = height > 120 && !frame;
  const kinds = ['state', ...(frame ? ['frame'] : []), ...(final ? ['final'] : [])].join(' ');
  const middle = frame || tall ? y + 20 : y + (invokes.length === 0 ? height / 2 + 4 : 19);
  const services = frame || invokes.length === 0 ? [] : [text('service', x + 12, y + 34, invokes.join(', '))];
  const lines = frame || tall ? wrap(description, frame ? WRAP.frame : WRAP.hub) : [];
  const first = tall ? y + 40 : y + height - 10 - (lines.length - 1) * TEXT.lineHeight;
  return [
    `<g class="${kinds}" id="${stateId(id)}" data-state="${id}">`,
    `<title>${escapeXml(`${name}: ${description}`)}</title>`,
    `<rect class="face" x="${px(x)}" y="${px(y)}" width="${px(width)}" height="${px(height)}" rx="${frame ? 9 : 6}"/>`,
    final
      ? `<rect class="inset" x="${px(x + 3)}" y="${px(y + 3)}" width="${px(width - 6)}" height="${px(height - 6)}" rx="4"/>`
      : '',
    text('name', x + 12, middle, name),
    ...services,
    ...lines.map((line, index) => text('service', x + 12, first + index * TEXT.lineHeight, line)),
    tall
      ? `<text class="count" x="${px(x + 12)}" y="${px(first + lines.length * TEXT.lineHeight + 6)}"></text>`
      : `<text class="count" x="${px(x + width - 9)}" y="${px(middle)}" text-anchor="end"></text>`,
    '</g>',
  ].join('');
}

function drawEdge({ from, to, labels, points, label, count }: PlacedEdge): string {
  const choice = from === 'deciding';
  const lines = labels.map((line, index) =>
    text('label', label.x, label.y + 10 + index * TEXT.lineHeight, line),
  );
  return [
    `<g class="edge${choice ? ' choice' : ''}" id="${edgeId(from, to)}" data-from="${from}" data-to="${to}">`,
    drawArrow(points),
    ...lines,
    `<text class="count" x="${px(count.x)}" y="${px(count.y + 10)}" text-anchor="end"></text>`,
    '</g>',
  ].join('');
}

const HEAD = { length: 7, half: 3.5 };

function drawArrow(points: readonly Point[]): string {
  const [before, tip] = points.slice(-2);
  if (tip === undefined || before === undefined) return '';
  const [dx, dy] = direction(before, tip);
  const foot = { x: tip.x - dx * HEAD.length, y: tip.y - dy * HEAD.length };
  const line = [...points.slice(0, -1), foot].map(({ x, y }, i) => `${i === 0 ? 'M' : 'L'}${px(x)} ${px(y)}`);
  const side = (sign: number) =>
    `L${px(foot.x + sign * dy * HEAD.half)} ${px(foot.y + sign * dx * HEAD.half)}`;
  const head = `M${px(tip.x)} ${px(tip.y)}${side(1)}${side(-1)}Z`;
  return `<path class="line" d="${line.join('')}"/><path class="head" d="${head}"/>`;
}

function direction(from: Point, to: Point): [number, number] {
  return [Math.sign(to.x - from.x), Math.sign(to.y - from.y)];
}

function drawStart({ states, initial }: PlacedChart): string {
  const first = states.find(({ id }) => id === initial);
  if (first === undefined) return '';
  const x = first.x + 24;
  const points = [
    { x, y: first.y - 18 },
    { x, y: first.y },
  ];
  return `<g class="start"><circle cx="${px(x)}" cy="${px(first.y - 20)}" r="4"/>${drawArrow(points)}</g>`;
}

function drawAnywhere({ x, y, width, height }: Box): string {
  return `<g class="anywhere"><rect class="face" x="${px(x)}" y="${px(y)}" width="${px(width)}" height="${px(height)}" rx="${px(height / 2)}"/>${text('service', x + 12, y + height / 2 + 4, 'any state')}</g>`;
}

function text(kind: string, x: number, y: number, content: string): string {
  return `<text class="${kind}" x="${px(x)}" y="${px(y)}">${escapeXml(content)}</text>`;
}

function wrap(content: string, length: number): string[] {
  const lines: string[] = [];
  for (const word of content.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > length) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

function px(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escapeXml(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

/** The source text of `chart-drawing.ts` for the current chart. Requires elkjs. */
export async function writeDrawing(): Promise<string> {
  const svg = drawSvg(await layoutChart());
  return [
    '/** The chart, drawn from the machine by draw-svg.ts. Generated by `npm run docs`; a test checks that it is current. */',
    `export const CHART_DRAWING = \`${svg.replaceAll(/[`\\$]/g, '\\$&')}\`;`,
    '',
  ].join('\n');
}
