import elk, { type ElkExtendedEdge, type ElkNode } from 'elkjs/lib/elk.bundled.js';
import { edgeId, type GraphState, type MergedEdge, mergeEdges, readChart } from './chart-graph.ts';
import { type Box, LINE_HEIGHT, type PlacedEdge, type PlacedState, type Point } from './draw-svg.ts';

const NAME = 'CHART_PLACES';

/** The text is monospaced, so its width is known without a browser. */
const TEXT = { labelSize: 10.5, charWidth: 0.602 };

function widthOf(labels: readonly string[]): number {
  return Math.max(...labels.map(label => label.length)) * TEXT.labelSize * TEXT.charWidth;
}

const HUB = 'deciding';
const ANYWHERE = 'any';
const WIDTH = { state: 240, inner: 216, hub: 98 };
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

/** The chart in px around `deciding`, with its origin at the top left. `anywhere` is where edges from any state begin. */
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
  const bottom = FRAME.bottom + leaving * LINE_HEIGHT;
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
    labels: [{ text: id, width, height: labels.length * LINE_HEIGHT }],
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
  const y = down ? top + 6 : top + HEIGHT.gap - 7 - LINE_HEIGHT;
  return {
    ...edge,
    points: down ? ends : ends.reverse(),
    label: { x: down ? x + 8 : x - 8 - width, y },
    count: { x: down ? from.x + from.width - 24 : from.x + 44, y },
  };
}

/** The source text of `chart-places.ts` for the current chart. Requires elkjs. */
export async function writePlaces(): Promise<string> {
  const chart = await layoutChart();
  const boxOf = ({ x, y, width, height }: Box) => [x, y, width, height].map(Math.round);
  const pair = ({ x, y }: Point) => [x, y].map(Math.round);
  const placed = new Map(chart.edges.map(edge => [edgeId(edge.from, edge.to), edge]));
  const places = {
    size: [chart.width, chart.height].map(Math.ceil),
    anywhere: boxOf(chart.anywhere),
    states: Object.fromEntries(chart.states.map(state => [state.id, boxOf(state)])),
    edges: mergeEdges(readChart().edges).flatMap(({ from, to }) => {
      const edge = placed.get(edgeId(from, to));
      return edge === undefined ? [] : [[edge.label, edge.count, ...edge.points].map(pair)];
    }),
  };
  return `/**
 * The places in the drawing of the chart, in px: boxes as x, y, width and height, by the ids of states; edges from any
 * state begin in \`anywhere\`. Each edge, in the order of \`mergeEdges\`, has the places of its label, of its count, and the
 * points of its line. Generated by \`npm run docs\`; a test checks that it is current.
 */
// biome-ignore format: generated
export const ${NAME} = ${JSON.stringify(places)};
`;
}
