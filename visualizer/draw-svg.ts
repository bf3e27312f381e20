import elk, { type ElkExtendedEdge, type ElkNode } from 'elkjs/lib/elk.bundled.js';
import { edgeId, type GraphState, type MergedEdge, mergeEdges, readChart, stateId } from './chart-graph.ts';

type Point = { x: number; y: number };
export type Box = Point & { width: number; height: number };

type PlacedState = Box & GraphState;

/** `points` lead from `from` to `to`. `label` is the top left of the label, `count` the right end of the count. */
type PlacedEdge = MergedEdge & { points: Point[]; label: Point; count: Point };

/** The text is monospaced, so its width is known without a browser. */
const TEXT = { labelSize: 10.5, lineHeight: 13, charWidth: 0.602 };

function widthOf(labels: readonly string[]): number {
  return Math.max(...labels.map(label => label.length)) * TEXT.labelSize * TEXT.charWidth;
}

const HUB = 'deciding';
const ANYWHERE = 'any';
const WIDTH = { state: 184, inner: 160, hub: 98 };
const HEIGHT = { state: 30, service: 44, gap: 42 };
const FRAME = { top: 32, side: 12, bottom: 12 };

const OPTIONS = {
  'elk.algorithm': 'layered',
  'elk.direction': 'RIGHT',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.padding': '[top=6,left=2,bottom=6,right=2]',
  'elk.layered.considerModelOrder.strategy': 'NODES_AND_EDGES',
  'elk.layered.crossingMinimization.forceNodeModelOrder': 'true',
  'elk.layered.edgeLabels.sideSelection': 'ALWAYS_UP',
  'elk.layered.nodePlacement.strategy': 'NETWORK_SIMPLEX',
  'elk.layered.nodePlacement.favorStraightEdges': 'true',
  'elk.layered.nodePlacement.networkSimplex.nodeFlexibility.default': 'NODE_SIZE',
  'elk.spacing.nodeNode': '16',
  'elk.spacing.edgeEdge': '10',
  'elk.spacing.edgeNode': '8',
  'elk.spacing.edgeLabel': '2',
  'elk.spacing.portsSurrounding': '[top=10,left=0,bottom=10,right=0]',
  'elk.layered.spacing.nodeNodeBetweenLayers': '12',
  'elk.layered.spacing.edgeNodeBetweenLayers': '12',
};

/** The chart in px around `deciding`, with its origin at the top left. `anywhere` is the source of edges from any state. */
export async function layoutChart() {
  const graph = readChart();
  const edges = sortEdges(mergeEdges(graph.edges), graph.states);
  const between = edges.filter(edge => !isInside(edge));
  const others = graph.states.filter(({ id }) => id !== HUB);
  const hub = graph.states.filter(({ id }) => id === HUB).map(state => toHub(state, between));
  const root: ElkNode = {
    id: 'chart',
    layoutOptions: OPTIONS,
    children: [
      ...hub,
      ...others.map(state => toNode(state, edges)),
      { id: ANYWHERE, width: WIDTH.hub, height: 26 },
    ],
    edges: between.map(edge => toEdge(edge, graph.states)),
  };
  const laidOut: ElkNode = await new elk.default().layout(root);
  const boxes = collectBoxes(laidOut);
  const all = graph.states.flatMap(state => [state, ...state.states]);
  const states = all.map((state): PlacedState => ({ ...boxOf(boxes, state.id), ...state }));
  return {
    width: laidOut.width ?? 0,
    height: laidOut.height ?? 0,
    initial: graph.initial,
    states,
    edges: edges.map(edge => (isInside(edge) ? drawInside(edge, boxes) : placeEdge(edge, laidOut, boxes))),
    anywhere: boxOf(boxes, ANYWHERE),
  };
}

/** Sorts by target state; for each state, edges from the hub before edges back to it, and a frame's own edges last. */
function sortEdges(edges: MergedEdge[], states: readonly GraphState[]): MergedEdge[] {
  const order = states.flatMap(({ id, states: inner }) => [...inner.map(child => child.id), id]);
  const rank = ({ from, to }: MergedEdge): number =>
    to === HUB ? order.indexOf(from) + 0.5 : order.indexOf(enteredBy(to, states));
  return edges.toSorted((one, other) => rank(one) - rank(other));
}

function enteredBy(id: string, states: readonly GraphState[]): string {
  return states.find(state => state.id === id)?.initial ?? id;
}

function isInside({ from, to }: MergedEdge): boolean {
  const [frame, inner] = from.split('.');
  return inner !== undefined && to.startsWith(`${frame}.`);
}

function toHub({ id }: GraphState, edges: readonly MergedEdge[]): ElkNode {
  const own = edges.filter(({ from, to }) => from === id || to === id);
  const ports = own.map(({ from, to }, index) => ({
    id: `port ${edgeId(from, to)}`,
    layoutOptions: { 'elk.port.side': 'EAST', 'elk.port.index': String(index) },
  }));
  return {
    id,
    ports,
    layoutOptions: {
      'elk.portConstraints': 'FIXED_ORDER',
      'elk.nodeSize.constraints': 'PORTS MINIMUM_SIZE',
      'elk.nodeSize.minimum': `(${WIDTH.hub},${HEIGHT.state})`,
    },
  };
}

