import { edgeId, type GraphState, type MergedEdge, mergeEdges, readChart, stateId } from './chart-graph.ts';
import { CHART_PLACES } from './chart-places.ts';

export type Point = { x: number; y: number };
export type Box = Point & { width: number; height: number };

export type PlacedState = Box & GraphState;

/** `points` lead from `from` to `to`. `label` is the top left of the label, `count` the right end of the count. */
export type PlacedEdge = MergedEdge & { points: Point[]; label: Point; count: Point };

type Numbers = readonly number[];

export const LINE_HEIGHT = 13;
const WRAP = { frame: 25, hub: 14 };

/** Draws without styles. States and edges are groups with stable ids and an empty `text.count` for the page to fill. */
export function drawSvg(): string {
  const chart = readChart();
  const { size, anywhere, edges } = CHART_PLACES;
  const states: Readonly<Record<string, Numbers>> = CHART_PLACES.states;
  const all = chart.states.flatMap(state => [state, ...state.states]);
  const placed = all.map((state): PlacedState => ({ ...state, ...boxAt(states[state.id]) }));
  const [frames, leaves] = [placed.filter(isFrame), placed.filter(state => !isFrame(state))];
  const lines = mergeEdges(chart.edges).map((edge, index): PlacedEdge => {
    const [label = ZERO, count = ZERO, ...points] = (edges[index] ?? []).map(pointAt);
    return { ...edge, label, count, points };
  });
  const [width, height] = size;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="The agent's statechart">`,
    ...frames.map(drawState),
    ...lines.map(drawEdge),
    drawStart(placed.find(({ id }) => id === chart.initial)),
    drawAnywhere(boxAt(anywhere)),
    ...leaves.map(drawState),
    '</svg>',
    '',
  ].join('\n');
}

const ZERO: Point = { x: 0, y: 0 };

function pointAt([x = 0, y = 0]: Numbers): Point {
  return { x, y };
}

function boxAt([x = 0, y = 0, width = 0, height = 0]: Numbers = []): Box {
  return { x, y, width, height };
}

function isFrame({ states }: GraphState): boolean {
  return states.length > 0;
}

function drawState(state: PlacedState): string {
  const { id, name, description, final, invokes, x, y, width, height } = state;
  const frame = isFrame(state);
  const tall = height > 120 && !frame;
  const kinds = ['state', ...(frame ? ['frame'] : []), ...(final ? ['final'] : [])].join(' ');
  const middle = frame || tall ? y + 20 : y + (invokes.length === 0 ? height / 2 + 4 : 19);
  const services = frame || invokes.length === 0 ? [] : [text('service', x + 12, y + 34, invokes.join(', '))];
  const lines = frame || tall ? wrap(description, frame ? WRAP.frame : WRAP.hub) : [];
  const first = tall ? y + 40 : y + height - 10 - (lines.length - 1) * LINE_HEIGHT;
  return [
    `<g class="${kinds}" id="${stateId(id)}" data-state="${id}">`,
    `<title>${escapeXml(`${name}: ${description}`)}</title>`,
    `<rect class="face" x="${px(x)}" y="${px(y)}" width="${px(width)}" height="${px(height)}" rx="${frame ? 9 : 6}"/>`,
    final
      ? `<rect class="inset" x="${px(x + 3)}" y="${px(y + 3)}" width="${px(width - 6)}" height="${px(height - 6)}" rx="4"/>`
      : '',
    text('name', x + 12, middle, name),
    ...services,
    ...lines.map((line, index) => text('service', x + 12, first + index * LINE_HEIGHT, line)),
    tall
      ? `<text class="count" x="${px(x + 12)}" y="${px(first + lines.length * LINE_HEIGHT + 6)}"></text>`
      : `<text class="count" x="${px(x + width - 9)}" y="${px(middle)}" text-anchor="end"></text>`,
    '</g>',
  ].join('');
}

function drawEdge({ from, to, labels, points, label, count }: PlacedEdge): string {
  const choice = from === 'deciding';
  const lines = labels.map((line, index) => text('label', label.x, label.y + 10 + index * LINE_HEIGHT, line));
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
  const [dx, dy] = [Math.sign(tip.x - before.x), Math.sign(tip.y - before.y)];
  const foot = { x: tip.x - dx * HEAD.length, y: tip.y - dy * HEAD.length };
  const line = [...points.slice(0, -1), foot].map(({ x, y }, i) => `${i === 0 ? 'M' : 'L'}${px(x)} ${px(y)}`);
  const side = (sign: number) =>
    `L${px(foot.x + sign * dy * HEAD.half)} ${px(foot.y + sign * dx * HEAD.half)}`;
  const head = `M${px(tip.x)} ${px(tip.y)}${side(1)}${side(-1)}Z`;
  return `<path class="line" d="${line.join('')}" pathLength="1"/><path class="head" d="${head}"/>`;
}

function drawStart(first: Point | undefined): string {
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

/** The words of a text as lines of at most `length` characters; a longer word is a line of its own. */
export function wrap(content: string, length: number): string[] {
  const lines: string[] = [];
  for (const word of content.trim().split(/\s+/)) {
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