/** A frame has room at the bottom for the labels of its outgoing edge. */
function toNode({ id, states, invokes }: GraphState, edges: readonly MergedEdge[]): ElkNode {
  const inner = id.includes('.');
  if (states.length === 0) {
    const height = invokes.length === 0 ? HEIGHT.state : HEIGHT.service;
    return { id, width: inner ? WIDTH.inner : WIDTH.state, height };
  }
  const leaving = edges.find(({ from }) => from === id)?.labels.length ?? 0;
  const bottom = FRAME.bottom + leaving * TEXT.lineHeight;
  const joined = edges.some(edge => isInside(edge) && edge.from.startsWith(`${id}.`));
  return {
    id,
    children: states.map(state => toNode(state, edges)),
    layoutOptions: {
      'elk.padding': `[top=${FRAME.top},left=${FRAME.side},bottom=${bottom},right=${FRAME.side}]`,
      'elk.spacing.nodeNode': String(joined ? HEIGHT.gap : 8),
    },
  };
}

function toEdge({ from, to, labels }: MergedEdge, states: readonly GraphState[]): ElkExtendedEdge {
  const id = edgeId(from, to);
  const width = widthOf(labels);
  return {
    id,
    layoutOptions: { 'elk.layered.priority.straightness': to === HUB ? '1' : '20' },
    sources: [from === '' ? ANYWHERE : `port ${id}`],
    targets: [to === HUB ? from : enteredBy(to, states)],
    labels: [{ text: id, width, height: labels.length * TEXT.lineHeight }],
  };
}

function collectBoxes(node: ElkNode, at: Point = { x: 0, y: 0 }, boxes = new Map<string, Box>()) {
  for (const child of node.children ?? []) {
    const corner = { x: at.x + (child.x ?? 0), y: at.y + (child.y ?? 0) };
    boxes.set(child.id, { ...corner, width: child.width ?? 0, height: child.height ?? 0 });
    collectBoxes(child, corner, boxes);
  }
  return boxes;
}

function boxOf(boxes: ReadonlyMap<string, Box>, id: string): Box {
  const box = boxes.get(id);
  if (box === undefined) throw new Error(`the layout has no state ${id}`);
  return box;
}

function placeEdge(edge: MergedEdge, root: ElkNode, boxes: ReadonlyMap<string, Box>): PlacedEdge {
  const placed = root.edges?.find(({ id }) => id === edgeId(edge.from, edge.to));
  const section = placed?.sections?.[0];
  const label = placed?.labels?.[0];
  if (placed === undefined || section === undefined || label === undefined)
    throw new Error(`the layout has no edge to ${edge.to}`);
  const container = 'container' in placed ? String(placed.container) : root.id;
  const { x, y } = container === root.id ? { x: 0, y: 0 } : boxOf(boxes, container);
  const points = [section.startPoint, ...(section.bendPoints ?? []), section.endPoint].map(point => ({
    x: point.x + x,
    y: point.y + y,
  }));
  const left = Math.min(...points.map(point => point.x));
  const right = boxOf(boxes, edge.to === HUB ? edge.from : (edge.to.split('.')[0] ?? edge.to)).x;
  const top = y + (label.y ?? 0);
  return {
    ...edge,
    points: edge.to === HUB ? straighten(points, boxOf(boxes, edge.from)).reverse() : points,
    label: { x: left + 12, y: top },
    count: { x: right - 10, y: top },
  };
}

/** Replaces the bends by a straight line if it still ends at the box. */
function straighten(points: Point[], { y, height }: Box): Point[] {
  const [start, end] = [points[0], points.at(-1)];
  if (start === undefined || end === undefined || start.y < y || start.y > y + height) return points;
  return [start, { x: end.x, y: start.y }];
}

/** Draws an edge straight down on the left or straight up on the right, with its label in the gap. */
function drawInside(edge: MergedEdge, boxes: ReadonlyMap<string, Box>): PlacedEdge {
  const [from, to] = [boxOf(boxes, edge.from), boxOf(boxes, edge.to)];
  const down = from.y < to.y;
  const x = down ? from.x + 16 : from.x + from.width - 16;
  const top = down ? from.y + from.height : to.y + to.height;
  const ends = [
    { x, y: top },
    { x, y: top + HEIGHT.gap },
  ];
  const width = widthOf(edge.labels);
  const y = down ? top + 6 : top + HEIGHT.gap - 7 - TEXT.lineHeight;
  return {
    ...edge,
    points: down ? ends : ends.reverse(),
    label: { x: down ? x + 8 : x - 8 - width, y },
    count: { x: down ? from.x + from.width - 24 : from.x + 44, y },
  };
}

const WRAP = { frame: 25, hub: 14 };

/** Draws without styles. States and edges are groups with stable ids and an empty `text.count` for the page to fill. */
function drawSvg(chart: Awaited<ReturnType<typeof layoutChart>>): string {
  const width = Math.ceil(chart.width);
  const height = Math.ceil(chart.height);
  const [frames, leaves] = [chart.states.filter(isFrame), chart.states.filter(state => !isFrame(state))];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="The agent's statechart">`,
    ...frames.map(drawState),
    ...chart.edges.map(drawEdge),
    drawStart(chart.states.find(({ id }) => id === chart.initial)),
    drawAnywhere(chart.anywhere),
    ...leaves.map(drawState),
    '</svg>',
    '',
  ].join('\n');
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
  const [dx, dy] = [Math.sign(tip.x - before.x), Math.sign(tip.y - before.y)];
  const foot = { x: tip.x - dx * HEAD.length, y: tip.y - dy * HEAD.length };
  const line = [...points.slice(0, -1), foot].map(({ x, y }, i) => `${i === 0 ? 'M' : 'L'}${px(x)} ${px(y)}`);
  const side = (sign: number) =>
    `L${px(foot.x + sign * dy * HEAD.half)} ${px(foot.y + sign * dx * HEAD.half)}`;
  const head = `M${px(tip.x)} ${px(tip.y)}${side(1)}${side(-1)}Z`;
  return `<path class="line" d="${line.join('')}"/><path class="head" d="${head}"/>`;
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
